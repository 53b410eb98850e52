#include <algorithm>
#include <functional>

#include "rewrite/build.h"
#include "rewrite/edit.h"
#include "rewrite/index.h"
#include "rewrite/liveness.h"
#include "rewrite/retile.h"
#include "rewrite/rule.h"

namespace accelopt::rewrite {

using nki::Expr;
using nki::ExprKind;
using nki::ExprPtr;
using nki::Module;
using nki::Stmt;
using nki::StmtKind;
using nki::StmtPtr;

namespace {

/// nl.matmul(x, y) transposes x on TensorE at every call (Neuron SDK, NKI performance guide).
ExprPtr* find_matmul(Kernel& kernel, Stmt& stmt) {
    ExprPtr* found = nullptr;
    if (!stmt.value || stmt.kind == StmtKind::kFor) return nullptr;
    visit_slots(stmt.value, [&](ExprPtr& node) {
        if (kernel.callee(*node) == "nl.matmul") found = &node;
        return true;
    });
    if (!found) return nullptr;
    const Expr* transposed = argument(**found, 2, "transpose_x");
    if (is_none(transposed)) return found;
    const bool* flag = transposed->kind == ExprKind::kConstant
                           ? std::get_if<bool>(&transposed->constant)
                           : nullptr;
    return flag && !*flag ? found : nullptr;
}

struct Transpose {
    std::size_t first_loop = 0;           ///< the transposes go before this loop
    std::vector<std::size_t> kept_loops;  ///< loops that select the part of x
    Shape extents;                        ///< of the part of x
    std::string base;
};

Result<Transpose, std::string> plan(Kernel& kernel, const Place& place) {
    ExprPtr* call = find_matmul(kernel, *place.stmt);
    if (!call || place.guarded || place.loops.empty()) {
        return Failure{std::string("no nl.matmul with a transposed operand in a loop")};
    }
    const Expr* x = argument(**call, 0, "x");
    if (!x) return Failure{std::string("no first operand")};
    Transpose out;
    out.base = base_name(*x);
    const Binding* bound = out.base.empty() ? nullptr : kernel.binding(out.base);
    const auto extents = kernel.shape(*x);
    const std::string buffer = bound ? kernel.buffer(out.base) : "";
    if (!bound || bound->parameter || bound->loop_variable || !extents || extents->size() != 2 ||
        buffer == "hbm" || buffer == "psum") {
        return Failure{std::string("the operand is no tile of known shape")};
    }
    if ((*extents)[0] > 128 || (*extents)[1] > 128) {
        return Failure{std::string("the operand is larger than one transpose")};
    }
    out.extents = *extents;
    // The innermost loops in which the tile stays as it is.
    std::size_t first = place.loops.size();
    while (first > 0) {
        const Effects effects = kernel.effects(*place.loops[first - 1]);
        if (effects.unknown || effects.writes.count(kernel.memory(out.base)) > 0) break;
        --first;
    }
    if (first == place.loops.size()) return Failure{std::string("the operand changes")};
    bool redundant = false;
    std::int64_t repeats = 1;
    for (std::size_t i = first; i < place.loops.size(); ++i) {
        const auto range = kernel.loop_range(*place.loops[i]);
        if (!range) return Failure{std::string("a loop of unknown range")};
        if (!depends_on(kernel, *x, range->variable)) {
            redundant = true;
            repeats *= range->trips;
            continue;
        }
        if (range->start != 0 || range->step != 1) {
            return Failure{std::string("a loop does not count from zero")};
        }
        for (std::size_t j = first; j < i; ++j) {
            const auto outer = kernel.loop_range(*place.loops[j]);
            if (depends_on(kernel, *place.loops[i]->value, outer->variable)) {
                return Failure{std::string("an inner range depends on an outer loop")};
            }
        }
        out.kept_loops.push_back(i);
    }
    if (!redundant || repeats < 2) {
        return Failure{std::string("each transpose is used once")};
    }
    out.first_loop = first;
    return out;
}

ExprPtr iota(Kernel& kernel, std::int64_t size, bool partition) {
    std::vector<ExprPtr> arguments;
    arguments.push_back(make_integer(size));
    std::vector<ExprPtr> indices;
    indices.push_back(partition ? make_full_slice() : make_none());
    indices.push_back(partition ? make_none() : make_full_slice());
    return make_subscript(make_call(kernel.api("nl.arange"), std::move(arguments)),
                          std::move(indices));
}

/// Index names made inside the loops are spelled out.
void inline_names(Kernel& kernel, ExprPtr& slot, const Stmt& loop) {
    for (bool again = true; again;) {
        again = false;
        std::set<std::string> names;
        collect_names(*slot, names);
        for (const std::string& name : names) {
            const Binding* bound = kernel.binding(name);
            const Expr* value = bound ? bound->only() : nullptr;
            if (!value || affine(kernel, *value).iotas.empty()) continue;
            bool inside = false;
            for (const Place& item : places(const_cast<Stmt&>(loop).body)) {
                inside = inside || item.stmt == bound->stmt;
            }
            if (!inside) continue;
            const ExprPtr spelled = nki::clone(*value);
            substitute(slot, name, *spelled);
            again = true;
        }
    }
}

void move(Kernel& kernel, const Place& place, const Transpose& plan) {
    ExprPtr* call = find_matmul(kernel, *place.stmt);
    ExprPtr* operand = argument_slot(**call, 0, "x");
    const std::int64_t rows = plan.extents[0];
    const std::int64_t columns = plan.extents[1];
    const std::string name = kernel.fresh_name(plan.base + "_t");
    auto access = [&]() {
        std::vector<ExprPtr> indices;
        for (const std::size_t j : plan.kept_loops) {
            indices.push_back(nki::clone(*place.loops[j]->targets[0]));
        }
        indices.push_back(iota(kernel, columns, true));
        indices.push_back(iota(kernel, rows, false));
        return make_subscript(make_name(name), std::move(indices));
    };
    std::vector<ExprPtr> shape;
    for (const std::size_t j : plan.kept_loops) {
        shape.push_back(make_integer(kernel.loop_range(*place.loops[j])->trips));
    }
    std::vector<ExprPtr> partition;
    partition.push_back(make_integer(columns));
    shape.push_back(make_call(kernel.api("nl.par_dim"), std::move(partition)));
    shape.push_back(make_integer(rows));
    std::vector<ExprPtr> arguments;
    arguments.push_back(make_tuple(std::move(shape)));
    ExprPtr made = make_call(kernel.api("nl.ndarray"), std::move(arguments));
    add_keyword(*made, "dtype", make_attribute(make_name(plan.base), "dtype"));
    add_keyword(*made, "buffer", kernel.api("nl.sbuf"));

    inline_names(kernel, *operand, *place.loops[plan.first_loop]);
    std::vector<ExprPtr> source;
    source.push_back(std::move(*operand));
    std::vector<ExprPtr> copied;
    copied.push_back(make_call(kernel.api("nisa.nc_transpose"), std::move(source)));
    StmtPtr body = make_assign(access(), make_call(kernel.api("nl.copy"), std::move(copied)));
    for (std::size_t i = plan.kept_loops.size(); i-- > 0;) {
        const Stmt& old = *place.loops[plan.kept_loops[i]];
        auto loop = std::make_unique<Stmt>();
        loop->kind = StmtKind::kFor;
        loop->targets.push_back(nki::clone(*old.targets[0]));
        loop->value = nki::clone(*old.value);
        loop->body.push_back(std::move(body));
        body = std::move(loop);
    }
    *operand = access();
    if (ExprPtr* flag = argument_slot(**call, 2, "transpose_x")) {
        (*flag)->constant = true;
    } else {
        ExprPtr yes = make_none();
        yes->constant = true;
        add_keyword(**call, "transpose_x", std::move(yes));
    }
    std::vector<StmtPtr> stmts;
    stmts.push_back(make_assign(make_name(name), std::move(made)));
    stmts.push_back(std::move(body));
    const auto where = place_of(kernel, *place.loops[plan.first_loop]);
    insert_before(*where->block, where->index, std::move(stmts));
    kernel.refresh();
}

class HoistTranspose : public Rule {
  public:
    std::string name() const override { return "hoist_transpose"; }
    std::string advice() const override {
        return "nl.matmul transposes its first operand on TensorE at every call; transposing each "
               "part once before the loop over the other operand's columns, and passing it with "
               "transpose_x, leaves TensorE to the products. It helps where PE is the bound.";
    }

    std::vector<Site> find(const Subject& subject) const override {
        std::vector<Site> sites;
        auto kernel = Kernel::open(nki::clone(subject.module), subject.input_shapes);
        if (!kernel) return sites;
        for (const Place& place : places(kernel->body())) {
            const auto found = plan(*kernel, place);
            if (!found || !fits(*kernel, *found, place)) continue;
            Site site;
            site.rule = name();
            site.line = place.stmt->location.line;
            site.what = "transpose the parts of " + found->base + " once before the loop over " +
                        place.loops[found->first_loop]->targets[0]->text +
                        " instead of inside every product of line " + std::to_string(site.line);
            site.relieves = "PE ACT";
            site.benefit = 3;
            sites.push_back(std::move(site));
        }
        return sites;
    }

    Result<Module, std::string> apply(const Subject& subject, const Site& site) const override {
        auto kernel = Kernel::open(nki::clone(subject.module), subject.input_shapes);
        if (!kernel) return Failure{std::string("there is no kernel function")};
        Stmt* stmt = statement_at(*kernel, site.line);
        const auto place = stmt ? place_of(*kernel, *stmt) : std::nullopt;
        if (!place) return Failure{std::string("no statement starts on that line")};
        const auto found = plan(*kernel, *place);
        if (!found) return Failure{found.error()};
        if (!fits(*kernel, *found, *place)) {
            return Failure{std::string("the transposed parts would not fit on chip")};
        }
        move(*kernel, *place, *found);
        return kernel->take();
    }

  private:
    static bool fits(Kernel& kernel, const Transpose& found, const Place& place) {
        std::int64_t bytes = found.extents[0] * kElementBytes;
        for (const std::size_t j : found.kept_loops) {
            bytes *= kernel.loop_range(*place.loops[j])->trips;
        }
        return bytes <= kResidentBytes &&
               bytes + live_bytes(kernel, *place.loops[found.first_loop]) <= kPartitionBytes;
    }
};

}  // namespace

std::unique_ptr<Rule> make_hoist_transpose() { return std::make_unique<HoistTranspose>(); }

}  // namespace accelopt::rewrite
