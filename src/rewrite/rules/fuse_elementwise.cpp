#include <cmath>
#include <functional>

#include "core/error.h"
#include "rewrite/build.h"
#include "rewrite/edit.h"
#include "rewrite/emit.h"
#include "rewrite/retile.h"
#include "rewrite/rule.h"

namespace accelopt::rewrite {

using nki::Expr;
using nki::ExprPtr;
using nki::Module;
using nki::Stmt;
using nki::StmtKind;

namespace {

constexpr int kDepth = 8;
/// An edit must save at least this share of the elementwise work.
constexpr double kLeastSaving = 1e-4;

using Pattern =
    std::function<std::optional<Replacement>(Kernel&, const Algebra&, const Elementwise&)>;

bool same_shape(const Kernel& kernel, const Term& a, const Expr& target) {
    const auto x = kernel.shape(*a.tile);
    const auto y = kernel.shape(target);
    return x && y && *x == *y;
}

const std::set<std::string>& activation_functions() {
    static const std::set<std::string> kFunctions = {
        "exp",  "log",  "sin",      "tanh", "sigmoid", "sqrt", "rsqrt", "square",
        "relu", "gelu", "softplus", "mish", "arctan",  "erf",  "silu"};
    return kFunctions;
}

/// c * x + d for one tile: x - c * x, (x * c) * d, (x + c) * d, ...
std::optional<Replacement> one_tile(Kernel& kernel, const Algebra& algebra,
                                    const Elementwise& root) {
    const auto form = algebra.linear(root.term, kDepth);
    if (!form || !form->single()) return std::nullopt;
    const auto& part = form->parts[0];
    if (!same_shape(kernel, part.tile, *root.target)) return std::nullopt;
    if (part.factor == 1 && form->constant == 0) return std::nullopt;
    Replacement out;
    out.value = emit_affine(kernel, part.tile, part.factor, form->constant);
    return out;
}

/// f(scale * x + bias) for an activation function f: factors and offsets move into the instruction.
std::optional<Replacement> into_activation(Kernel& kernel, const Algebra& algebra,
                                           const Elementwise& root) {
    if (root.term.args.size() != 1 || activation_functions().count(root.term.op) == 0) {
        return std::nullopt;
    }
    const auto form = algebra.linear(root.term.args[0], kDepth);
    if (!form || !form->single()) return std::nullopt;
    const auto& part = form->parts[0];
    if (!same_shape(kernel, part.tile, *root.target)) return std::nullopt;
    Replacement out;
    ExprPtr bias;
    if (form->constant != 0) {
        const auto extents = kernel.shape(*root.target);
        const std::string name = kernel.fresh_name("bias");
        ExprPtr fill = make_call(kernel.api("nisa.memset"), {});
        std::vector<ExprPtr> shape;
        shape.push_back(make_integer(extents->front()));
        shape.push_back(make_integer(1));
        add_keyword(*fill, "shape", make_tuple(std::move(shape)));
        add_keyword(*fill, "value", make_real(form->constant));
        add_keyword(*fill, "dtype", kernel.api("nl.float32"));
        out.before.push_back(make_assign(make_name(name), std::move(fill)));
        bias = make_name(name);
    }
    out.value = emit_activation(kernel, root.term.op, part.tile, part.factor, std::move(bias));
    return out;
}

/// c * square(x) = square(sqrt(c) * x), and x * x = square(x): a product of tiles becomes an
/// activation.
std::optional<Replacement> into_square(Kernel& kernel, const Algebra& algebra,
                                       const Elementwise& root) {
    if (!root.term.is("multiply") && !root.term.is("divide")) return std::nullopt;
    double factor = 1;
    std::optional<Linear> inner;
    const auto scaled = algebra.linear(root.term, 1);
    const auto as_written = algebra.linear(root.term, 0);
    for (const auto& form : {as_written, scaled}) {
        if (!form || !form->single() || form->constant != 0) continue;
        const Term square = algebra.resolve(form->parts[0].tile);
        if (!square.is("square")) continue;
        factor = form->parts[0].factor;
        inner = algebra.linear(square.args[0], kDepth);
        break;
    }
    if (!inner && root.term.is("multiply")) {
        const auto a = algebra.linear(root.term.args[0], kDepth);
        const auto b = algebra.linear(root.term.args[1], kDepth);
        const bool tiles = a && b && a->single() && b->single() && a->constant == 0 &&
                           b->constant == 0 && a->parts[0].tile.key == b->parts[0].tile.key;
        if (tiles) {
            factor = a->parts[0].factor * b->parts[0].factor;
            inner = a;
            inner->parts[0].factor = 1;
        }
    }
    if (!inner || !inner->single() || inner->constant != 0 || factor <= 0) return std::nullopt;
    if (!same_shape(kernel, inner->parts[0].tile, *root.target)) return std::nullopt;
    Replacement out;
    out.value = emit_activation(kernel, "square", inner->parts[0].tile,
                                inner->parts[0].factor * std::sqrt(factor), nullptr);
    return out;
}

/// c1 * x + c2 * y as one two-tile instruction; one of the factors must be 1, -1, or already
/// multiplied in by an earlier statement, else one new statement does it.
std::optional<Replacement> two_tiles(Kernel& kernel, const Algebra& algebra,
                                     const Elementwise& root) {
    std::optional<Linear> form;
    for (const int depth : {kDepth, 2, 1}) {
        form = algebra.linear(root.term, depth);
        if (form && form->parts.size() == 2 && form->constant == 0) break;
        form.reset();
    }
    if (!form) return std::nullopt;
    Linear::Part a = form->parts[0];
    Linear::Part b = form->parts[1];
    for (const auto& part : {a, b}) {
        if (!same_shape(kernel, part.tile, *root.target)) return std::nullopt;
    }
    auto unit = [](const Linear::Part& part) { return std::abs(part.factor) == 1; };
    auto replace_by_available = [&](Linear::Part& part) {
        const Elementwise* held = unit(part) ? nullptr : algebra.available(part.tile, part.factor);
        if (!held) return false;
        part.tile = tile_term(kernel, *held->target);
        part.factor = 1;
        return true;
    };
    Replacement out;
    if (!unit(a) && !unit(b) && !replace_by_available(b) && !replace_by_available(a)) {
        const std::string name = kernel.fresh_name("scaled");
        ExprPtr scaled = emit_affine(kernel, b.tile, b.factor, 0);
        if (root.place.stmt->value->kind == nki::ExprKind::kCall) {
            const Expr* mask = argument(*root.place.stmt->value, 100, "mask");
            if (!is_none(mask)) add_keyword(*scaled, "mask", nki::clone(*mask));
        }
        out.before.push_back(make_assign(make_name(name), std::move(scaled)));
        // Only the name of the new tile is read.
        ExprPtr tile = make_name(name);
        ExprPtr call = emit_scaled_pair(kernel, a.tile, a.factor, "add", a.tile);
        *argument_slot(*call, 4, "operand1") = std::move(tile);
        out.value = std::move(call);
        return out;
    }
    if (unit(a) && unit(b)) {
        if (a.factor < 0 && b.factor < 0) return std::nullopt;
        if (a.factor < 0) std::swap(a, b);
        out.value = emit_pair(kernel, a.tile, b.tile, b.factor < 0 ? "subtract" : "add");
        return out;
    }
    if (unit(a)) std::swap(a, b);  // a carries the factor
    out.value =
        emit_scaled_pair(kernel, a.tile, a.factor, b.factor < 0 ? "subtract" : "add", b.tile);
    return out;
}

/// (c * x) * y as one instruction.
std::optional<Replacement> scaled_product(Kernel& kernel, const Algebra& algebra,
                                          const Elementwise& root) {
    if (!root.term.is("multiply")) return std::nullopt;
    const auto a = algebra.linear(root.term.args[0], kDepth);
    const auto b = algebra.linear(root.term.args[1], kDepth);
    if (!a || !b || !a->single() || !b->single() || a->constant != 0 || b->constant != 0) {
        return std::nullopt;
    }
    const double factor = a->parts[0].factor * b->parts[0].factor;
    const Term& x = a->parts[0].tile;
    const Term& y = b->parts[0].tile;
    if (factor == 1 || !same_shape(kernel, x, *root.target) ||
        !same_shape(kernel, y, *root.target)) {
        return std::nullopt;
    }
    Replacement out;
    out.value = emit_scaled_pair(kernel, x, factor, "multiply", y);
    return out;
}

const std::vector<Pattern>& simple_patterns() {
    static const std::vector<Pattern> kPatterns = {one_tile, into_activation, into_square};
    return kPatterns;
}

const std::vector<Pattern>& pair_patterns() {
    static const std::vector<Pattern> kPatterns = {two_tiles, scaled_product};
    return kPatterns;
}

/// Fuses chains of elementwise statements wherever that saves work.
class Fusion : public Rule {
  public:
    Fusion(std::string name, std::string advice, const std::vector<Pattern>& patterns,
           std::string relieves, double benefit)
        : name_(std::move(name)),
          advice_(std::move(advice)),
          patterns_(patterns),
          relieves_(std::move(relieves)),
          benefit_(benefit) {}

    std::string name() const override { return name_; }
    std::string advice() const override { return advice_; }

    std::vector<Site> find(const Subject& subject) const override {
        std::vector<Site> sites;
        auto kernel = Kernel::open(nki::clone(subject.module), subject.input_shapes);
        if (!kernel) return sites;
        std::map<int, std::vector<int>> by_block;  // line of the loop around -> lines of statements
        const double before = elementwise_cost(*kernel);
        const Definitions definitions(*kernel);
        for (const Place& place : places(kernel->body())) {
            auto fused = fuse_at(*kernel, definitions, *place.stmt);
            if (!fused) continue;
            const int around = place.loops.empty() ? 0 : place.loops.back()->location.line;
            by_block[around].push_back(place.stmt->location.line);
            const double saved = 1 - elementwise_cost(*fused) / before;
            sites.push_back(site(place.stmt->location.line,
                                 "compute line " + std::to_string(place.stmt->location.line) +
                                     " with fewer instructions by folding in what its operands do",
                                 1 + saved));
        }
        for (const auto& [line, lines] : by_block) {
            if (line == 0 || lines.size() < 2) continue;
            sites.push_back(site(line,
                                 "fold constant factors and chained elementwise steps in the loop "
                                 "of line " +
                                     std::to_string(line) + " into single instructions",
                                 1 + 0.25 * static_cast<double>(lines.size())));
        }
        return sites;
    }

    Result<Module, std::string> apply(const Subject& subject, const Site& site) const override {
        auto kernel = Kernel::open(nki::clone(subject.module), subject.input_shapes);
        if (!kernel) return Failure{std::string("there is no kernel function")};
        Stmt* stmt = statement_at(*kernel, site.line);
        if (!stmt) return Failure{std::string("no statement starts on that line")};
        if (stmt->kind == StmtKind::kFor) return fuse_loop(std::move(*kernel), *stmt);
        auto fused = fuse_at(*kernel, Definitions(*kernel), *stmt);
        if (!fused) return Failure{std::string("nothing on that line can be folded")};
        return fused->take();
    }

  private:
    Site site(int line, std::string what, double factor) const {
        Site out;
        out.rule = name_;
        out.line = line;
        out.what = std::move(what);
        out.relieves = relieves_;
        out.benefit = benefit_ * factor;
        return out;
    }

    /// The kernel with the statement fused by the first pattern that saves work.
    std::optional<Kernel> fuse_at(Kernel& kernel, const Definitions& definitions,
                                  const Stmt& stmt) const;

    Result<Module, std::string> fuse_loop(Kernel kernel, const Stmt& loop) const;

    std::string name_;
    std::string advice_;
    const std::vector<Pattern>& patterns_;
    std::string relieves_;
    double benefit_;
};

std::optional<Kernel> Fusion::fuse_at(Kernel& kernel, const Definitions& definitions,
                                      const Stmt& stmt) const {
    const Elementwise* root = definitions.at(stmt);
    if (!root || !root->engine.empty()) return std::nullopt;
    const auto path = path_to(kernel, stmt);
    for (const Pattern& pattern : patterns_) {
        // Tried on the kernel itself first: most statements match nothing.
        if (!pattern(kernel, Algebra(definitions, *root), *root)) continue;
        Kernel copy = kernel.clone();
        const auto dead = dead_names(copy);
        const Definitions copied(copy);
        const Elementwise target = *copied.at(*at_path(copy, path));
        auto replacement = pattern(copy, Algebra(copied, target), target);
        require(replacement.has_value(), "a pattern matches the copy of what it matched");
        replace_value(copy, target, std::move(*replacement));
        remove_dead(copy, dead);
        if (elementwise_cost(copy) < elementwise_cost(kernel) * (1 - kLeastSaving)) return copy;
    }
    return std::nullopt;
}

Result<Module, std::string> Fusion::fuse_loop(Kernel kernel, const Stmt& loop) const {
    // Statements come and go: the loop is known by its line.
    const int line = loop.location.line;
    bool any = false;
    for (bool again = true; again;) {
        again = false;
        Stmt* now = statement_at(kernel, line);
        if (!now) break;
        // Last statements first: the ends of chains take in what feeds them.
        const Definitions definitions(kernel);
        for (std::size_t i = now->body.size(); i-- > 0 && !again;) {
            auto fused = fuse_at(kernel, definitions, *now->body[i]);
            if (!fused) continue;
            kernel = std::move(*fused);
            again = any = true;
        }
    }
    if (!any) return Failure{std::string("nothing in that loop can be folded")};
    return kernel.take();
}

}  // namespace

std::unique_ptr<Rule> make_fuse_elementwise() {
    return std::make_unique<Fusion>(
        "fuse_elementwise",
        "Constant factors and offsets cost an instruction each; folding them into a neighbour "
        "(x - c x becomes (1 - c) x, a factor becomes an activation's scale, a square takes the "
        "root of the factor) removes that instruction. It helps where ScalarE or VectorE is busy.",
        simple_patterns(), "ACT DVE", 1.4);
}

std::unique_ptr<Rule> make_fuse_scalar_tensor() {
    return std::make_unique<Fusion>(
        "fuse_scalar_tensor",
        "A multiplication by a constant that feeds a two-tile operation can ride in the same "
        "instruction (scalar_tensor_tensor). It helps where ScalarE is busy or the chain of "
        "dependent instructions is long.",
        pair_patterns(), "ACT", 1.2);
}

}  // namespace accelopt::rewrite
