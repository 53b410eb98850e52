#include <algorithm>
#include <functional>

#include "rewrite/build.h"
#include "rewrite/edit.h"
#include "rewrite/index.h"
#include "rewrite/liveness.h"
#include "rewrite/operation.h"
#include "rewrite/retile.h"
#include "rewrite/rule.h"

namespace accelopt::rewrite {

using nki::Block;
using nki::Expr;
using nki::ExprKind;
using nki::ExprPtr;
using nki::Module;
using nki::Stmt;
using nki::StmtKind;
using nki::StmtPtr;

namespace {

/// A statement and the loop that it may leave.
struct Hoist {
    std::size_t loop = 0;                 ///< index into place.loops: the loop to leave
    std::vector<std::size_t> kept_loops;  ///< inner loops the value depends on, outermost first
    std::vector<Stmt*> group;             ///< statements that move, in order; the last is the one
    Stmt* allocation = nullptr;           ///< of the target array, when it moves too
    std::vector<std::size_t> new_blocks;  ///< loops that become block dimensions of the target
    std::optional<std::size_t> dropped;   ///< block dimension of the target that goes
    std::string target;
};

bool is_movable_value(const Kernel& kernel, const Expr& value) {
    if (value.kind == ExprKind::kBinary) return true;
    if (value.kind != ExprKind::kCall) return false;
    const std::string path = kernel.callee(value);
    if (path == "nl.broadcast_to") return true;
    const Expr& head = *value.operands[0];
    if (head.kind == ExprKind::kAttribute && head.text == "broadcast_to") return true;
    switch (call_kind(path)) {
        case CallKind::kLoad:
        case CallKind::kElementwise:
        case CallKind::kTranspose:
        case CallKind::kFill:
        case CallKind::kReduce:
            return path != "nl.loop_reduce";
        case CallKind::kMatmul: {
            const Expr* transpose = argument(value, 100, "is_transpose");
            const bool* flag = transpose && transpose->kind == ExprKind::kConstant
                                   ? std::get_if<bool>(&transpose->constant)
                                   : nullptr;
            return flag && *flag;
        }
        default:
            return false;
    }
}

class Hoister {
  public:
    Hoister(Kernel& kernel, const Place& place) : kernel_(kernel), place_(place) {}

    Result<Hoist, std::string> plan() {
        const Stmt& stmt = *place_.stmt;
        if (stmt.kind != StmtKind::kAssign || stmt.targets.size() != 1 || place_.guarded ||
            place_.loops.empty()) {
            return Failure{std::string("not an assignment in a loop")};
        }
        if (kernel_.number(*stmt.value) || !affine(kernel_, *stmt.value).iotas.empty() ||
            !is_movable_value(kernel_, *stmt.value)) {
            return Failure{std::string("not a load, transpose or elementwise value")};
        }
        for (const Stmt* loop : place_.loops) {
            const auto range = kernel_.loop_range(*loop);
            if (!range) return Failure{std::string("a loop of unknown range")};
        }
        std::string why = "the value changes in every loop around it";
        for (std::size_t i = 0; i < place_.loops.size(); ++i) {
            auto attempt = leave(i);
            if (attempt) return attempt;
            if (attempt.error() != "depends") why = attempt.error();
        }
        return Failure{why};
    }

    /// Moves the statement; the kernel is refreshed.
    void move(const Hoist& hoist);

  private:
    Result<Hoist, std::string> leave(std::size_t i) {
        Hoist hoist;
        hoist.loop = i;
        hoist.group = {place_.stmt};
        const Stmt& loop = *place_.loops[i];
        const auto range = kernel_.loop_range(loop);
        if (range->trips < 2) return Failure{std::string("the loop runs once")};
        std::set<std::string> needed;
        if (!gather(*place_.stmt, loop, hoist, needed)) {
            return Failure{std::string("it uses what the loop computes")};
        }
        if (depends_on_group(hoist, range->variable)) return Failure{std::string("depends")};
        for (std::size_t j = i + 1; j < place_.loops.size(); ++j) {
            const auto inner = kernel_.loop_range(*place_.loops[j]);
            if (!depends_on_group(hoist, inner->variable)) continue;
            if (depends_on(kernel_, *place_.loops[j]->value, range->variable)) {
                return Failure{std::string("an inner range depends on the loop")};
            }
            hoist.kept_loops.push_back(j);
        }
        return target(hoist, loop, *range);
    }

    bool depends_on_group(const Hoist& hoist, const std::string& variable) const {
        for (const Stmt* stmt : hoist.group) {
            if (depends_on(kernel_, *stmt->value, variable)) return true;
        }
        return false;
    }

    /// Names that `stmt` reads must come from outside the loop, or from statements of its own block
    /// that move along.
    bool gather(const Stmt& stmt, const Stmt& loop, Hoist& hoist, std::set<std::string>& done) {
        std::set<std::string> names;
        collect_names(*stmt.value, names);
        for (const std::string& name : names) {
            if (!done.insert(name).second) continue;
            const Binding* bound = kernel_.binding(name);
            if (!bound || bound->loop_variable || bound->parameter) {
                if (bound && kernel_.is_input(name) && is_written(name, kernel_.body()))
                    return false;
                continue;
            }
            const Stmt* maker = bound->stmt;
            if (maker && is_index(*maker)) continue;
            if (!is_inside(loop, maker) && !is_written(name, loop.body)) continue;
            // Made or written in the loop: only a single-use statement just before may come along.
            Stmt* producer = nullptr;
            for (std::size_t k = 0; k < place_.index; ++k) {
                Stmt* candidate = (*place_.block)[k].get();
                if (candidate == maker) producer = candidate;
            }
            const bool alone = producer && bound->count == 1 && kernel_.reads(name) == 1 &&
                               producer->kind == StmtKind::kAssign &&
                               producer->targets[0]->kind == ExprKind::kName &&
                               is_movable_value(kernel_, *producer->value) && !is_view_read(name);
            if (!alone) return false;
            // Before what it makes its value from comes along, which goes before it in turn.
            hoist.group.insert(hoist.group.begin(), producer);
            if (!gather(*producer, loop, hoist, done)) return false;
        }
        return true;
    }

    bool is_view_read(const std::string& name) const { return kernel_.memory(name) != name; }

    bool is_index(const Stmt& stmt) const {
        return stmt.kind == StmtKind::kAssign && stmt.value &&
               (kernel_.number(*stmt.value) || !affine(kernel_, *stmt.value).iotas.empty() ||
                stmt.value->kind == ExprKind::kCompare || stmt.value->kind == ExprKind::kTuple ||
                stmt.value->kind == ExprKind::kAttribute);
    }

    static bool is_inside(const Stmt& loop, const Stmt* stmt) {
        std::function<bool(const Block&)> search = [&](const Block& block) {
            for (const auto& item : block) {
                if (item.get() == stmt || search(item->body) || search(item->otherwise))
                    return true;
            }
            return false;
        };
        return stmt && search(loop.body);
    }

    bool is_written(const std::string& name, const Block& block) const {
        for (const auto& stmt : block) {
            const Effects effects = kernel_.effects(*stmt);
            if (effects.unknown || effects.writes.count(kernel_.memory(name)) > 0) return true;
        }
        return false;
    }

    /// The only statement that writes the target is the one that moves, and all reads are in the
    /// loop, after it.
    std::string sole_writer(const std::string& name, const Stmt& loop) {
        const std::string memory = kernel_.memory(name);
        bool before = true;
        for (const Place& item : places(kernel_.body())) {
            if (item.stmt == place_.stmt) {
                before = false;
                continue;
            }
            if (item.stmt->kind == StmtKind::kFor || item.stmt->kind == StmtKind::kIf) continue;
            const bool allocates =
                kernel_.allocation(name) && kernel_.binding(name)->stmt == item.stmt;
            if (allocates) continue;
            const Effects effects = kernel_.effects(*item.stmt);
            if (effects.writes.count(memory) > 0) return "it is written elsewhere";
            std::set<std::string> names;
            if (item.stmt->value) collect_names(*item.stmt->value, names);
            for (const auto& target : item.stmt->targets) collect_names(*target, names);
            bool used = false;
            for (const std::string& other : names) used |= kernel_.memory(other) == memory;
            if (!used) continue;
            if (before) return "it is read before it is written";
            if (std::find(item.loops.begin(), item.loops.end(), &loop) == item.loops.end()) {
                return "it is read after the loop";
            }
        }
        return "";
    }

    Result<Hoist, std::string> target(Hoist hoist, const Stmt& loop, const LoopRange& range) {
        const Expr& target = *place_.stmt->targets[0];
        hoist.target = base_name(target);
        const Binding* bound = hoist.target.empty() ? nullptr : kernel_.binding(hoist.target);
        if (!bound || bound->count != 1 || bound->updated) {
            return Failure{std::string("the target is bound more than once")};
        }
        const std::string why = sole_writer(hoist.target, loop);
        if (!why.empty()) return Failure{why};
        if (target.kind == ExprKind::kName) {
            if (hoist.kept_loops.empty()) return hoist;
            const bool load = call_kind(kernel_.callee(*place_.stmt->value)) == CallKind::kLoad;
            const auto extents = kernel_.shape(target);
            if (!load || !extents || extents->size() != 2) {
                return Failure{std::string("its value per inner iteration has no known shape")};
            }
            for (const std::size_t j : hoist.kept_loops) {
                const auto inner = kernel_.loop_range(*place_.loops[j]);
                if (inner->start != 0 || inner->step != 1) {
                    return Failure{std::string("an inner loop does not count from zero")};
                }
            }
            if (!uses_are_simple(hoist.target)) {
                return Failure{std::string("it is indexed in a way that cannot be kept")};
            }
            hoist.new_blocks = hoist.kept_loops;
            return hoist;
        }
        return array_target(std::move(hoist), loop, range);
    }

    Result<Hoist, std::string> array_target(Hoist hoist, const Stmt& loop, const LoopRange& range) {
        const Expr* made = kernel_.allocation(hoist.target);
        if (!made || kernel_.callee(*made) != "nl.ndarray" ||
            kernel_.buffer(hoist.target) != "sbuf" ||
            place_.stmt->targets[0]->operands[0]->kind != ExprKind::kName) {
            return Failure{std::string("the target is no array of its own")};
        }
        Stmt* maker = nullptr;
        std::vector<Stmt*> around;
        for (const Place& item : places(kernel_.body())) {
            if (item.stmt != kernel_.binding(hoist.target)->stmt) continue;
            maker = item.stmt;
            around = item.loops;
        }
        if (is_inside(loop, maker)) {
            hoist.allocation = maker;
            for (const std::size_t j : hoist.kept_loops) {
                const bool outer =
                    std::find(around.begin(), around.end(), place_.loops[j]) != around.end();
                if (!outer) continue;
                const auto inner = kernel_.loop_range(*place_.loops[j]);
                if (inner->start != 0 || inner->step != 1) {
                    return Failure{std::string("an inner loop does not count from zero")};
                }
                hoist.new_blocks.push_back(j);
            }
            if (!uses_are_indexed(hoist.target)) {
                return Failure{std::string("the array is used whole")};
            }
            return hoist;
        }
        // An array made outside: drop the dimension that counts the loop, if there is one.
        const auto indices = read_indices(kernel_, *place_.stmt->targets[0]);
        for (std::size_t d = 0; d < indices.size(); ++d) {
            if (!indices[d].offset.depends_on(range.variable)) continue;
            if (hoist.dropped || !every_access_has(hoist.target, d, range.variable)) {
                return Failure{std::string("the loop variable indexes the target")};
            }
            hoist.dropped = d;
        }
        return hoist;
    }

    bool every_access_has(const std::string& name, std::size_t d, const std::string& variable) {
        bool all = true;
        int accesses = 0;
        visit(kernel_.body(), [&](const Expr& node) {
            if (node.kind != ExprKind::kSubscript || node.operands[0]->kind != ExprKind::kName ||
                node.operands[0]->text != name) {
                return true;
            }
            ++accesses;
            const auto indices = read_indices(kernel_, node);
            Affine only;
            only.variables[variable] = 1;
            all = all && d < indices.size() && indices[d].kind == IndexKind::kPoint &&
                  indices[d].offset == only;
            return true;
        });
        int names = 0;
        visit(kernel_.body(), [&](const Expr& node) {
            names += node.kind == ExprKind::kName && node.text == name;
            return true;
        });
        return all && names == accesses + 1;
    }

    /// A tile that becomes a block of an array may be used whole or with two indices.
    bool uses_are_simple(const std::string& name) {
        bool simple = kernel_.memory(name) == name;
        visit(kernel_.body(), [&](const Expr& node) {
            if (node.kind == ExprKind::kSubscript && node.operands[0]->kind == ExprKind::kName &&
                node.operands[0]->text == name) {
                simple = simple && indices_of(node).size() == 2;
            }
            if (node.kind == ExprKind::kAttribute && node.operands[0]->kind == ExprKind::kName &&
                node.operands[0]->text == name) {
                simple = false;
            }
            return true;
        });
        return simple;
    }

    bool uses_are_indexed(const std::string& name) {
        int names = 0;
        int accesses = 0;
        visit(kernel_.body(), [&](const Expr& node) {
            names += node.kind == ExprKind::kName && node.text == name;
            accesses += node.kind == ExprKind::kSubscript &&
                        node.operands[0]->kind == ExprKind::kName && node.operands[0]->text == name;
            return true;
        });
        return names == accesses + 1;
    }

    /// Index names made inside the loop are spelled out in what leaves it.
    void inline_indices(const Hoist& hoist, const Stmt& loop) {
        for (Stmt* stmt : hoist.group) {
            for (bool again = true; again;) {
                again = false;
                std::set<std::string> names;
                collect_names(*stmt->value, names);
                for (const auto& target : stmt->targets) collect_names(*target, names);
                for (const std::string& name : names) {
                    const Binding* bound = kernel_.binding(name);
                    const Expr* value = bound ? bound->only() : nullptr;
                    if (!value || !is_index(*bound->stmt) || !is_inside(loop, bound->stmt))
                        continue;
                    const ExprPtr spelled = nki::clone(*value);
                    substitute(stmt->value, name, *spelled);
                    for (auto& target : stmt->targets) substitute(target, name, *spelled);
                    again = true;
                }
            }
        }
    }

    Kernel& kernel_;
    const Place place_;
};

/// Removes a statement from wherever it stands and gives it back.
StmtPtr take_out(Block& block, const Stmt* wanted) {
    for (std::size_t i = 0; i < block.size(); ++i) {
        if (block[i].get() == wanted) {
            StmtPtr out = std::move(block[i]);
            block.erase(block.begin() + static_cast<std::ptrdiff_t>(i));
            return out;
        }
        if (StmtPtr out = take_out(block[i]->body, wanted)) {
            const bool idle_loop = block[i]->kind == StmtKind::kFor && is_idle(block[i]->body);
            if (idle_loop) block.erase(block.begin() + static_cast<std::ptrdiff_t>(i));
            return out;
        }
    }
    return nullptr;
}

std::vector<ExprPtr> block_indices(const std::vector<Stmt*>& loops) {
    std::vector<ExprPtr> out;
    for (const Stmt* loop : loops) out.push_back(nki::clone(*loop->targets[0]));
    return out;
}

/// Puts the block indices before the indices of every access to `name`.
void add_blocks(Kernel& kernel, const std::string& name, const std::vector<Stmt*>& loops) {
    visit_slots(kernel.body(), [&](ExprPtr& node) {
        if (node->kind != ExprKind::kSubscript || node->operands[0]->kind != ExprKind::kName ||
            node->operands[0]->text != name) {
            return true;
        }
        auto indices = block_indices(loops);
        for (ExprPtr* slot : index_slots(*node)) indices.push_back(std::move(*slot));
        node = make_subscript(make_name(name), std::move(indices));
        return true;
    });
}

ExprPtr iota(Kernel& kernel, std::int64_t size, bool partition) {
    std::vector<ExprPtr> arguments;
    arguments.push_back(make_integer(size));
    ExprPtr call = make_call(kernel.api("nl.arange"), std::move(arguments));
    std::vector<ExprPtr> indices;
    indices.push_back(partition ? make_full_slice() : make_none());
    indices.push_back(partition ? make_none() : make_full_slice());
    return make_subscript(std::move(call), std::move(indices));
}

void Hoister::move(const Hoist& hoist) {
    Stmt* loop = place_.loops[hoist.loop];
    std::vector<Stmt*> kept;
    for (const std::size_t j : hoist.kept_loops) kept.push_back(place_.loops[j]);
    std::vector<Stmt*> blocks;
    for (const std::size_t j : hoist.new_blocks) blocks.push_back(place_.loops[j]);
    const bool name_target = place_.stmt->targets[0]->kind == ExprKind::kName;
    std::vector<StmtPtr> moved;

    if (name_target && !blocks.empty()) {
        const Shape extents = *kernel_.shape(*place_.stmt->targets[0]);
        const std::string array = kernel_.fresh_name(hoist.target + "_all");
        auto access = [&](ExprPtr row, ExprPtr column) {
            auto indices = block_indices(blocks);
            indices.push_back(std::move(row));
            indices.push_back(std::move(column));
            return make_subscript(make_name(array), std::move(indices));
        };
        visit_slots(kernel_.body(), [&](ExprPtr& node) {
            if (node->kind == ExprKind::kSubscript && node->operands[0]->kind == ExprKind::kName &&
                node->operands[0]->text == hoist.target) {
                auto slots = index_slots(*node);
                node = access(std::move(*slots[0]), std::move(*slots[1]));
                return true;
            }
            if (node->kind == ExprKind::kName && node->text == hoist.target) {
                node = access(iota(kernel_, extents[0], true), iota(kernel_, extents[1], false));
                return false;
            }
            return true;
        });
        std::vector<ExprPtr> shape;
        for (const Stmt* block : blocks) {
            shape.push_back(make_integer(kernel_.loop_range(*block)->trips));
        }
        std::vector<ExprPtr> partition;
        partition.push_back(make_integer(extents[0]));
        shape.push_back(make_call(kernel_.api("nl.par_dim"), std::move(partition)));
        shape.push_back(make_integer(extents[1]));
        std::vector<ExprPtr> arguments;
        arguments.push_back(make_tuple(std::move(shape)));
        ExprPtr made = make_call(kernel_.api("nl.ndarray"), std::move(arguments));
        const Expr* dtype = argument(*place_.stmt->value, 100, "dtype");
        const Expr* source = argument(*place_.stmt->value, 0, "src");
        add_keyword(*made, "dtype",
                    !is_none(dtype) ? nki::clone(*dtype)
                                    : make_attribute(make_name(base_name(*source)), "dtype"));
        add_keyword(*made, "buffer", kernel_.api("nl.sbuf"));
        moved.push_back(make_assign(make_name(array), std::move(made)));
    } else if (!name_target) {
        if (!blocks.empty()) add_blocks(kernel_, hoist.target, blocks);
        if (hoist.allocation) {
            StmtPtr made = take_out(kernel_.body(), hoist.allocation);
            auto& shape = *argument_slot(*made->value, 0, "shape");
            for (std::size_t b = 0; b < blocks.size(); ++b) {
                const auto at = shape->operands.begin() + static_cast<std::ptrdiff_t>(b);
                shape->operands.insert(at, make_integer(kernel_.loop_range(*blocks[b])->trips));
            }
            moved.push_back(std::move(made));
        }
        if (hoist.dropped) {
            const std::size_t d = *hoist.dropped;
            visit_slots(kernel_.body(), [&](ExprPtr& node) {
                if (node->kind != ExprKind::kSubscript ||
                    node->operands[0]->kind != ExprKind::kName ||
                    node->operands[0]->text != hoist.target) {
                    return true;
                }
                auto& items = node->operands[1]->operands;
                items.erase(items.begin() + static_cast<std::ptrdiff_t>(d));
                return true;
            });
            for (const Place& item : places(kernel_.body())) {
                if (item.stmt != kernel_.binding(hoist.target)->stmt) continue;
                auto& shape = *argument_slot(*item.stmt->value, 0, "shape");
                shape->operands.erase(shape->operands.begin() + static_cast<std::ptrdiff_t>(d));
            }
        }
    }
    // Rebuild the inner loops around the statements that move. Headers are copied before the
    // statements are taken out, which may empty and remove the old loops.
    std::vector<StmtPtr> headers;
    for (const Stmt* header : kept) {
        auto copy = std::make_unique<Stmt>();
        copy->kind = StmtKind::kFor;
        copy->targets.push_back(nki::clone(*header->targets[0]));
        copy->value = nki::clone(*header->value);
        headers.push_back(std::move(copy));
    }
    inline_indices(hoist, *loop);
    Block inner;
    for (Stmt* stmt : hoist.group) inner.push_back(take_out(loop->body, stmt));
    for (std::size_t i = headers.size(); i-- > 0;) {
        headers[i]->body = std::move(inner);
        inner.clear();
        inner.push_back(std::move(headers[i]));
    }
    for (StmtPtr& stmt : inner) moved.push_back(std::move(stmt));
    const auto where = place_of(kernel_, *loop);
    insert_before(*where->block, where->index, std::move(moved));
    kernel_.refresh();
}

class HoistInvariant : public Rule {
  public:
    std::string name() const override { return "hoist_invariant"; }
    std::string advice() const override {
        return "A load, transpose or computation that gives the same tile in every iteration of a "
               "loop is done once before it and kept on chip. It helps where DMA or the engine "
               "that repeats the work is busy, as long as the kept tiles fit.";
    }

    std::vector<Site> find(const Subject& subject) const override {
        std::vector<Site> sites;
        auto kernel = Kernel::open(nki::clone(subject.module), subject.input_shapes);
        if (!kernel) return sites;
        for (const Place& place : places(kernel->body())) {
            Kernel copy = kernel->clone();
            Stmt* stmt = at_path(copy, path_to(*kernel, *place.stmt));
            std::string loop;
            if (!hoist(copy, *stmt, loop)) continue;
            const std::string path = kernel->callee(*place.stmt->value);
            const CallKind kind = call_kind(path);
            Site site;
            site.rule = name();
            site.line = place.stmt->location.line;
            const char* what = kind == CallKind::kLoad ? "load" : "computation";
            site.what = std::string("move the ") + what + " of line " + std::to_string(site.line) +
                        " out of the loop over " + loop + " and keep its result on chip";
            site.relieves = kind == CallKind::kLoad                                     ? "DMA"
                            : kind == CallKind::kTranspose || kind == CallKind::kMatmul ? "PE"
                                                                                        : "ACT DVE";
            site.benefit = kind == CallKind::kLoad ? 1.5 : 1.2;
            sites.push_back(std::move(site));
        }
        return sites;
    }

    Result<Module, std::string> apply(const Subject& subject, const Site& site) const override {
        auto kernel = Kernel::open(nki::clone(subject.module), subject.input_shapes);
        if (!kernel) return Failure{std::string("there is no kernel function")};
        Stmt* stmt = statement_at(*kernel, site.line);
        if (!stmt) return Failure{std::string("no statement starts on that line")};
        std::string loop;
        const auto done = hoist(*kernel, *stmt, loop);
        if (!done) return Failure{done.error()};
        return kernel->take();
    }

  private:
    static Result<bool, std::string> hoist(Kernel& kernel, Stmt& stmt, std::string& loop_name) {
        const auto place = place_of(kernel, stmt);
        if (!place) return Failure{std::string("the statement is not part of the kernel")};
        Hoister hoister(kernel, *place);
        const auto plan = hoister.plan();
        if (!plan) return Failure{plan.error()};
        Stmt* loop = place->loops[plan->loop];
        loop_name = loop->targets[0]->text;
        const bool name_target = stmt.targets[0]->kind == ExprKind::kName;
        const std::string array = name_target && !plan->new_blocks.empty()
                                      ? kernel.fresh_name(plan->target + "_all")
                                      : plan->target;
        hoister.move(*plan);
        // Leaving one loop may empty it.
        if (array_bytes(kernel, array) > kResidentBytes) {
            return Failure{std::string("the kept tiles would not fit on chip")};
        }
        for (const Place& item : places(kernel.body())) {
            if (item.stmt == loop && live_bytes(kernel, *loop) > kPartitionBytes) {
                return Failure{std::string("the kept tiles would crowd out the loop's own")};
            }
        }
        return true;
    }
};

}  // namespace

std::unique_ptr<Rule> make_hoist_invariant() { return std::make_unique<HoistInvariant>(); }

}  // namespace accelopt::rewrite
