#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "nki/api.h"
#include "nki/evaluator.h"
#include "nki/failure.h"

namespace accelopt::nki::interp {
namespace {

/// Slice bounds clamped to a Python sequence of `size` items.
struct Bounds {
    std::int64_t start = 0;
    std::int64_t stop = 0;
    std::int64_t step = 1;
};

bool is_newaxis(const Value& value) {
    return value.is(Kind::kNone) ||
           (value.is(Kind::kToken) && value.integer() == static_cast<int>(TokenId::kNewAxis));
}

}  // namespace

/// New axes only: index[:, None] and index[None, :].
Value Evaluator::index_affine(const Affine& affine, const Value& index) {
    AffineExpr result;
    result.constant = affine.expr.constant;
    result.rank = 0;
    int taken = 0;
    std::vector<Value> items;
    if (index.is(Kind::kTuple)) {
        items = index.as<Sequence>().items;
    } else {
        items.push_back(index);
    }
    const auto push = [&](const AffineExpr::Axis& axis) {
        if (result.rank == kMaxIndexDims)
            rejected("exceed_max_supported_dimension", "an index has too many dimensions")
                .limit(kMaxIndexDims)
                .raise();
        result.axes[result.rank++] = axis;
    };
    for (const Value& item : items) {
        if (is_newaxis(item)) {
            push({});
            continue;
        }
        const bool whole = item.is(Kind::kSlice) && item.as<Slice>().start.is(Kind::kNone) &&
                           item.as<Slice>().stop.is(Kind::kNone) &&
                           item.as<Slice>().step.is(Kind::kNone);
        const bool rest = item.is(Kind::kEllipsis);
        if ((!whole && !rest) || taken >= affine.expr.rank)
            unsupported("python_feature", "an index expression can only be given new axes")
                .remedy("write nl.arange(n)[:, None] or nl.arange(n)[None, :]")
                .raise();
        push(affine.expr.axes[taken++]);
        while (rest && taken < affine.expr.rank) push(affine.expr.axes[taken++]);
    }
    while (taken < affine.expr.rank) push(affine.expr.axes[taken++]);
    return Value::object(Kind::kAffine, heap_.make<Affine>(result));
}

Value Evaluator::index_sequence(const Value& base, const Value& index) {
    const bool is_string = base.is(Kind::kString);
    const auto size = static_cast<std::int64_t>(is_string ? base.as<String>().text.size()
                                                          : base.as<Sequence>().items.size());
    const auto item = [&](std::int64_t k) {
        return is_string ? string(std::string(1, base.as<String>().text[k]))
                         : base.as<Sequence>().items[k];
    };
    if (index.is_integer()) {
        std::int64_t k = index.integer();
        if (k < 0) k += size;
        if (k < 0 || k >= size)
            rejected("value_error", fmt::format("index {} is out of range for {} of {} items",
                                                index.integer(), kind_name(base.kind()), size))
                .raise();
        return item(k);
    }
    if (!index.is(Kind::kSlice))
        rejected("type_error", fmt::format("{} indices must be integers, not '{}'",
                                           kind_name(base.kind()), kind_name(index.kind())))
            .raise();
    const Slice& slice = index.as<Slice>();
    Bounds b;
    b.step = slice.step.is(Kind::kNone) ? 1 : to_integer(slice.step, "a slice");
    if (b.step == 0) rejected("value_error", "slice step cannot be zero").raise();
    const std::int64_t low = b.step > 0 ? 0 : -1;
    const std::int64_t high = b.step > 0 ? size : size - 1;
    const auto bound = [&](const Value& value, std::int64_t otherwise) {
        if (value.is(Kind::kNone)) return otherwise;
        std::int64_t k = to_integer(value, "a slice");
        if (k < 0) k += size;
        return std::min(std::max(k, low), high);
    };
    b.start = bound(slice.start, b.step > 0 ? low : high);
    b.stop = bound(slice.stop, b.step > 0 ? high : low);
    std::vector<Value> items;
    for (std::int64_t k = b.start; b.step > 0 ? k < b.stop : k > b.stop; k += b.step) {
        tick();
        items.push_back(item(k));
        if (items.size() > static_cast<std::size_t>(size)) break;
        if (b.step > size || b.step < -size) break;  // one item; the next index could overflow
    }
    if (is_string) {
        std::string text;
        for (const Value& part : items) text += part.as<String>().text;
        return string(std::move(text));
    }
    return base.is(Kind::kTuple) ? tuple(std::move(items)) : list(std::move(items));
}

Ref<Tile> Evaluator::index_tile(const Ref<Tile>& broadcast, const Value& index) {
    const Tile& tile = *broadcast;
    const bool several = index.is(Kind::kTuple) && !index.as<Sequence>().grid;
    const std::span<const Value> values =
        several ? std::span<const Value>(index.as<Sequence>().items) : std::span(&index, 1);
    static const AffineExpr kNoOffset;
    std::vector<IndexItem>& items = index_items_;
    items.clear();
    for (const Value& value : values) {
        IndexItem item;
        if (value.is_integer()) {
            item.start = value.integer();
        } else if (value.is(Kind::kAffine)) {
            item.kind = IndexItem::Kind::kAffine;
            item.affine = &value.as<Affine>().expr;
        } else if (value.is(Kind::kSlice)) {
            const Slice& slice = value.as<Slice>();
            for (const Value* bound : {&slice.start, &slice.stop, &slice.step})
                if (bound->is(Kind::kAffine))
                    rejected("type_error", "a slice cannot have an arange expression as its bound")
                        .remedy("index with the arange expression itself")
                        .raise();
            item.kind = IndexItem::Kind::kSlice;
            item.has_start = !slice.start.is(Kind::kNone);
            item.has_stop = !slice.stop.is(Kind::kNone);
            if (item.has_start) item.start = to_integer(slice.start, "a slice");
            if (item.has_stop) item.stop = to_integer(slice.stop, "a slice");
            if (!slice.step.is(Kind::kNone)) item.step = to_integer(slice.step, "a slice");
        } else if (value.is(Kind::kEllipsis)) {
            item.kind = IndexItem::Kind::kEllipsis;
        } else if (is_newaxis(value)) {
            item.kind = IndexItem::Kind::kNewAxis;
        } else if (value.is(Kind::kTile) || value.is(Kind::kPending) || value.is(Kind::kDynamic)) {
            const bool plain = !value.is(Kind::kDynamic);
            item.kind = IndexItem::Kind::kDynamic;
            item.affine = plain ? &kNoOffset : &value.as<Dynamic>().offset;
            item.tile = plain ? materialise(value) : value.as<Dynamic>().tile;
            if (!plain) item.scale = value.as<Dynamic>().scale;
            if (is_float(item.tile->dtype))
                rejected("type_error", fmt::format("a tensor cannot be indexed by {} values",
                                                   to_string(item.tile->dtype)))
                    .shape(item.tile->shape())
                    .remedy("index with an integer tile")
                    .raise();
        } else {
            rejected("type_error",
                     fmt::format("a tensor cannot be indexed by '{}'", kind_name(value.kind())))
                .raise();
        }
        items.push_back(item);
    }
    if (tile.broadcast_partitions > 0) {
        // A broadcast over partitions that is to be indexed has to be made.
        const Ref<Tile> made =
            builder_.settle(broadcast, request_here(Opcode::kPartitionBroadcast));
        return interp::subscript(heap_, *made, items, builder_.describe(*made));
    }
    return interp::subscript(heap_, tile, items, builder_.describe(tile));
}

namespace {

/// nl.mgrid[0:128, 0:512]: one index expression per slice.
std::vector<AffineExpr> grid_of(const std::vector<Value>& slices) {
    std::vector<AffineExpr> grid;
    const int rank = static_cast<int>(slices.size());
    if (rank > kMaxIndexDims)
        rejected("exceed_max_supported_dimension", "nl.mgrid has too many dimensions").raise();
    for (int d = 0; d < rank; ++d) {
        if (!slices[d].is(Kind::kSlice))
            rejected("type_error", "nl.mgrid needs slices")
                .remedy("nl.mgrid[0:128, 0:512]")
                .raise();
        const Slice& slice = slices[d].as<Slice>();
        if (!slice.stop.is_integer() ||
            !(slice.start.is_integer() || slice.start.is(Kind::kNone)) ||
            !slice.step.is(Kind::kNone))
            rejected("type_error", "nl.mgrid needs slices of integers without a step").raise();
        const std::int64_t start = slice.start.is_integer() ? slice.start.integer() : 0;
        const AffineExpr line = arange(start, slice.stop.integer());
        AffineExpr expr;
        expr.constant = start;
        expr.rank = rank;
        expr.axes[d] = line.axes[0];
        grid.push_back(expr);
    }
    // Dense grids: every expression has the full shape.
    for (AffineExpr& expr : grid)
        for (int d = 0; d < rank; ++d) expr.axes[d].count = grid[d].axes[d].count;
    return grid;
}

}  // namespace

Value Evaluator::subscript(const Value& base, const Value& index) {
    switch (base.kind()) {
        case Kind::kTile:
            return Value::tile(index_tile(materialise(base), index));
        case Kind::kPending:
            return Value::tile(index_tile(materialise(base), index));
        case Kind::kAffine:
            return index_affine(base.as<Affine>(), index);
        case Kind::kTuple:
        case Kind::kList:
        case Kind::kString:
            return index_sequence(base, index);
        case Kind::kArray:
            return array_element(base.as<HostArray>(), index);
        case Kind::kDict:
            for (const auto& [key, value] : base.as<Mapping>().entries)
                if (equal(key, index)) return value;
            rejected("value_error", fmt::format("key {} is not in the dict", repr(index))).raise();
        case Kind::kRange: {
            const Range& range = base.as<Range>();
            std::int64_t k = to_integer(index, "a range index");
            if (k < 0) k += range.count();
            if (k < 0 || k >= range.count())
                rejected("value_error", "range index out of range").raise();
            return Value::integer(range.start + k * range.step);
        }
        case Kind::kToken:
            if (base.integer() == static_cast<int>(TokenId::kMgrid)) {
                std::vector<Value> slices;
                if (index.is(Kind::kTuple)) {
                    slices = index.as<Sequence>().items;
                } else {
                    slices.push_back(index);
                }
                std::vector<Value> items;
                for (const AffineExpr& expr : grid_of(slices))
                    items.push_back(Value::object(Kind::kAffine, heap_.make<Affine>(expr)));
                if (!index.is(Kind::kTuple)) return items[0];
                Value result = tuple(std::move(items));
                result.as<Sequence>().grid = true;
                return result;
            }
            break;
        case Kind::kFunction:
            rejected("nested_kernel_with_spmd_grid", "a kernel cannot be launched with a grid here")
                .raise();
        case Kind::kOpaque:
            return base;
        default:
            break;
    }
    rejected("type_error", fmt::format("'{}' cannot be indexed", kind_name(base.kind()))).raise();
}

}  // namespace accelopt::nki::interp
