#pragma once

#include <array>
#include <cstdint>

#include "nki/program.h"
#include "trainium/stream.h"

namespace accelopt::trainium {

/// Element counts per dimension.
using Counts = std::array<std::int64_t, nki::kMaxDims>;

/// Returns the extent of the bounding box of a mask's active elements over the iteration space
/// `space`; all zero when no element is active.
Counts active_counts(const nki::Operation& operation, const nki::View& space);

/// Product of the counts of dims [first, rank).
std::int64_t product(const Counts& counts, int first, int rank);

/// Returns the box of bytes a view touches, without the tile id.
Operand access_box(const nki::Tensor& tensor, const nki::View& view);

/// Returns the bytes of the contiguous runs of a view cut down to `counts`, over dims
/// [first, rank): innermost strides that abut are one run.
std::int64_t contiguous_bytes(const nki::View& view, const Counts& counts, int first,
                              int element_bytes);

/// True when some free dimension with more than one element is contiguous in both views.
bool shares_run(const nki::View& a, const nki::View& b, const Counts& counts);

/// Returns the largest stride, in bytes, of a dimension with more than one element.
std::int64_t largest_stride_bytes(const nki::View& view, const Counts& counts, int element_bytes);

}  // namespace accelopt::trainium
