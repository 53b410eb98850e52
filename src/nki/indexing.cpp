#include <fmt/format.h>

#include <algorithm>

#include "nki/failure.h"
#include "nki/tile.h"

namespace accelopt::nki::interp {

std::vector<std::int64_t> Tile::shape() const {
    std::vector<std::int64_t> shape;
    shape.reserve(rank);
    for (int d = 0; d < rank; ++d) shape.push_back(dims[d].count);
    if (broadcast_partitions > 0) shape[0] = broadcast_partitions;
    return shape;
}

std::int64_t Tile::count() const {
    std::int64_t n = broadcast_partitions > 0 ? broadcast_partitions : 1;
    for (int d = 0; d < rank; ++d) n *= dims[d].count;
    return n;
}

void raise_out_of_bound(const std::string& name, const AxisBound& bound, std::int64_t low,
                        std::int64_t high) {
    rejected(
        "tensor_access_out_of_bound",
        fmt::format("out-of-bound access of '{}' on dimension {}: index range [{}, {}] exceeds "
                    "the dimension size {}",
                    name, bound.axis, low, high, bound.size))
        .limit(bound.size)
        .remedy("correct the index, or pass a mask that keeps it inside")
        .raise();
}

namespace {

/// Adds a dim to a view under construction.
void append(Tile& view, const TileDim& dim) {
    if (view.rank == kMaxTileDims)
        rejected("exceed_max_supported_dimension", "a view has too many dimensions")
            .limit(kMaxTileDims)
            .raise();
    view.dims[view.rank++] = dim;
}

class Subscript {
  public:
    Subscript(Heap& heap, const Tile& tile, const std::string& name) : tile_(tile), name_(name) {
        if (!tile.outside.empty()) {
            const AxisBound& bound = tile.outside.front();
            std::int64_t high = bound.constant;
            for (int d = 0; d < tile.rank; ++d)
                high += std::max<std::int64_t>(0, bound.step[d] * (tile.dims[d].count - 1));
            raise_out_of_bound(name, bound, bound.constant, high);
        }
        view_ = heap.make<Tile>();
        view_->tensor = tile.tensor;
        view_->buffer = tile.buffer;
        view_->dtype = tile.dtype;
        view_->base = tile.base;
        if (!tile.dynamic.empty())
            unsupported("python_feature",
                        fmt::format("indexing '{}' again after indexing it by a tensor", name))
                .remedy("give all indices at once")
                .raise();
    }

    Ref<Tile> run(const std::vector<IndexItem>& items) {
        int consumed = 0;
        int ellipses = 0;
        bool advanced = false;
        for (const IndexItem& item : items) {
            if (item.kind == IndexItem::Kind::kEllipsis) ++ellipses;
            if (item.kind != IndexItem::Kind::kEllipsis && item.kind != IndexItem::Kind::kNewAxis)
                ++consumed;
            dynamic_ = dynamic_ || item.kind == IndexItem::Kind::kDynamic;
            advanced = advanced || dynamic_ || item.kind == IndexItem::Kind::kAffine;
        }
        if (consumed > tile_.rank)
            rejected("value_error", fmt::format("too many indices for '{}': {} for {} dimensions",
                                                name_, consumed, tile_.rank))
                .shape(tile_.shape())
                .raise();
        if (ellipses > 1) rejected("value_error", "an index can have one Ellipsis only").raise();
        if (advanced) {
            run_advanced(items, consumed);
        } else {
            run_basic(items, consumed);
        }
        return view_;
    }

  private:
    void run_basic(const std::vector<IndexItem>& items, int consumed) {
        int axis = 0;
        const auto take_whole = [&](int n) {
            for (int k = 0; k < n; ++k) append(*view_, tile_.dims[axis++]);
        };
        bool open = true;
        for (const IndexItem& item : items) {
            switch (item.kind) {
                case IndexItem::Kind::kNewAxis:
                    append(*view_, {});
                    break;
                case IndexItem::Kind::kEllipsis:
                    take_whole(tile_.rank - consumed);
                    open = false;
                    break;
                case IndexItem::Kind::kInteger:
                    integer(item.start, axis++);
                    break;
                case IndexItem::Kind::kSlice:
                    slice(item, axis++);
                    break;
                case IndexItem::Kind::kAffine:
                case IndexItem::Kind::kDynamic:
                    break;
            }
        }
        if (open) take_whole(tile_.rank - axis);
        if (view_->rank == 0) append(*view_, {});
    }

    /// Refuses an index so far outside that addresses could overflow; no mask would reach it.
    void check_near(std::int64_t low, std::int64_t high, int axis) {
        constexpr std::int64_t kFar = std::int64_t{1} << 40;
        if (low >= -kFar && high <= kFar) return;
        AxisBound bound;
        bound.axis = axis;
        bound.size = tile_.dims[axis].count;
        raise_out_of_bound(name_, bound, low, high);
    }

    void integer(std::int64_t index, int axis) {
        const TileDim& dim = tile_.dims[axis];
        check_near(index, index, axis);
        if (index < 0 && index >= -dim.count) index += dim.count;
        if (index < 0 || index >= dim.count) {
            AxisBound bound;
            bound.axis = axis;
            bound.size = dim.count;
            bound.constant = index;
            view_->outside.push_back(bound);
        }
        view_->base = checked_add(view_->base, checked_multiply(index, dim.stride));
    }

    void slice(const IndexItem& item, int axis) {
        const TileDim& dim = tile_.dims[axis];
        std::int64_t start = item.has_start ? item.start : 0;
        std::int64_t stop = item.has_stop ? item.stop : dim.count;
        if (item.step <= 0)
            unsupported("python_feature", "a slice of a tensor needs a step above 0").raise();
        check_near(start, stop, axis);
        if (start < 0) start = checked_add(start, dim.count);
        if (stop < 0) stop = checked_add(stop, dim.count);
        if (stop <= start)
            rejected("value_error", fmt::format("empty slice [{}:{}] of '{}' on dimension {}",
                                                start, stop, name_, axis))
                .shape(tile_.shape())
                .raise();
        TileDim out;
        out.count = (checked_subtract(stop, start) - 1) / item.step + 1;
        out.stride = checked_multiply(dim.stride, item.step);
        out.tag = dim.tag;
        if (start < 0 || stop > dim.count) {
            AxisBound bound;
            bound.axis = axis;
            bound.size = dim.count;
            bound.constant = start;
            bound.step[view_->rank] = item.step;
            view_->outside.push_back(bound);
        }
        view_->base = checked_add(view_->base, checked_multiply(start, dim.stride));
        append(*view_, out);
    }

    void run_advanced(const std::vector<IndexItem>& items, int consumed) {
        const bool partial = dynamic_ && consumed <= tile_.rank;
        if ((consumed != tile_.rank && !partial) || consumed != static_cast<int>(items.size()))
            mixed();
        int rank = 0;
        for (const IndexItem& item : items) {
            if (item.kind == IndexItem::Kind::kSlice) mixed();
            if (item.kind == IndexItem::Kind::kDynamic)
                rank = std::max({rank, item.affine->rank, index_rank(*item.tile)});
            if (item.kind != IndexItem::Kind::kAffine) continue;
            if (item.affine->rank == 1)
                rejected("1d_arange_not_supported",
                         fmt::format("indexing '{}' with a 1-D arange is not supported", name_))
                    .remedy("give the index two dimensions: nl.arange(n)[:, None]")
                    .raise();
            rank = std::max(rank, item.affine->rank);
        }
        for (int d = 0; d < rank; ++d) append(*view_, {});
        for (int axis = 0; axis < consumed; ++axis) {
            if (items[axis].kind == IndexItem::Kind::kAffine) {
                affine(*items[axis].affine, axis, rank);
            } else if (items[axis].kind == IndexItem::Kind::kDynamic) {
                dynamic(items[axis], axis, rank);
            } else {
                integer(items[axis].start, axis);
            }
        }
        // data[index]: the axes without an index follow whole.
        for (int axis = consumed; axis < tile_.rank; ++axis) append(*view_, tile_.dims[axis]);
    }

    /// A column of a tile counts as [P, 1].
    static int index_rank(const Tile& index) { return std::max(index.rank, 2); }

    /// An axis indexed by the values of a tile plus an affine expression.
    void dynamic(const IndexItem& item, int axis, int rank) {
        const TileDim dim = tile_.dims[axis];
        DynamicAxis made;
        made.index = item.tile;
        made.stride = dim.stride;
        made.scale = item.scale;
        made.size = dim.count;
        made.after_partitions = view_->dims[0].stride != 0;
        made.offset = item.affine->constant;
        const auto widen = [&](int d, std::int64_t count) {
            TileDim& to = view_->dims[d];
            if (count != 1 && to.count != 1 && count != to.count)
                rejected("value_error",
                         fmt::format("the indices of '{}' do not broadcast: {} and {}", name_,
                                     count, to.count))
                    .raise();
            to.count = std::max(to.count, count);
            if (count > 1 && to.tag == AxisTag::kNew) to.tag = dim.tag;
        };
        const int shift = rank - index_rank(*item.tile);
        for (int d = 0; d < item.tile->rank; ++d) {
            widen(d + shift, item.tile->dims[d].count);
            made.along_free = made.along_free || (d > 0 && item.tile->dims[d].count > 1);
            if (item.tile->dims[d].count > 1)
                made.index_step[d + shift] = item.tile->dims[d].stride;
        }
        for (int d = 0; d < item.affine->rank; ++d) {
            const AffineExpr::Axis& from = item.affine->axes[d];
            const int to = d + rank - item.affine->rank;
            widen(to, from.count);
            if (from.count == 1 || from.coefficient == 0) continue;
            made.offset_step[to] = from.coefficient;
            view_->dims[to].stride =
                checked_add(view_->dims[to].stride, checked_multiply(from.coefficient, dim.stride));
        }
        check_near(item.affine->minimum(), item.affine->maximum(), axis);
        view_->base = checked_add(view_->base, checked_multiply(item.affine->constant, dim.stride));
        view_->dynamic.push_back(made);
    }

    [[noreturn]] void mixed() {
        rejected("unsupported_mixing_basic_advanced_tensor_indexing",
                 fmt::format("the index of '{}' mixes slices with arange expressions", name_))
            .shape(tile_.shape())
            .remedy(
                "index every dimension with arange expressions and integers, or every one with "
                "slices")
            .raise();
    }

    void affine(const AffineExpr& index, int axis, int rank) {
        const TileDim& dim = tile_.dims[axis];
        const int shift = rank - index.rank;
        AxisBound bound;
        for (int d = 0; d < index.rank; ++d) {
            const AffineExpr::Axis& from = index.axes[d];
            TileDim& to = view_->dims[d + shift];
            if (from.count != 1 && to.count != 1 && from.count != to.count)
                rejected("value_error",
                         fmt::format("the indices of '{}' do not broadcast: {} and {}", name_,
                                     from.count, to.count))
                    .raise();
            to.count = std::max(to.count, from.count);
            if (from.coefficient == 0) continue;
            if (from.count == 1) {  // names the axis, walks nowhere
                if (to.tag == AxisTag::kNew) {
                    to.tag = dim.tag;
                    nominal_[d + shift] = true;
                }
                continue;
            }
            to.stride = checked_add(to.stride, checked_multiply(from.coefficient, dim.stride));
            if (to.tag == AxisTag::kNew || nominal_[d + shift]) {
                to.tag = dim.tag;
                nominal_[d + shift] = false;
            } else if (to.tag != dim.tag) {
                to.tag = AxisTag::kMixed;
            }
            bound.step[d + shift] = from.coefficient;
        }
        view_->base = checked_add(view_->base, checked_multiply(index.constant, dim.stride));
        if (index.minimum() < 0 || index.maximum() >= dim.count) {
            bound.axis = axis;
            bound.size = dim.count;
            bound.constant = index.constant;
            view_->outside.push_back(bound);
        }
    }

    const Tile& tile_;
    const std::string& name_;
    Ref<Tile> view_;
    bool dynamic_ = false;                      ///< some axis is indexed by a tile
    std::array<bool, kMaxTileDims> nominal_{};  // tag set by a one-element index only
};

Ref<Tile> copy_of(Heap& heap, const Tile& tile) {
    Ref<Tile> copy = heap.make<Tile>();
    copy->tensor = tile.tensor;
    copy->buffer = tile.buffer;
    copy->dtype = tile.dtype;
    copy->base = tile.base;
    copy->rank = tile.rank;
    copy->dims = tile.dims;
    copy->outside = tile.outside;
    copy->dynamic = tile.dynamic;
    return copy;
}

[[noreturn]] void bad_shape(const char* what, const Tile& tile,
                            const std::vector<std::int64_t>& shape) {
    rejected("value_error",
             fmt::format("cannot {} {} to {}", what, shape_text(tile.shape()), shape_text(shape)))
        .shape(tile.shape())
        .shape(shape)
        .raise();
}

}  // namespace

Ref<Tile> subscript(Heap& heap, const Tile& tile, const std::vector<IndexItem>& items,
                    const std::string& name) {
    return Subscript(heap, tile, name).run(items);
}

Ref<Tile> reshape(Heap& heap, const Tile& tile, const std::vector<std::int64_t>& shape) {
    std::int64_t total = 1;
    for (const std::int64_t n : shape) total = checked_multiply(total, n);
    if (total != tile.count() || shape.empty() || shape.size() > kMaxTileDims || total <= 0)
        bad_shape("reshape", tile, shape);
    const bool on_chip = tile.buffer != Buffer::kHbm;
    const int first = on_chip ? 1 : 0;
    if (on_chip && (tile.rank == 0 || tile.dims[0].tag != AxisTag::kPartition))
        bad_shape("reshape", tile, shape);
    const auto leading = std::find_if(shape.begin(), shape.end(), [](auto n) { return n != 1; });
    if (on_chip && shape[0] == 1 && leading != shape.end() && *leading == tile.dims[0].count)
        rejected("leading_dimension_of_tensor_must_be_partition",
                 fmt::format("a reshape of {} to {} puts a dimension in front of the partition "
                             "dimension",
                             shape_text(tile.shape()), shape_text(shape)))
            .shape(tile.shape())
            .shape(shape)
            .remedy("add dimensions behind the partition dimension")
            .raise();
    if (on_chip && shape[0] != tile.dims[0].count)
        rejected("partition_reshape",
                 fmt::format("a reshape of {} to {} would move elements between partitions",
                             shape_text(tile.shape()), shape_text(shape)))
            .shape(tile.shape())
            .shape(shape)
            .remedy("keep the first dimension; move data through HBM to change it")
            .raise();
    std::int64_t expected = 1;
    for (int d = tile.rank - 1; d >= first; --d) {
        if (tile.dims[d].count != 1 && tile.dims[d].stride != expected)
            bad_shape("reshape", tile, shape);
        expected *= tile.dims[d].count;
    }
    Ref<Tile> view = copy_of(heap, tile);
    view->whole = tile.whole && !on_chip;
    view->rank = static_cast<int>(shape.size());
    std::int64_t stride = 1;
    for (int d = view->rank - 1; d >= first; --d) {
        view->dims[d] = {shape[d], stride, AxisTag::kFree};
        stride *= shape[d];
    }
    return view;
}

Ref<Tile> permute(Heap& heap, const Tile& tile, const std::vector<int>& order) {
    Ref<Tile> view = copy_of(heap, tile);
    for (int d = 0; d < tile.rank; ++d)
        view->dims[d] = tile.dims[order[static_cast<std::size_t>(d)]];
    for (AxisBound& bound : view->outside) {
        const auto step = bound.step;
        for (int d = 0; d < tile.rank; ++d)
            bound.step[d] = step[order[static_cast<std::size_t>(d)]];
    }
    return view;
}

Ref<Tile> broadcast_to(Heap& heap, const Ref<Tile>& tile, const std::vector<std::int64_t>& shape) {
    const int rank = static_cast<int>(shape.size());
    if (tile->shape() == shape) return tile;
    if (rank < tile->rank || rank > kMaxTileDims || rank < 1) bad_shape("broadcast", *tile, shape);
    Ref<Tile> view = copy_of(heap, *tile);
    view->rank = rank;
    const int extra = rank - tile->rank;
    // The partition axis stays in front; new axes go between it and the free ones.
    for (int d = 0; d < rank; ++d) {
        const bool fresh = d != 0 && d <= extra;
        const TileDim from = d == 0 ? tile->dims[0] : fresh ? TileDim{} : tile->dims[d - extra];
        view->dims[d] = from;
        if (from.count == shape[d]) continue;
        if (from.count != 1 || shape[d] < 1) bad_shape("broadcast", *tile, shape);
        if (d == 0) {
            view->broadcast_partitions = shape[0];
            continue;
        }
        view->dims[d] = {shape[d], 0, AxisTag::kNew};
    }
    return view;
}

}  // namespace accelopt::nki::interp
