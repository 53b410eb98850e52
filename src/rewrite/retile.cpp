#include "rewrite/retile.h"

#include <algorithm>
#include <map>

#include "rewrite/build.h"
#include "rewrite/index.h"
#include "rewrite/operation.h"
#include "rewrite/signature.h"

namespace accelopt::rewrite {

using nki::Block;
using nki::Expr;
using nki::ExprKind;
using nki::ExprPtr;
using nki::Stmt;
using nki::StmtKind;

namespace {

/// PSUM bank per partition: a tile in PSUM is no wider.
constexpr std::int64_t kBankBytes = 2048;

const std::vector<nki::Keyword> kNoKeywords;

enum class Span { kScalar, kColumn, kNarrow, kWide };

bool last_is_free_axis(const Index& index) {
    return !index.iota || index.iota->axis == index.iota->rank - 1;
}

/// Walks a loop body in program order and proves that it treats the slices of its loop alike.
class TilingAnalysis {
  public:
    TilingAnalysis(Kernel& kernel, Stmt& loop) : kernel_(kernel), loop_(loop) {}

    Result<TiledLoop, std::string> run() {
        const auto range = kernel_.loop_range(loop_);
        if (!range) return Failure{std::string("the trip count is not known")};
        range_ = *range;
        if (range_.trips < 2) return Failure{std::string("the loop runs once")};
        if (!find_width()) return Failure{error_};
        find_local_arrays();
        check_shared_memory();
        walk(loop_.body);
        if (!error_.empty()) return Failure{error_};
        TiledLoop out;
        out.loop = &loop_;
        out.range = range_;
        out.width = width_;
        out.by_offset = range_.step > 1;
        out.touches_hbm = touches_hbm_;
        out.wide_names = wide_names_;
        out.wide_names.insert(wide_arrays_.begin(), wide_arrays_.end());
        out.elementwise_operations = operations_;
        out.has_parts = !parts_.empty();
        return out;
    }

    bool is_wide_access(const Expr& base, const std::vector<Index>& indices) const {
        if (indices.empty()) return false;
        return is_tied(indices) ||
               (wide_arrays_.count(base_name(base)) > 0 && covers_width(indices.back())) ||
               (wide_names_.count(base_name(base)) > 0 && covers_width(indices.back()));
    }
    bool is_tied(const std::vector<Index>& indices) const {
        const Index& last = indices.back();
        if (last.kind != IndexKind::kRange || last.stride != 1 || !last_is_free_axis(last)) {
            return false;
        }
        const std::int64_t factor = last.offset.coefficient(range_.variable);
        return factor > 0 && factor * range_.step == last.size &&
               (width_ == 0 || last.size == width_);
    }
    const std::set<std::string>& wide_arrays() const { return wide_arrays_; }
    const LoopRange& range() const { return range_; }
    std::int64_t width() const { return width_; }
    /// Inner loops that walk over the parts of a slice; they run longer over wider slices.
    const std::map<const Stmt*, LoopRange>& parts() const { return parts_; }
    /// Arrays that are used in this loop only.
    bool is_local(const std::string& name) const { return local_.count(name) > 0; }

  private:
    void fail(const std::string& why) {
        if (error_.empty()) error_ = why;
    }

    bool covers_width(const Index& index) const {
        if (index.kind == IndexKind::kFull || index.kind == IndexKind::kEllipsis) return true;
        return index.kind == IndexKind::kRange && index.size == width_ && index.stride == 1 &&
               index.offset == Affine{} && last_is_free_axis(index);
    }

    /// A range that a loop inside this one moves over the whole width.
    bool is_part(const Index& index, const std::vector<Stmt*>& loops) const {
        if (index.kind != IndexKind::kRange || index.stride != 1 || index.offset.constant != 0 ||
            index.offset.variables.size() != 1 || !last_is_free_axis(index)) {
            return false;
        }
        for (const Stmt* loop : loops) {
            const auto inner = kernel_.loop_range(*loop);
            if (!inner || inner->start != 0 || inner->step != 1) continue;
            if (index.offset.coefficient(inner->variable) == index.size &&
                index.size * inner->trips == width_) {
                return true;
            }
        }
        return false;
    }

    /// Slices of HBM tensors set the width; without any, those of tiles do.
    bool find_width() {
        std::set<std::int64_t> widths;
        visit(loop_.body, [&](const Expr& node) {
            if (node.kind != ExprKind::kSubscript || base_name(node).empty()) return true;
            const auto indices = read_indices(kernel_, node);
            if (!is_tied(indices)) return true;
            widths.insert(indices.back().size);
            const std::string buffer = kernel_.buffer(base_name(node));
            touches_hbm_ = touches_hbm_ || buffer == "hbm";
            return true;
        });
        if (widths.size() != 1) {
            fail(widths.empty() ? "no access walks over the free dimension"
                                : "slices of several widths");
            return false;
        }
        width_ = *widths.begin();
        if (width_ == 1) fail("slices of one element");
        return width_ > 1;
    }

    /// What an iteration writes, another one may not read: a written tensor or array is accessed at
    /// one and the same slice.
    void check_shared_memory() {
        std::set<std::string> written;
        for (const auto& stmt : loop_.body) {
            const Effects effects = kernel_.effects(*stmt);
            if (effects.unknown) fail("a call with unknown effects");
            written.insert(effects.writes.begin(), effects.writes.end());
        }
        std::map<std::string, std::set<std::string>> slices;  // "" = not at the loop's slice
        std::map<std::string, int> whole;
        visit(loop_.body, [&](const Expr& node) {
            const std::string memory = kernel_.memory(base_name(node));
            if (written.count(memory) == 0) return true;
            if (node.kind == ExprKind::kName) ++whole[memory];
            if (node.kind != ExprKind::kSubscript) return true;
            --whole[memory];
            const Index last = read_indices(kernel_, node).back();
            const bool moves = last.offset.depends_on(range_.variable);
            slices[memory].insert(moves ? last.key() : "");
            return true;
        });
        for (const auto& [memory, keys] : slices) {
            const bool moving = keys.size() > 1 || *keys.begin() != "";
            if (moving && (keys.size() > 1 || whole[memory] > 0)) {
                fail("one slice written and another one read");
            }
        }
    }

    /// Arrays used in this loop only, as wide as a slice.
    void find_local_arrays() {
        std::map<std::string, int> all;
        std::map<std::string, int> inside;
        auto count = [](std::map<std::string, int>& counts) {
            return [&counts](const Expr& node) {
                if (node.kind == ExprKind::kName) ++counts[node.text];
                return true;
            };
        };
        visit(kernel_.body(), count(all));
        visit(loop_.body, count(inside));
        for (const auto& [name, uses] : inside) {
            const Expr* made = kernel_.allocation(name);
            const Stmt* stmt = made ? kernel_.binding(name)->stmt : nullptr;
            bool allocated_inside = false;
            for (const Place& place : places(loop_.body)) {
                allocated_inside = allocated_inside || place.stmt == stmt;
            }
            if (uses + (made && !allocated_inside ? 1 : 0) != all[name]) continue;
            local_.insert(name);
            const auto extents = made ? kernel_.shape(*made) : std::nullopt;
            if (extents && extents->back() == width_ && kernel_.buffer(name) != "hbm") {
                wide_arrays_.insert(name);
                if (!allocated_inside) allocated_outside_.insert(name);
            }
        }
        // Every access must cover the whole width, or parts of it in a loop over parts, else it is
        // an array of another kind.
        for (const Place& place : places(loop_.body)) {
            auto look = [&](const Expr& node) {
                if (node.kind != ExprKind::kSubscript || wide_arrays_.count(base_name(node)) == 0 ||
                    node.operands[0]->kind != ExprKind::kName) {
                    return true;
                }
                const Index last = read_indices(kernel_, node).back();
                if (!covers_width(last) && !is_part(last, place.loops)) {
                    wide_arrays_.erase(base_name(node));
                }
                return true;
            };
            if (place.stmt->kind == StmtKind::kFor) continue;
            for (const auto& target : place.stmt->targets) visit(*target, look);
            if (place.stmt->value) visit(*place.stmt->value, look);
        }
        wide_parts_ = wide_arrays_;
    }

    void walk(const Block& block) {
        for (const auto& stmt : block) {
            if (!error_.empty()) return;
            statement(*stmt);
        }
    }

    bool is_definition(const Stmt& stmt) const {
        if (stmt.targets.size() != 1 || stmt.targets[0]->kind != ExprKind::kName) return false;
        const Binding* bound = kernel_.binding(stmt.targets[0]->text);
        if (!bound || !bound->only()) return false;
        if (kernel_.number(*stmt.value) || !affine(kernel_, *stmt.value).iotas.empty()) return true;
        return stmt.value->kind == ExprKind::kCompare;
    }

    void statement(const Stmt& stmt) {
        switch (stmt.kind) {
            case StmtKind::kAssign:
                assign(stmt);
                return;
            case StmtKind::kAugAssign: {
                const Span target = span(*stmt.targets[0]);
                if (target != Span::kWide || span(*stmt.value) == Span::kNarrow) {
                    fail("an accumulation inside the loop");
                }
                return;
            }
            case StmtKind::kExpression: {
                if (stmt.value->kind == ExprKind::kConstant) return;
                if (kernel_.callee(*stmt.value) != "nl.store") {
                    fail("a call with unknown effects");
                    return;
                }
                const Expr* target = argument(*stmt.value, 0, "dst");
                const Expr* value = argument(*stmt.value, 1, "value");
                if (!target || !value) {
                    fail("a store without a value");
                    return;
                }
                check_mask(*stmt.value);
                const bool wide = span(*target) == Span::kWide;
                if (wide != (span(*value) == Span::kWide)) fail("a store of another width");
                return;
            }
            case StmtKind::kFor: {
                const auto inner = kernel_.loop_range(stmt);
                if (!inner || depends_on(kernel_, *stmt.value, range_.variable)) {
                    fail("an inner loop whose range is not fixed");
                    return;
                }
                if (!walks_over_parts(const_cast<Stmt&>(stmt))) walk(stmt.body);
                return;
            }
            case StmtKind::kPass:
            case StmtKind::kAssert:
                return;
            default:
                fail("control flow inside the loop");
        }
    }

    /// An inner loop that covers wide tiles part by part, treating all parts alike.
    bool walks_over_parts(Stmt& inner) {
        TilingAnalysis analysis(kernel_, inner);
        const auto tiled = analysis.run();
        if (!tiled || tiled->touches_hbm || tiled->range.start != 0 || tiled->by_offset ||
            tiled->has_parts || tiled->width * tiled->range.trips != width_) {
            return false;
        }
        bool parts = true;
        std::set<std::string> written;
        for (const Place& place : places(inner.body)) {
            for (const auto& target : place.stmt->targets) written.insert(base_name(*target));
        }
        visit(inner.body, [&](const Expr& node) {
            if (node.kind == ExprKind::kName && node.text == range_.variable) parts = false;
            if (node.kind != ExprKind::kSubscript || node.operands[0]->kind != ExprKind::kName) {
                return true;
            }
            const std::string& base = node.operands[0]->text;
            const auto indices = read_indices(kernel_, node);
            const bool tied = analysis.is_tied(indices);
            if (tied) {
                const auto known = spans_.find(base);
                const bool value = known != spans_.end() && known->second == Span::kWide;
                parts = parts && (value || wide_parts_.count(base) > 0);
            }
            for (std::size_t i = 0; i < indices.size(); ++i) {
                if (!indices[i].offset.depends_on(range_.variable)) continue;
                const bool own = is_local(base) && i + 2 < indices.size() &&
                                 indices[i].kind == IndexKind::kPoint && !range_.start &&
                                 range_.step == 1 && indices[i].offset.constant == 0 &&
                                 indices[i].offset.variables.size() == 1 &&
                                 indices[i].offset.coefficient(range_.variable) == 1 &&
                                 kernel_.allocation(base) && is_own_block(base, i);
                parts = parts && own;
            }
            // The loop variable may stand in those indices only.
            for (const Expr* item : indices_of(node)) {
                if (item->kind == ExprKind::kName && item->text == range_.variable) continue;
                if (depends_on(kernel_, *item, range_.variable)) parts = false;
            }
            return false;
        });
        for (const Place& place : places(inner.body)) {
            for (const auto& keyword :
                 place.stmt->value ? place.stmt->value->keywords : kNoKeywords) {
                if (keyword.name == "mask" &&
                    depends_on(kernel_, *keyword.value, range_.variable)) {
                    parts = false;
                }
            }
        }
        if (!parts) return false;
        parts_[&inner] = tiled->range;
        operations_ += tiled->elementwise_operations;
        for (const std::string& name : written) written_.insert(name);
        return true;
    }

    void assign(const Stmt& stmt) {
        if (stmt.targets.size() != 1) return fail("a multiple assignment");
        const Expr& target = *stmt.targets[0];
        if (is_definition(stmt)) return;
        if (kernel_.effects(stmt).unknown) return fail("a call with unknown effects");
        if (target.kind == ExprKind::kName) {
            if (call_kind(kernel_.callee(*stmt.value)) == CallKind::kAllocate) {
                if (kernel_.buffer(target.text) == "psum" && wide_arrays_.count(target.text) > 0) {
                    psum_ = true;
                }
                return;
            }
            const Span value = span(*stmt.value);
            const auto known = spans_.find(target.text);
            if (known != spans_.end() && known->second != value) return fail("a reused name");
            spans_[target.text] = value;
            if (value == Span::kWide) {
                if (local_.count(target.text) == 0) return fail("a tile that outlives the loop");
                wide_names_.insert(target.text);
            }
            return;
        }
        if (target.kind != ExprKind::kSubscript) return fail("an unusual assignment");
        const Span value = span(*stmt.value);
        written_.insert(base_name(target));
        const Span place = span(target);
        if ((place == Span::kWide) != (value == Span::kWide)) fail("a value of another width");
    }

    Span span(const Expr& expr) {
        if (!error_.empty()) return Span::kNarrow;
        if (kernel_.number(expr)) return Span::kScalar;
        switch (expr.kind) {
            case ExprKind::kConstant:
                return Span::kScalar;
            case ExprKind::kName:
                return span_of_name(expr);
            case ExprKind::kSubscript:
                return span_of_access(expr);
            case ExprKind::kCall:
                return span_of_call(expr);
            case ExprKind::kBinary:
            case ExprKind::kUnary: {
                std::vector<Span> spans;
                for (const auto& operand : expr.operands) spans.push_back(span(*operand));
                return combine(spans);
            }
            case ExprKind::kAttribute:
                if (mentions(expr, range_.variable)) fail("the loop variable is a value");
                return Span::kScalar;
            default:
                fail("an expression that is not understood");
                return Span::kNarrow;
        }
    }

    Span span_of_name(const Expr& name) {
        const std::string& text = name.text;
        if (text == range_.variable) {
            fail("the loop variable is a value");
            return Span::kScalar;
        }
        const auto known = spans_.find(text);
        if (known != spans_.end()) return known->second;
        if (wide_arrays_.count(text) > 0) {
            check_written(text);
            return Span::kWide;
        }
        const auto extents = kernel_.shape(name);
        if (extents) return extents->back() == 1 ? Span::kColumn : Span::kNarrow;
        const Binding* bound = kernel_.binding(text);
        return bound && bound->parameter ? Span::kScalar : Span::kNarrow;
    }

    void check_written(const std::string& array) {
        if (allocated_outside_.count(array) > 0 && written_.count(array) == 0) {
            fail("a tile carried from one iteration to the next");
        }
    }

    Span span_of_access(const Expr& expr) {
        if (expr.operands[0]->kind != ExprKind::kName) {
            fail("an index into an expression");
            return Span::kNarrow;
        }
        const std::string& base = expr.operands[0]->text;
        const auto indices = read_indices(kernel_, expr);
        const bool tied = is_tied(indices);
        const bool array = wide_arrays_.count(base) > 0;
        const auto known = spans_.find(base);
        const bool value = known != spans_.end() && known->second == Span::kWide;
        for (std::size_t i = 0; i < indices.size(); ++i) {
            const Index& index = indices[i];
            if (!index.offset.depends_on(range_.variable)) continue;
            if (tied && i + 1 == indices.size()) continue;
            const bool block = array && index.kind == IndexKind::kPoint && i + 2 < indices.size() &&
                               range_.start == 0 && range_.step == 1 && is_own_block(base, i) &&
                               index.offset.coefficient(range_.variable) == 1 &&
                               index.offset.variables.size() == 1 && index.offset.constant == 0;
            if (!block) fail("the loop variable indexes more than the free dimension");
        }
        if (tied) return Span::kWide;
        if (array || value) {
            if (!covers_width(indices.back())) fail("a part of a slice");
            if (array) check_written(base);
            return Span::kWide;
        }
        const Index& last = indices.back();
        const bool column = (last.kind == IndexKind::kPoint && indices.size() > 1) ||
                            (last.kind == IndexKind::kRange && last.size == 1);
        if (column) return Span::kColumn;
        const auto extents = kernel_.shape(expr);
        return extents && extents->size() > 1 && extents->back() == 1 ? Span::kColumn
                                                                      : Span::kNarrow;
    }

    /// The array has one block per iteration along dimension `axis`.
    bool is_own_block(const std::string& array, std::size_t axis) const {
        const auto extents = kernel_.shape(*kernel_.allocation(array));
        return extents && axis < extents->size() && (*extents)[axis] == range_.trips;
    }

    void check_mask(const Expr& call) {
        for (const auto& keyword : call.keywords) {
            if (keyword.name != "mask" || is_none(keyword.value.get())) continue;
            if (depends_on(kernel_, *keyword.value, range_.variable)) {
                fail("a mask that depends on the loop");
            }
            visit(*keyword.value, [&](const Expr& node) {
                const Affine value = affine(kernel_, node);
                for (const auto& [iota, factor] : value.iotas) {
                    if (iota.axis == iota.rank - 1) fail("a mask over the free dimension");
                }
                if (!value.iotas.empty()) return false;
                if (node.kind != ExprKind::kName) return true;
                const Binding* bound = kernel_.binding(node.text);
                const Expr* only = bound ? bound->only() : nullptr;
                if (only && only->kind == ExprKind::kCompare) check_compare(*only);
                return true;
            });
        }
    }

    void check_compare(const Expr& compare) {
        for (const auto& operand : compare.operands) {
            for (const auto& [iota, factor] : affine(kernel_, *operand).iotas) {
                if (iota.axis == iota.rank - 1) fail("a mask over the free dimension");
            }
        }
    }

    Span span_of_call(const Expr& call) {
        const std::string path = kernel_.callee(call);
        const CallKind kind = call_kind(path);
        check_mask(call);
        if (kind == CallKind::kFill || kind == CallKind::kAllocate) {
            const auto extents = kernel_.shape(call);
            if (!extents) fail("a tile of unknown shape");
            if (!extents || extents->back() == 1) return Span::kColumn;
            return extents->back() == width_ ? Span::kWide : Span::kNarrow;
        }
        std::vector<Span> spans;
        for (std::size_t i = 1; i < call.operands.size(); ++i) {
            spans.push_back(argument_span(*call.operands[i]));
        }
        for (const auto& keyword : call.keywords) {
            if (keyword.name == "mask") continue;
            spans.push_back(argument_span(*keyword.value));
        }
        const bool wide = std::count(spans.begin(), spans.end(), Span::kWide) > 0;
        if (kind == CallKind::kElementwise || kind == CallKind::kLoad) {
            const Span out = combine(spans);
            if (wide && kind == CallKind::kElementwise) ++operations_;
            return out;
        }
        if (wide) fail("an operation across the slice (" + path + ")");
        const auto extents = kernel_.shape(call);
        return extents && extents->back() == 1 ? Span::kColumn : Span::kNarrow;
    }

    Span argument_span(const Expr& expr) {
        // Operators, dtypes and lists of axes are no tiles.
        if (expr.kind == ExprKind::kAttribute || expr.kind == ExprKind::kList ||
            expr.kind == ExprKind::kTuple) {
            if (mentions(expr, range_.variable)) fail("the loop variable is a value");
            return Span::kScalar;
        }
        if (expr.kind == ExprKind::kCall && kernel_.real(expr)) return Span::kScalar;
        return span(expr);
    }

    Span combine(const std::vector<Span>& spans) {
        Span out = Span::kScalar;
        for (const Span item : spans) out = std::max(out, item);
        if (out == Span::kWide && std::count(spans.begin(), spans.end(), Span::kNarrow) > 0) {
            fail("a slice combined with a tile that is the same for every slice");
        }
        return out;
    }

    Kernel& kernel_;
    Stmt& loop_;
    LoopRange range_;
    std::int64_t width_ = 0;
    bool touches_hbm_ = false;
    bool psum_ = false;
    int operations_ = 0;
    std::string error_;
    std::set<std::string> local_;
    std::set<std::string> wide_arrays_;
    std::set<std::string> wide_parts_;
    std::map<const Stmt*, LoopRange> parts_;
    std::set<std::string> allocated_outside_;
    std::set<std::string> written_;
    std::set<std::string> wide_names_;
    std::map<std::string, Span> spans_;
};

bool stands_in(const std::vector<Stmt*>& loops, const Stmt* loop) {
    return std::find(loops.begin(), loops.end(), loop) != loops.end();
}

/// Arrays with one block per part: fewer slices, more parts of each.
bool change_part_blocks(Kernel& kernel, const TilingAnalysis& analysis, const std::string& name,
                        std::int64_t factor, Shape& extents) {
    std::set<std::size_t> by_part;
    std::set<std::size_t> by_slice;
    for (const auto& [part, range] : analysis.parts()) {
        visit(part->body, [&](const Expr& node) {
            if (node.kind != ExprKind::kSubscript || base_name(node) != name) return true;
            const auto indices = read_indices(kernel, node);
            for (std::size_t i = 0; i + 2 < indices.size(); ++i) {
                if (indices[i].offset.coefficient(range.variable) == 1) by_part.insert(i);
                if (indices[i].offset.coefficient(analysis.range().variable) == 1) {
                    by_slice.insert(i);
                }
            }
            return true;
        });
    }
    if (by_part.empty()) return false;
    for (const std::size_t axis : by_part) extents[axis] *= factor;
    for (const std::size_t axis : by_slice) extents[axis] /= factor;
    return true;
}

/// The canonical form that the widened kernel must have.
IntendedChange intended(Kernel& kernel, const TilingAnalysis& analysis, const Stmt* loop,
                        std::int64_t factor) {
    const LoopRange range = analysis.range();
    const bool by_offset = range.step > 1;
    IntendedChange change;
    // A loop that runs once is left with a variable that is a number.
    const bool once = range.trips == factor && kernel.binding(range.variable)->count == 1;
    change.access = [&analysis, loop, factor, range, by_offset, once](
                        const Expr& base, std::vector<Index>& indices,
                        const std::vector<Stmt*>& loops) {
        if (!stands_in(loops, loop)) return;
        Index& last = indices.back();
        if (analysis.is_wide_access(base, indices) && last.kind == IndexKind::kRange) {
            const bool tied = analysis.is_tied(indices);
            last.size *= factor;
            if (last.iota) last.iota->size *= factor;
            if (tied && !by_offset) last.offset.variables[range.variable] *= factor;
        }
        for (Index& index : indices) {
            if (!once || !index.offset.depends_on(range.variable)) continue;
            index.offset.constant += range.start * index.offset.coefficient(range.variable);
            index.offset.variables.erase(range.variable);
        }
    };
    change.shape = [&kernel, &analysis, loop, factor, range](
                       const std::string& name, Shape& extents, const std::vector<Stmt*>& loops) {
        if (change_part_blocks(kernel, analysis, name, factor, extents)) return;
        if (analysis.wide_arrays().count(name) == 0) {
            const bool fill = stands_in(loops, loop) && !kernel.allocation(name) &&
                              extents.back() == analysis.width();
            if (fill) extents.back() *= factor;
            return;
        }
        extents.back() *= factor;
        std::set<std::size_t> own;
        visit(loop->body, [&](const Expr& node) {
            if (node.kind != ExprKind::kSubscript || base_name(node) != name) return true;
            const auto indices = read_indices(kernel, node);
            for (std::size_t i = 0; i + 2 < indices.size(); ++i) {
                if (indices[i].offset.coefficient(range.variable) == 1) own.insert(i);
            }
            return true;
        });
        for (const std::size_t axis : own) extents[axis] /= factor;
    };
    change.range = [&analysis, loop, factor, by_offset](const Stmt& stmt, LoopRange& changed) {
        if (analysis.parts().count(&stmt) > 0) changed.trips *= factor;
        if (&stmt != loop) return;
        changed.trips /= factor;
        if (by_offset) changed.step *= factor;
    };
    return change;
}

/// Names with a literal definition of value `width` that the loop uses, through index names too.
std::vector<std::string> size_names(const Kernel& kernel, const Stmt& loop, std::int64_t width) {
    std::set<std::string> seen;
    std::vector<std::string> out;
    std::function<void(const Expr&)> look = [&](const Expr& expr) {
        std::set<std::string> names;
        collect_names(expr, names);
        for (const std::string& name : names) {
            if (!seen.insert(name).second) continue;
            const Binding* bound = kernel.binding(name);
            const Expr* value = bound ? bound->only() : nullptr;
            if (!value) continue;
            if (value->kind == ExprKind::kConstant && kernel.integer(*value) == width) {
                out.push_back(name);
            }
            look(*value);
        }
    };
    look(*loop.value);
    visit(loop.body, [&](const Expr& node) {
        if (node.kind == ExprKind::kName) look(node);
        return true;
    });
    return out;
}

void edit_names(Kernel& kernel, const std::vector<std::string>& names, std::int64_t value) {
    for (const Place& place : places(kernel.body())) {
        for (const std::string& name : names) {
            const bool defines = place.stmt->kind == StmtKind::kAssign &&
                                 place.stmt->targets.size() == 1 &&
                                 place.stmt->targets[0]->kind == ExprKind::kName &&
                                 place.stmt->targets[0]->text == name;
            if (defines) place.stmt->value = make_integer(value);
        }
    }
    kernel.refresh();
}

/// Writes the new sizes where they stand, for kernels that spell sizes as literals.
void edit_in_place(Kernel& kernel, Stmt& loop, std::int64_t factor) {
    TilingAnalysis analysis(kernel, loop);
    if (!analysis.run()) return;
    const LoopRange range = analysis.range();
    const std::int64_t width = analysis.width();
    const IntendedChange change = intended(kernel, analysis, &loop, factor);

    std::vector<ExprPtr*> slots;        // index expressions to edit
    std::set<std::string> definitions;  // index names to edit
    visit_slots(loop.body, [&](ExprPtr& node) {
        if (node->kind != ExprKind::kSubscript || node->operands[0]->kind != ExprKind::kName) {
            return true;
        }
        if (analysis.is_wide_access(*node->operands[0], read_indices(kernel, *node))) {
            slots.push_back(index_slots(*node).back());
        }
        return true;
    });
    std::vector<std::pair<ExprPtr*, std::int64_t>> edits;
    std::function<void(ExprPtr&)> edit = [&](ExprPtr& slot) {
        visit_slots(slot, [&](ExprPtr& node) {
            if (const auto value = kernel.integer(*node)) {
                if (*value == width) edits.emplace_back(&node, width * factor);
                return false;
            }
            if (node->kind == ExprKind::kName) definitions.insert(node->text);
            return true;
        });
    };
    for (ExprPtr* slot : slots) edit(*slot);
    std::set<std::string> done;
    while (done.size() < definitions.size()) {
        const std::set<std::string> now = definitions;
        for (const std::string& name : now) {
            if (!done.insert(name).second) continue;
            const Binding* bound = kernel.binding(name);
            if (!bound || !bound->only()) continue;
            for (const Place& place : places(kernel.body())) {
                if (place.stmt == bound->stmt) edit(place.stmt->value);
            }
        }
    }
    for (const Place& place : places(kernel.body())) {
        if (place.stmt->kind != StmtKind::kAssign || place.stmt->value->kind != ExprKind::kCall) {
            continue;
        }
        Expr& call = *place.stmt->value;
        const CallKind kind = call_kind(kernel.callee(call));
        if (kind != CallKind::kAllocate && kind != CallKind::kFill) continue;
        const Expr& target = *place.stmt->targets[0];
        auto extents = kernel.shape(call);
        if (!extents) continue;
        const Shape before = *extents;
        change.shape(target.kind == ExprKind::kName ? target.text : "", *extents, place.loops);
        ExprPtr* shape = argument_slot(call, 0, "shape");
        if (!shape || (*shape)->operands.size() != extents->size()) continue;
        for (std::size_t i = 0; i < extents->size(); ++i) {
            if ((*extents)[i] != before[i])
                edits.emplace_back(&(*shape)->operands[i], (*extents)[i]);
        }
    }
    for (const auto& [part, inner] : analysis.parts()) {
        for (const Place& place : places(loop.body)) {
            if (place.stmt != part) continue;
            auto& ends = place.stmt->value->operands;
            edits.emplace_back(&ends[ends.size() > 2 ? 2 : 1], inner.trips * factor);
        }
    }
    auto& bounds = loop.value->operands;
    if (range.step > 1) {
        edits.emplace_back(&bounds.back(), range.step * factor);
    } else {
        edits.emplace_back(&bounds[bounds.size() > 2 ? 2 : 1], range.trips / factor);
    }
    // Outer slots may hold inner ones that are listed too: each is replaced once, by value.
    std::set<ExprPtr*> replaced;
    for (auto& [slot, value] : edits) {
        if (replaced.insert(slot).second) *slot = make_integer(value);
    }
    kernel.refresh();
}

}  // namespace

Result<TiledLoop, std::string> analyse_tiling(Kernel& kernel, Stmt& loop) {
    return TilingAnalysis(kernel, loop).run();
}

Result<Kernel, std::string> widen(Kernel kernel, const std::vector<std::size_t>& loop_path,
                                  std::int64_t factor) {
    Stmt* loop = at_path(kernel, loop_path);
    if (!loop) return Failure{std::string("no loop stands there")};
    TilingAnalysis analysis(kernel, *loop);
    const auto tiled = analysis.run();
    if (!tiled) return Failure{tiled.error()};
    if (factor < 2 || tiled->range.trips % factor != 0) {
        return Failure{std::string("the slices do not divide evenly")};
    }
    for (const std::string& name : analysis.wide_arrays()) {
        if (kernel.buffer(name) == "psum" && tiled->width * factor * kElementBytes > kBankBytes) {
            return Failure{std::string("a tile in PSUM would exceed its bank")};
        }
    }
    const auto wanted = signature(kernel, intended(kernel, analysis, loop, factor));
    const std::vector<std::string> names = size_names(kernel, *loop, tiled->width);
    std::vector<std::vector<std::string>> attempts;
    if (!names.empty()) attempts.push_back(names);
    if (names.size() > 1) {
        for (const std::string& name : names) attempts.push_back({name});
    }
    for (const auto& attempt : attempts) {
        Kernel edited = kernel.clone();
        edit_names(edited, attempt, tiled->width * factor);
        if (signature(edited) == wanted) return edited;
    }
    Kernel edited = kernel.clone();
    edit_in_place(edited, *at_path(edited, loop_path), factor);
    if (signature(edited) == wanted) return edited;
    return Failure{std::string("the sizes are tied to something else")};
}

std::vector<std::size_t> path_to(Kernel& kernel, const Stmt& stmt) {
    std::vector<std::size_t> path;
    std::function<bool(Block&)> search = [&](Block& block) {
        for (std::size_t i = 0; i < block.size(); ++i) {
            path.push_back(i);
            if (block[i].get() == &stmt || search(block[i]->body)) return true;
            path.pop_back();
        }
        return false;
    };
    search(kernel.body());
    return path;
}

Stmt* at_path(Kernel& kernel, const std::vector<std::size_t>& path) {
    Block* block = &kernel.body();
    Stmt* stmt = nullptr;
    for (const std::size_t index : path) {
        if (index >= block->size()) return nullptr;
        stmt = (*block)[index].get();
        block = &stmt->body;
    }
    return stmt;
}

}  // namespace accelopt::rewrite
