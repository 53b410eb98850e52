#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "rewrite/kernel.h"

namespace accelopt::rewrite {

/// What an elementwise statement computes: a tree over tiles and numbers, whatever API spelled it.
struct Term {
    enum class Kind { kNumber, kTile, kOperation };
    Kind kind = Kind::kNumber;
    double number = 0;
    const nki::Expr* tile = nullptr;  ///< points into the kernel
    std::string key;                  ///< canonical text of the tile
    std::string op;                   ///< add, subtract, multiply, divide, exp, square, ...
    std::vector<Term> args;

    bool is_number() const { return kind == Kind::kNumber; }
    bool is_tile() const { return kind == Kind::kTile; }
    bool is(const char* name) const { return kind == Kind::kOperation && op == name; }
};

Term number_term(double value);
Term tile_term(const Kernel& kernel, const nki::Expr& tile);
Term operation_term(const std::string& op, std::vector<Term> args);

/// Reads the value of an elementwise statement; nullopt when it is not one.
std::optional<Term> read_term(const Kernel& kernel, const nki::Expr& value);

/// An elementwise statement `target = term`, and what modifies it.
struct Elementwise {
    Place place;
    const nki::Expr* target = nullptr;
    std::string target_key;
    Term term;
    std::string mask;    ///< canonical mask, "" = none
    std::string dtype;   ///< canonical dtype keyword, "" = none
    std::string engine;  ///< asked-for engine, "" = the compiler's choice
};

std::optional<Elementwise> read_elementwise(const Kernel& kernel, const Place& place);

/// Definitions that reach a use within one block.
class Definitions {
  public:
    explicit Definitions(Kernel& kernel);

    /// The elementwise definition of `tile` that a statement at `use` sees, provided that computing
    /// it anew at `use` gives the same value: same mask, float32, operands unchanged in between.
    const Elementwise* reaching(const Term& tile, const Place& use, const std::string& mask) const;
    /// The elementwise statement that stands there, or null.
    const Elementwise* at(const nki::Stmt& stmt) const;
    const std::vector<Elementwise>& all() const { return all_; }
    /// Whether a value computed from `names` just before statement `from` is the same just before
    /// `to` of the same block.
    bool unchanged(const std::set<std::string>& memories, const nki::Block& block, std::size_t from,
                   std::size_t to) const;

  private:
    const Effects& effects(const nki::Stmt& stmt) const;

    Kernel& kernel_;
    std::vector<Elementwise> all_;
    std::map<const nki::Stmt*, std::size_t> by_stmt_;
    mutable std::map<const nki::Stmt*, Effects> effects_;  ///< filled on demand
};

/// Memory classes of the tiles in a term.
std::set<std::string> memories_of(const Kernel& kernel, const Term& term);

}  // namespace accelopt::rewrite
