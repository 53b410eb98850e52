#include "trainium/stream_access.h"

#include <algorithm>
#include <limits>

namespace accelopt::trainium {
namespace {

__extension__ typedef __int128 Wide;  // masks of hostile kernels must not overflow

std::int32_t clamp32(std::int64_t value) {
    return static_cast<std::int32_t>(
        std::clamp<std::int64_t>(value, 0, std::numeric_limits<std::int32_t>::max()));
}

Wide ceil_divide(Wide a, Wide b) {  // b > 0
    return a >= 0 ? (a + b - 1) / b : -((-a) / b);
}

/// Narrows [lo, hi) of one dimension to the indices for which a term can hold.
void narrow(const nki::MaskTerm& term, const nki::View& space, int dim, std::int64_t& lo,
            std::int64_t& hi) {
    Wide best = term.constant;  // the term's largest value over the other dimensions
    for (int e = 0; e < space.rank; ++e) {
        if (e != dim && term.coefficients[e] > 0)
            best += Wide(term.coefficients[e]) * (space.dims[e].count - 1);
    }
    const Wide c = term.coefficients[dim];
    if (c == 0) {
        if (best < 0) hi = lo;
    } else if (c > 0) {
        lo = static_cast<std::int64_t>(
            std::clamp<Wide>(ceil_divide(-best, c), lo, std::max(lo, hi)));
    } else {
        const Wide last = best < 0 ? Wide(-1) : best / -c;
        hi = static_cast<std::int64_t>(std::clamp<Wide>(last + 1, lo, std::max(lo, hi)));
    }
}

std::uint64_t access_hash(const nki::Tensor& tensor, const nki::View& view) {
    std::uint64_t hash =
        mix(static_cast<std::uint64_t>(tensor.dtype), static_cast<std::uint64_t>(view.offset));
    for (int d = 0; d < view.rank; ++d) {
        if (view.dims[d].count == 1) continue;
        hash = mix(hash, static_cast<std::uint64_t>(view.dims[d].stride));
        hash = mix(hash, static_cast<std::uint64_t>(view.dims[d].count));
    }
    return hash;
}

}  // namespace

Counts active_counts(const nki::Operation& operation, const nki::View& space) {
    Counts counts{};
    bool empty = false;
    for (int d = 0; d < space.rank; ++d) {
        std::int64_t lo = 0;
        std::int64_t hi = space.dims[d].count;
        for (const nki::MaskTerm& term : operation.mask) narrow(term, space, d, lo, hi);
        counts[d] = std::max<std::int64_t>(0, hi - lo);
        empty = empty || counts[d] == 0;
    }
    if (empty) counts.fill(0);
    return counts;
}

std::int64_t product(const Counts& counts, int first, int rank) {
    std::int64_t n = 1;
    for (int d = first; d < rank; ++d) n *= counts[d];
    return n;
}

Operand access_box(const nki::Tensor& tensor, const nki::View& view) {
    // On chip a row is a partition; in HBM it is the last dimension, which keeps column tiles of
    // one matrix apart.
    const bool hbm = tensor.buffer == nki::Buffer::kHbm;
    const std::int64_t last = tensor.shape.empty() ? 1 : tensor.shape.back();
    const std::int64_t row = std::max<std::int64_t>(1, hbm ? last : tensor.free_elements);
    std::int64_t first = view.offset;
    std::int64_t row_extent = 0;
    std::int64_t column_extent = 0;
    for (int d = 0; d < view.rank; ++d) {
        const std::int64_t stride = view.dims[d].stride;
        const std::int64_t count = view.dims[d].count;
        if (count <= 1 || stride == 0) continue;
        const std::int64_t reach = (count - 1) * (stride < 0 ? -stride : stride);
        if (stride < 0) first -= reach;
        const bool rows = hbm ? stride % row == 0 && row > 1 : d == 0;
        (rows ? row_extent : column_extent) += reach;
    }
    const std::int64_t size = nki::size_of(tensor.dtype);
    const std::int64_t column = first % row;
    Operand box;
    box.access = access_hash(tensor, view);
    box.partition_lo = clamp32(first / row);
    if (column + column_extent < row) {
        box.partition_hi = clamp32((first + row_extent) / row + 1);
        box.byte_lo = clamp32(column * size);
        box.byte_hi = clamp32((column + column_extent + 1) * size);
    } else {  // the access wraps around rows: take whole rows
        box.partition_hi = clamp32((first + row_extent + column_extent) / row + 1);
        box.byte_lo = 0;
        box.byte_hi = clamp32(row * size);
    }
    return box;
}

std::int64_t contiguous_bytes(const nki::View& view, const Counts& counts, int first,
                              int element_bytes) {
    std::int64_t run = 1;
    std::array<bool, nki::kMaxDims> used{};
    for (int d = first; d < view.rank; ++d) {  // each pass appends the dimension that abuts
        const std::int64_t stride = view.dims[d].stride;
        if (used[d] || counts[d] <= 1 || (stride < 0 ? -stride : stride) != run) continue;
        used[d] = true;
        run *= counts[d];
        d = first - 1;
    }
    return run * element_bytes;
}

bool shares_run(const nki::View& a, const nki::View& b, const Counts& counts) {
    for (int d = 1; d < std::max(a.rank, b.rank); ++d) {
        const bool in_a = a.dims[d].stride == 1 || a.dims[d].stride == -1;
        if (counts[d] > 1 && in_a && a.dims[d].stride == b.dims[d].stride) return true;
    }
    return false;
}

std::int64_t largest_stride_bytes(const nki::View& view, const Counts& counts, int element_bytes) {
    std::int64_t largest = 0;
    for (int d = 0; d < view.rank; ++d) {
        if (counts[d] <= 1) continue;
        const std::int64_t stride = view.dims[d].stride;
        largest = std::max(largest, stride < 0 ? -stride : stride);
    }
    return largest * element_bytes;
}

}  // namespace accelopt::trainium
