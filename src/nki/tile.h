#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "nki/affine.h"
#include "nki/heap.h"
#include "nki/program.h"

namespace accelopt::nki::interp {

/// Most dimensions of a tensor or a view as the kernel writes it, block dimensions included.
inline constexpr int kMaxTileDims = 12;

/// Which axes of its tensor a dimension of a view walks along.
enum class AxisTag : std::uint8_t {
    kNew,    ///< none: a new axis or a broadcast
    kBlock,  ///< left of the partition axis
    kPartition,
    kFree,  ///< right of it; every axis of an HBM tensor
    kMixed  ///< several kinds at once
};

struct TileDim {
    std::int64_t count = 1;
    std::int64_t stride = 0;  ///< in elements of the row-major tensor, blocks included
    AxisTag tag = AxisTag::kNew;
};

/// An index that leaves its tensor unless a mask keeps it inside: value = constant +
/// sum(step[d] * i_d) over the dims of the view, legal in [0, size).
struct AxisBound {
    int axis = 0;
    std::int64_t size = 0;
    std::int64_t constant = 0;
    std::array<std::int64_t, kMaxTileDims> step{};
};

struct Tile;

/// An axis of a view that is indexed by the values of a tile: element = ... + stride *
/// (scale * value of `index` + offset), the bracket legal in [0, size).
struct DynamicAxis {
    Ref<Tile> index;
    std::int64_t stride = 0;  ///< of the axis, in elements
    std::int64_t scale = 1;
    std::int64_t size = 0;
    bool after_partitions = false;  ///< an axis before it walks along the partitions
    bool along_free = false;        ///< the index tile has free dimensions
    std::int64_t offset = 0;        ///< constant part of the offset
    std::array<std::int64_t, kMaxTileDims> offset_step{};  ///< per dim of the view
    /// Stride of the index tile along every dim of the view, in its elements.
    std::array<std::int64_t, kMaxTileDims> index_step{};
};

/// A window into a tensor: what a name such as `x_tile` or an expression such as `x[0:128, j]`
/// denotes. Copies are cheap to make and never move data.
struct Tile : Object {
    TensorId tensor = -1;
    Buffer buffer = Buffer::kSbuf;
    DType dtype = DType::kFloat32;
    bool whole = false;     ///< the tensor itself, not a view of it
    std::int64_t base = 0;  ///< element of the row-major tensor
    int rank = 0;
    std::array<TileDim, kMaxTileDims> dims{};
    /// Above 0: one partition that is to be read as this many (broadcast_to), not yet made.
    std::int64_t broadcast_partitions = 0;
    Ref<Tile> expanded;                ///< the broadcast once it has been made
    std::vector<AxisBound> outside;    ///< indices that need a mask; usually empty
    std::vector<DynamicAxis> dynamic;  ///< axes indexed at run time; usually empty

    std::vector<std::int64_t> shape() const;
    std::int64_t count() const;
};

/// One item between the brackets of a subscript.
struct IndexItem {
    enum class Kind : std::uint8_t { kInteger, kSlice, kNewAxis, kEllipsis, kAffine, kDynamic };
    Kind kind = Kind::kInteger;
    std::int64_t start = 0;
    std::int64_t stop = 0;
    std::int64_t step = 1;
    bool has_start = false;
    bool has_stop = false;
    const AffineExpr* affine = nullptr;  ///< kAffine, kDynamic: what is added to the values
    Ref<Tile> tile;                      ///< kDynamic: the values
    std::int64_t scale = 1;              ///< kDynamic: they are multiplied by this
};

/// Applies an index to a view. Basic indices (integers, slices, None, Ellipsis) follow numpy, but
/// a slice is never clamped; advanced ones (affine in arange) may be mixed with integers only.
Ref<Tile> subscript(Heap& heap, const Tile& tile, const std::vector<IndexItem>& items,
                    const std::string& name);

/// Reinterprets a contiguous view under another shape. On-chip tiles keep their partition axis.
Ref<Tile> reshape(Heap& heap, const Tile& tile, const std::vector<std::int64_t>& shape);

/// numpy.broadcast_to along the free axes (stride 0), and along the partition axis from one
/// partition (marked, made on first use).
Ref<Tile> broadcast_to(Heap& heap, const Ref<Tile>& tile, const std::vector<std::int64_t>& shape);

/// The same view with its dimensions in another order; HBM tensors only.
Ref<Tile> permute(Heap& heap, const Tile& tile, const std::vector<int>& order);

/// Raises tensor_access_out_of_bound for an index in [low, high].
[[noreturn]] void raise_out_of_bound(const std::string& name, const AxisBound& bound,
                                     std::int64_t low, std::int64_t high);

}  // namespace accelopt::nki::interp
