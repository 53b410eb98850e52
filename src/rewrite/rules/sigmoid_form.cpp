#include "rewrite/edit.h"
#include "rewrite/emit.h"
#include "rewrite/retile.h"
#include "rewrite/rule.h"

namespace accelopt::rewrite {

using nki::Module;
using nki::Stmt;
using nki::StmtKind;

namespace {

/// A function that ScalarE computes in one instruction, found in pieces.
struct Found {
    const char* function;
    Linear argument;
};

std::optional<Found> find_function(const Algebra& algebra, const Elementwise& root) {
    auto make = [&](const char* function, const Term& argument) -> std::optional<Found> {
        auto form = algebra.linear(argument, 8);
        if (!form || !form->single() || form->constant != 0) return std::nullopt;
        return Found{function, *form};
    };
    if (const auto x = algebra.silu_argument(root.term)) return make("silu", *x);
    if (!root.term.is("sigmoid")) {
        if (const auto x = algebra.sigmoid_argument(root.term)) return make("sigmoid", *x);
    }
    if (const auto x = algebra.rsqrt_argument(root.term)) return make("rsqrt", *x);
    return std::nullopt;
}

/// Longhand forms of sigmoid, silu and rsqrt.
class SigmoidForm : public Rule {
  public:
    std::string name() const override { return "sigmoid_form"; }
    std::string advice() const override {
        return "exp, add and reciprocal in sequence are a sigmoid (times x: silu), and a "
               "reciprocal "
               "of a square root is rsqrt; ScalarE computes each in one instruction, which frees "
               "VectorE of its slowest operation. It helps where VectorE or ScalarE is busy.";
    }

    std::vector<Site> find(const Subject& subject) const override {
        std::vector<Site> sites;
        auto kernel = Kernel::open(nki::clone(subject.module), subject.input_shapes);
        if (!kernel) return sites;
        const Definitions definitions(*kernel);
        for (const Place& place : places(kernel->body())) {
            const Elementwise* root = definitions.at(*place.stmt);
            if (!root || !find_function(Algebra(definitions, *root), *root)) continue;
            std::string function;
            if (!rewrite(*kernel, path_to(*kernel, *place.stmt), function)) continue;
            Site site;
            site.rule = name();
            site.line = place.stmt->location.line;
            site.what = "compute " + function + " in one ScalarE instruction on line " +
                        std::to_string(site.line);
            site.relieves = "DVE ACT";
            site.benefit = function == "silu" ? 3 : function == "sigmoid" ? 2 : 1.5;
            sites.push_back(std::move(site));
        }
        return sites;
    }

    Result<Module, std::string> apply(const Subject& subject, const Site& site) const override {
        auto kernel = Kernel::open(nki::clone(subject.module), subject.input_shapes);
        if (!kernel) return Failure{std::string("there is no kernel function")};
        Stmt* stmt = statement_at(*kernel, site.line);
        if (!stmt) return Failure{std::string("no statement starts on that line")};
        std::string function;
        auto out = rewrite(*kernel, path_to(*kernel, *stmt), function);
        if (!out) return Failure{std::string("no sigmoid, silu or rsqrt is computed there")};
        return out->take();
    }

  private:
    static std::optional<Kernel> rewrite(Kernel& kernel, const std::vector<std::size_t>& path,
                                         std::string& function) {
        const Stmt* stmt = at_path(kernel, path);
        if (!stmt || stmt->kind != StmtKind::kAssign) return std::nullopt;
        Kernel copy = kernel.clone();
        const auto dead = dead_names(copy);
        const Definitions definitions(copy);
        const Elementwise* root = definitions.at(*at_path(copy, path));
        if (!root || !root->engine.empty()) return std::nullopt;
        const auto found = find_function(Algebra(definitions, *root), *root);
        if (!found) return std::nullopt;
        const auto& part = found->argument.parts[0];
        // silu(c x) is not c x sigmoid(c x) unless the factor of x is the same; rsqrt and sigmoid
        // take any scale.
        function = found->function;
        const auto have = copy.shape(*part.tile.tile);
        const auto want = copy.shape(*root->target);
        if (!have || !want || *have != *want) return std::nullopt;
        Replacement replacement;
        replacement.value = emit_activation(copy, found->function, part.tile, part.factor, nullptr);
        const double before = elementwise_cost(kernel);
        const Elementwise target = *root;
        replace_value(copy, target, std::move(replacement));
        remove_dead(copy, dead);
        if (elementwise_cost(copy) >= before) return std::nullopt;
        return copy;
    }
};

}  // namespace

std::unique_ptr<Rule> make_sigmoid_form() { return std::make_unique<SigmoidForm>(); }

}  // namespace accelopt::rewrite
