#include "rewrite/edit.h"
#include "rewrite/emit.h"
#include "rewrite/index.h"
#include "rewrite/rule.h"

namespace accelopt::rewrite {

using nki::Expr;
using nki::ExprKind;
using nki::ExprPtr;
using nki::Module;
using nki::Stmt;
using nki::StmtKind;

namespace {

bool is_sum_operator(const Kernel& kernel, const Expr* op) {
    if (!op) return false;
    const std::string path = kernel.path(*op);
    return path == "nl.add" || path == "np.add";
}

/// The slot of the tile that a statement sums along the free axis, or null.
ExprPtr* summed_tile(const Kernel& kernel, Stmt& stmt) {
    if (stmt.kind != StmtKind::kAssign || stmt.targets.size() != 1) return nullptr;
    const std::string path = kernel.callee(*stmt.value);
    if (path == "nl.sum") return argument_slot(*stmt.value, 0, "x");
    if (path != "nisa.tensor_reduce" || !is_sum_operator(kernel, argument(*stmt.value, 0, "op"))) {
        return nullptr;
    }
    return argument_slot(*stmt.value, 1, "data");
}

/// The statement that sums `name` over a loop (nl.loop_reduce), or null.
bool is_loop_sum(const Kernel& kernel, const Stmt& stmt) {
    return stmt.kind == StmtKind::kAssign && stmt.targets.size() == 1 &&
           kernel.callee(*stmt.value) == "nl.loop_reduce" &&
           is_sum_operator(kernel, argument(*stmt.value, 1, "op"));
}

/// A constant factor on its way from every element to the sum's only reader.
struct Factor {
    Stmt* scaled = nullptr;  ///< target = factor * tile
    Stmt* sum = nullptr;
    Stmt* reader = nullptr;  ///< where the factor goes
    std::string sum_name;    ///< what the reader reads
    double value = 1;
};

class Finder {
  public:
    explicit Finder(Kernel& kernel) : kernel_(kernel), definitions_(kernel) {}

    std::vector<Factor> all() {
        std::vector<Factor> out;
        for (const Elementwise& item : definitions_.all()) {
            if (const auto found = from(item)) out.push_back(*found);
        }
        return out;
    }

    /// New code of the reader, with the factor folded in.
    std::optional<Replacement> reader_code(const Factor& factor) {
        const Elementwise* reader = definitions_.at(*factor.reader);
        if (!reader || !reader->engine.empty()) return std::nullopt;
        const Term scaled = scale_tile(reader->term, factor.sum_name, factor.value);
        const Algebra algebra(definitions_, *reader);
        Replacement out;
        if (scaled.args.size() == 1) {
            static const std::set<std::string> kFunctions = {"rsqrt", "sqrt",    "exp", "square",
                                                             "tanh",  "sigmoid", "log"};
            const auto form = algebra.linear(scaled.args[0], 0);
            if (kFunctions.count(scaled.op) == 0 || !form || !form->single() ||
                form->constant != 0) {
                return std::nullopt;
            }
            out.value = emit_activation(kernel_, scaled.op, form->parts[0].tile,
                                        form->parts[0].factor, nullptr);
            return out;
        }
        const auto form = algebra.linear(scaled, 0);
        if (!form || !form->single()) return std::nullopt;
        const auto& part = form->parts[0];
        if (part.factor == 1 && form->constant == 0) return std::nullopt;
        out.value = emit_affine(kernel_, part.tile, part.factor, form->constant);
        return out;
    }

    const Elementwise* at(const Stmt& stmt) const { return definitions_.at(stmt); }
    const Definitions& definitions() const { return definitions_; }

  private:
    static Term scale_tile(Term term, const std::string& name, double factor) {
        if (term.is_tile()) {
            if (base_name(*term.tile) != name) return term;
            return operation_term("multiply", {term, number_term(factor)});
        }
        for (Term& arg : term.args) arg = scale_tile(arg, name, factor);
        return term;
    }

    /// The only statement that reads `name`, once.
    Stmt* only_reader(const std::string& name) {
        if (name.empty() || kernel_.reads(name) != 1 || kernel_.memory(name) != name)
            return nullptr;
        for (const Place& place : places(kernel_.body())) {
            if (place.guarded || place.stmt->kind != StmtKind::kAssign) continue;
            if (mentions(*place.stmt->value, name)) return place.stmt;
        }
        return nullptr;
    }

    /// The only statement that writes `name` is this one.
    bool only_writer(const std::string& name, const Stmt& writer) {
        const Binding* bound = kernel_.binding(name);
        if (!bound || bound->count != 1 || bound->updated) return false;
        for (const Place& place : places(kernel_.body())) {
            if (place.stmt == &writer || place.stmt == bound->stmt ||
                place.stmt->kind == StmtKind::kFor) {
                continue;
            }
            const Effects effects = kernel_.effects(*place.stmt);
            if (effects.unknown || effects.writes.count(kernel_.memory(name)) > 0) return false;
        }
        return bound->stmt == &writer || kernel_.callee(*bound->only()) == "nl.ndarray";
    }

    std::optional<Factor> from(const Elementwise& item) {
        const Algebra algebra(definitions_, item);
        const auto form = algebra.linear(item.term, 0);
        if (!form || !form->single() || form->constant != 0 || form->parts[0].factor == 1 ||
            !item.engine.empty()) {
            return std::nullopt;
        }
        const auto have = kernel_.shape(*form->parts[0].tile.tile);
        const auto want = kernel_.shape(*item.target);
        if (!have || !want || *have != *want) return std::nullopt;
        Factor out;
        out.scaled = item.place.stmt;
        out.value = form->parts[0].factor;
        out.sum = only_reader(base_name(*item.target));
        ExprPtr* data = out.sum ? summed_tile(kernel_, *out.sum) : nullptr;
        if (!data) return std::nullopt;
        const auto place = place_of(kernel_, *out.sum);
        const Expr* mask = argument(*out.sum->value, 100, "mask");
        const Term tile = tile_term(kernel_, **data);
        const std::string mask_text = is_none(mask) ? "" : mask_key(kernel_, *mask);
        if (place->block != item.place.block ||
            definitions_.reaching(tile, *place, mask_text) != &item) {
            return std::nullopt;
        }
        // The sum, possibly summed again over a loop, is read in one place.
        Stmt* holder = out.sum;
        std::string name = base_name(*holder->targets[0]);
        if (!only_writer(name, *holder)) return std::nullopt;
        out.reader = only_reader(name);
        if (out.reader && is_loop_sum(kernel_, *out.reader)) {
            holder = out.reader;
            name = base_name(*holder->targets[0]);
            if (!only_writer(name, *holder)) return std::nullopt;
            out.reader = only_reader(name);
        }
        out.sum_name = name;
        if (!out.reader || !reader_code(out)) return std::nullopt;
        return out;
    }

    Kernel& kernel_;
    Definitions definitions_;
};

class MoveFactorOut : public Rule {
  public:
    std::string name() const override { return "move_factor_out"; }
    std::string advice() const override {
        return "A constant factor on every summand is a factor of the sum: it leaves the loop and "
               "becomes the scale of the instruction that reads the sum. It helps where ScalarE or "
               "VectorE is busy and shortens the chain of dependent instructions.";
    }

    std::vector<Site> find(const Subject& subject) const override {
        std::vector<Site> sites;
        auto kernel = Kernel::open(nki::clone(subject.module), subject.input_shapes);
        if (!kernel) return sites;
        for (const Factor& factor : Finder(*kernel).all()) {
            Site site;
            site.rule = name();
            site.line = factor.scaled->location.line;
            site.what = "take the constant factor of line " + std::to_string(site.line) +
                        " out of the sum of line " + std::to_string(factor.sum->location.line) +
                        " and fold it into line " + std::to_string(factor.reader->location.line);
            site.relieves = "ACT DVE PE";
            site.benefit = 1.4;
            sites.push_back(std::move(site));
        }
        return sites;
    }

    Result<Module, std::string> apply(const Subject& subject, const Site& site) const override {
        auto kernel = Kernel::open(nki::clone(subject.module), subject.input_shapes);
        if (!kernel) return Failure{std::string("there is no kernel function")};
        Finder finder(*kernel);
        for (const Factor& factor : finder.all()) {
            if (factor.scaled->location.line != site.line) continue;
            const auto dead = dead_names(*kernel);
            const Elementwise scaled = *finder.at(*factor.scaled);
            const Elementwise reader = *finder.at(*factor.reader);
            const auto form = Algebra(finder.definitions(), scaled).linear(scaled.term, 0);
            auto code = finder.reader_code(factor);
            if (!form || !code) break;
            *summed_tile(*kernel, *factor.sum) = nki::clone(*form->parts[0].tile.tile);
            replace_value(*kernel, reader, std::move(*code));
            remove_dead(*kernel, dead);
            return kernel->take();
        }
        return Failure{std::string("no constant factor can leave a sum there")};
    }
};

}  // namespace

std::unique_ptr<Rule> make_move_factor_out() { return std::make_unique<MoveFactorOut>(); }

}  // namespace accelopt::rewrite
