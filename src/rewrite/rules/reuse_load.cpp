#include <algorithm>

#include "rewrite/build.h"
#include "rewrite/edit.h"
#include "rewrite/index.h"
#include "rewrite/operation.h"
#include "rewrite/rule.h"

namespace accelopt::rewrite {

using nki::Expr;
using nki::ExprKind;
using nki::ExprPtr;
using nki::Module;
using nki::Stmt;
using nki::StmtKind;

namespace {

struct Load {
    Place place;
    std::string source;  ///< canonical region, mask and dtype
    std::string tensor;
    std::string target;   ///< base name
    std::string indices;  ///< canonical indices of the target, "" when it is a name
};

std::optional<Load> read_load(const Kernel& kernel, const Place& place) {
    const Stmt& stmt = *place.stmt;
    if (stmt.kind != StmtKind::kAssign || stmt.targets.size() != 1 || place.guarded ||
        kernel.callee(*stmt.value) != "nl.load") {
        return std::nullopt;
    }
    const Expr* source = argument(*stmt.value, 0, "src");
    if (!source) return std::nullopt;
    Load out;
    out.place = place;
    const Expr* node = source;
    while (node->kind == ExprKind::kSubscript) node = node->operands[0].get();
    out.tensor = node->kind == ExprKind::kName ? node->text : "";
    if (out.tensor.empty() || !kernel.is_input(out.tensor)) return std::nullopt;
    out.source = canonical_key(kernel, *source);
    for (const char* keyword : {"mask", "dtype"}) {
        const Expr* value = argument(*stmt.value, 100, keyword);
        out.source +=
            std::string(" ") + keyword + "=" + (is_none(value) ? "" : mask_key(kernel, *value));
    }
    const Expr& target = *stmt.targets[0];
    out.target = base_name(target);
    if (out.target.empty()) return std::nullopt;
    if (target.kind == ExprKind::kSubscript) {
        if (target.operands[0]->kind != ExprKind::kName) return std::nullopt;
        for (const Index& index : read_indices(kernel, target)) out.indices += index.key();
    }
    return out;
}

/// The target is filled by this load alone and made once.
bool is_sole_writer(Kernel& kernel, const Load& load) {
    const Binding* bound = kernel.binding(load.target);
    if (!bound || bound->count != 1 || bound->updated ||
        kernel.memory(load.target) != load.target) {
        return false;
    }
    for (const Place& place : places(kernel.body())) {
        if (place.stmt == load.place.stmt || place.stmt->kind == StmtKind::kFor) continue;
        if (place.stmt == bound->stmt) continue;
        const Effects effects = kernel.effects(*place.stmt);
        if (effects.unknown || effects.writes.count(load.target) > 0) return false;
    }
    return true;
}

/// `first` runs before `second` in every iteration that reaches `second`.
bool dominates(const Load& first, const Load& second) {
    if (first.place.loops.size() > second.place.loops.size()) return false;
    for (std::size_t i = 0; i < first.place.loops.size(); ++i) {
        if (first.place.loops[i] != second.place.loops[i]) return false;
    }
    if (first.place.block == second.place.block) return first.place.index < second.place.index;
    if (first.place.loops.size() == second.place.loops.size()) return false;
    const Stmt* ancestor = second.place.loops[first.place.loops.size()];
    for (std::size_t i = first.place.index + 1; i < first.place.block->size(); ++i) {
        if ((*first.place.block)[i].get() == ancestor) return true;
    }
    return false;
}

bool may_replace(Kernel& kernel, const Load& first, const Load& second) {
    if (first.source != second.source || first.target == second.target ||
        first.indices != second.indices || !dominates(first, second)) {
        return false;
    }
    if (!is_sole_writer(kernel, first) || !is_sole_writer(kernel, second)) return false;
    for (const Place& place : places(kernel.body())) {
        if (kernel.effects(*place.stmt).writes.count(kernel.memory(first.tensor)) > 0) return false;
    }
    const Expr* a = kernel.allocation(first.target);
    const Expr* b = kernel.allocation(second.target);
    if (!a != !b) return false;
    if (!a) return true;
    const auto x = kernel.shape(*a);
    const auto y = kernel.shape(*b);
    if (!x || !y || *x != *y) return false;
    const Expr* dtype_a = argument(*a, 1, "dtype");
    const Expr* dtype_b = argument(*b, 1, "dtype");
    if (!dtype_a || !dtype_b) return false;
    if (canonical_key(kernel, *dtype_a) != canonical_key(kernel, *dtype_b)) return false;
    // Blocks must name the same tile at both loads and wherever the second one is read.
    return first.place.block == second.place.block;
}

/// A second load of a region that is still on chip.
class ReuseLoad : public Rule {
  public:
    std::string name() const override { return "reuse_load"; }
    std::string advice() const override {
        return "A region that is already on chip need not be loaded again: the second load and its "
               "buffer go away. It helps where DMA is busy or SBUF is tight.";
    }

    std::vector<Site> find(const Subject& subject) const override {
        std::vector<Site> sites;
        auto kernel = Kernel::open(nki::clone(subject.module), subject.input_shapes);
        if (!kernel) return sites;
        for (const auto& [first, second] : pairs(*kernel)) {
            Site site;
            site.rule = name();
            site.line = second.place.stmt->location.line;
            site.what = "use " + first.target + " instead of loading the same region of " +
                        second.tensor + " again on line " + std::to_string(site.line);
            site.relieves = "DMA";
            site.benefit = 1.5;
            sites.push_back(std::move(site));
        }
        return sites;
    }

    Result<Module, std::string> apply(const Subject& subject, const Site& site) const override {
        auto kernel = Kernel::open(nki::clone(subject.module), subject.input_shapes);
        if (!kernel) return Failure{std::string("there is no kernel function")};
        for (const auto& [first, second] : pairs(*kernel)) {
            if (second.place.stmt->location.line != site.line) continue;
            const auto dead = dead_names(*kernel);
            const std::string old = second.target;
            // Looked up before the load goes: it may be what binds the name.
            const auto* made = kernel->allocation(old) ? kernel->binding(old)->stmt : nullptr;
            nki::Block& block = *second.place.block;
            block.erase(block.begin() + static_cast<std::ptrdiff_t>(second.place.index));
            const ExprPtr kept = make_name(first.target);
            for (const Place& place : places(kernel->body())) {
                // The old array's own allocation becomes dead by its name.
                if (made && made == place.stmt) continue;
                if (place.stmt->kind == StmtKind::kFor) continue;
                for (auto& target : place.stmt->targets) substitute(target, old, *kept);
                substitute(place.stmt->value, old, *kept);
            }
            kernel->refresh();
            remove_dead(*kernel, dead);
            return kernel->take();
        }
        return Failure{std::string("no region is loaded a second time there")};
    }

  private:
    static std::vector<std::pair<Load, Load>> pairs(Kernel& kernel) {
        std::vector<Load> loads;
        for (const Place& place : places(kernel.body())) {
            if (auto load = read_load(kernel, place)) loads.push_back(std::move(*load));
        }
        std::vector<std::pair<Load, Load>> out;
        for (const Load& second : loads) {
            for (const Load& first : loads) {
                if (!may_replace(kernel, first, second)) continue;
                out.emplace_back(first, second);
                break;
            }
        }
        return out;
    }
};

}  // namespace

std::unique_ptr<Rule> make_reuse_load() { return std::make_unique<ReuseLoad>(); }

}  // namespace accelopt::rewrite
