#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "nki/syntax/ast.h"
#include "rewrite/walk.h"

namespace accelopt::rewrite {

/// Shapes of a kernel's tensor arguments; empty when they are not known.
using Shapes = std::vector<std::vector<std::int64_t>>;
using Shape = std::vector<std::int64_t>;

/// Hardware limits that rewrites respect (facts on the machine: Neuron SDK, NKI programming model).
inline constexpr std::int64_t kPartitionBytes = 192 * 1024;  ///< SBUF per partition
inline constexpr std::int64_t kResidentBytes = 128 * 1024;   ///< what hoisted arrays may keep
inline constexpr std::int64_t kElementBytes = 4;

/// A number known without running the kernel.
struct Number {
    bool integral = false;
    std::int64_t integer = 0;
    double real = 0;  ///< also set when integral
};

/// What is known about a variable of the kernel function.
struct Binding {
    int count = 0;  ///< how often it is bound (assigned, loop target, parameter)
    bool parameter = false;
    bool loop_variable = false;
    bool updated = false;                  ///< target of an augmented assignment
    std::vector<const nki::Expr*> values;  ///< of plain assignments `name = value`
    const nki::Expr* unpacked = nullptr;   ///< the tuple-like value that `a, b = value` unpacks
    int element = -1;                      ///< position in that tuple
    const nki::Stmt* stmt = nullptr;       ///< the last binding statement

    /// The value of the only binding, or null.
    const nki::Expr* only() const {
        return count == 1 && !updated && values.size() == 1 ? values[0] : nullptr;
    }
};

/// A counted loop over a range known at rewrite time.
struct LoopRange {
    std::string variable;
    std::int64_t start = 0;
    std::int64_t step = 1;
    std::int64_t trips = 0;
    bool associative = false;  ///< affine_range: the order of iterations does not matter
};

/// What a statement may change.
struct Effects {
    std::set<std::string> writes;  ///< memory classes (Kernel::memory)
    bool unknown = false;          ///< calls something that is not part of the NKI or numpy API
};

/// A module under rewrite: its kernel function with name, constant and shape tables. After an edit
/// call refresh() before asking again.
class Kernel {
  public:
    /// Takes the module; nullopt when it has no kernel function.
    static std::optional<Kernel> open(nki::Module module, Shapes input_shapes);

    /// Deep copy.
    Kernel clone() const;

    nki::Block& body() { return function_->body; }
    const nki::Block& body() const { return function_->body; }
    nki::Stmt& function() { return *function_; }
    const Shapes& input_shapes() const { return input_shapes_; }

    /// Rebuilds the tables.
    void refresh();
    /// Gives the module back, adding imports that api() needed.
    nki::Module take();

    /// Canonical dotted path of a name or attribute chain, aliases resolved: "nl.load",
    /// "nisa.activation", "np.float32"; "" when it is not such a chain.
    std::string path(const nki::Expr& expr) const;
    /// Canonical path of the callee; "" when `expr` is not a call.
    std::string callee(const nki::Expr& expr) const;
    /// Spells a canonical path ("nl.silu") with the names that this kernel imports.
    nki::ExprPtr api(const std::string& path);
    /// Returns a name that the kernel does not use yet.
    std::string fresh_name(const std::string& wish) const;

    const Binding* binding(const std::string& name) const;
    std::optional<Number> number(const nki::Expr& expr, int depth = 0) const;
    std::optional<std::int64_t> integer(const nki::Expr& expr) const;
    std::optional<double> real(const nki::Expr& expr) const;
    /// Constant value that a tile holds everywhere (memset, zeros), or of a plain number.
    std::optional<double> fill_value(const nki::Expr& expr) const;
    std::optional<LoopRange> loop_range(const nki::Stmt& stmt) const;

    /// Shape of a tensor or tile expression, block dimensions included for whole arrays.
    std::optional<Shape> shape(const nki::Expr& expr, int depth = 0) const;
    /// The allocation call (nl.ndarray, nl.zeros, ...) that makes the array `name`, or null.
    const nki::Expr* allocation(const std::string& name) const;
    /// "sbuf", "psum", "hbm" or "" of a named array or parameter.
    std::string buffer(const std::string& name) const;
    /// Whether it is a tensor argument (never an array the kernel makes).
    bool is_input(const std::string& name) const;

    /// Memory class of a name: views of one array share it.
    std::string memory(const std::string& name) const;
    Effects effects(const nki::Stmt& stmt) const;

    /// How often `name` is read: occurrences that are not a binding, a store target or an
    /// allocation of itself.
    int reads(const std::string& name) const;

  private:
    void collect_imports(const nki::Block& block);
    void collect_bindings(nki::Block& block);
    void bind_target(const nki::Expr& target, const nki::Stmt& stmt);
    void collect_memory();
    void match_inputs();
    void count_reads(const nki::Block& block, std::map<std::string, int>& counts) const;
    std::optional<double> array_fill(const std::string& name) const;
    void add_effects(const nki::Stmt& stmt, Effects& effects) const;
    void add_call_effects(const nki::Expr& expr, bool statement, Effects& effects) const;
    std::optional<Number> call_number(const nki::Expr& call, int depth) const;
    std::optional<Number> element_number(const nki::Expr& value, int element, int depth) const;
    std::optional<Shape> any_shape(const nki::Expr& expr, int depth) const;
    std::optional<Shape> name_shape(const nki::Expr& name, int depth) const;
    std::optional<Shape> subscript_shape(const nki::Expr& expr, int depth) const;
    std::optional<Shape> call_shape(const nki::Expr& call, int depth) const;
    bool names_api(const nki::Expr& expr) const;
    std::optional<Shape> shape_argument(const nki::Expr& expr) const;

    nki::Module module_;
    nki::Stmt* function_ = nullptr;
    Shapes input_shapes_;
    std::map<std::string, std::string> aliases_;  ///< local name -> canonical path
    std::map<std::string, Binding> bindings_;
    std::map<std::string, Shape> inputs_;
    std::map<std::string, std::string> memory_;
    std::set<std::string> needed_imports_;
    // Filled on demand, emptied by refresh().
    mutable std::map<std::string, std::optional<Shape>> name_shapes_;
    mutable std::map<std::string, std::optional<double>> fill_values_;
    mutable std::optional<std::map<std::string, int>> reads_;
};

/// Argument of a call by position (0-based) or keyword; null when absent.
const nki::Expr* argument(const nki::Expr& call, std::size_t position, const std::string& keyword);
/// Its slot.
nki::ExprPtr* argument_slot(nki::Expr& call, std::size_t position, const std::string& keyword);
bool is_none(const nki::Expr* expr);

}  // namespace accelopt::rewrite
