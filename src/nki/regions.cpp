#include "nki/regions.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include "nki/failure.h"

namespace accelopt::nki::interp {
namespace {

/// Keeps all sums of reaches in 63 bits. No tensor is near it; a mask with a slanted edge may
/// leave a view that reaches further than its tensor.
constexpr std::int64_t kFarthest = std::int64_t{1} << 50;
/// Rows of a grid for regions that are one run: they have no row that ends.
constexpr std::int64_t kOneRow = std::int64_t{1} << 60;

std::uint64_t mix(std::uint64_t hash, std::int64_t value) {
    hash ^= static_cast<std::uint64_t>(value) + 0x9e3779b97f4a7c15ULL + (hash << 6) + (hash >> 2);
    hash *= 0xbf58476d1ce4e5b9ULL;
    return hash ^ (hash >> 29);
}

std::int64_t floor_div(std::int64_t a, std::int64_t b) {  // b > 0
    const std::int64_t q = a / b;
    return a % b < 0 ? q - 1 : q;
}

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return -floor_div(-a, b); }

bool meet(std::int64_t a, std::int64_t a_end, std::int64_t b, std::int64_t b_end) {
    return a < b_end && b < a_end;
}

/// Adds a dimension of a view, whatever the sign of its stride.
void add_dim(Region& region, std::int64_t stride, std::int64_t count) {
    if (count <= 1 || stride == 0) return;
    const std::int64_t reach = checked_multiply(count - 1, stride < 0 ? -stride : stride);
    if (reach > kFarthest)
        exhausted("memory", fmt::format("an access reaches over {} elements", reach))
            .limit(kFarthest)
            .remedy("use smaller strides")
            .raise();
    if (stride < 0) region.start -= reach;
    region.end += stride < 0 ? 0 : reach;
    int k = region.rank++;
    for (; k > 0 && region.dims[k - 1].stride > (stride < 0 ? -stride : stride); --k)
        region.dims[k] = region.dims[k - 1];
    region.dims[k] = {stride < 0 ? -stride : stride, count};
}

/// Joins dimensions that continue each other, and those that the run reaches across.
void join_dims(Region& region) {
    int kept = 0;
    for (int k = 0; k < region.rank; ++k) {
        const Region::Dim dim = region.dims[k];
        if (kept == 0 && dim.stride <= region.run) {
            region.run += (dim.count - 1) * dim.stride;
        } else if (kept > 0 &&
                   dim.stride == region.dims[kept - 1].stride * region.dims[kept - 1].count) {
            region.dims[kept - 1].count *= dim.count;
        } else {
            region.dims[kept++] = dim;
        }
    }
    for (int k = kept; k < region.rank; ++k) region.dims[k] = {};
    region.rank = kept;
}

}  // namespace

std::uint64_t Region::hash() const {
    std::uint64_t hash = mix(mix(mix(mix(0, p_lo), p_hi), start), run);
    for (int d = 0; d < rank; ++d) hash = mix(mix(hash, dims[d].stride), dims[d].count);
    return hash;
}

Region region_of(const View& view, const Tensor& tensor) {
    Region region;
    region.start = view.offset;
    int first = 0;
    if (tensor.buffer != Buffer::kHbm) {
        region.p_lo = view.offset / tensor.free_elements;
        region.p_hi = region.p_lo + view.dims[0].count;
        region.start = view.offset % tensor.free_elements;
        first = 1;
    }
    region.end = region.start + 1;
    for (int d = view.rank - 1; d >= first; --d)
        add_dim(region, view.dims[d].stride, view.dims[d].count);
    if (region.rank > 0) join_dims(region);
    return region;
}

void Overlaps::exceeded() const {
    exhausted("steps",
              fmt::format("telling apart the parts of tensors that are accessed takes more than {} "
                          "steps",
                          limit_))
        .limit(limit_)
        .remedy("access fewer different parts of a tensor, or use nl.sequential_range")
        .raise();
}

/// The common case, runs in rows of one pitch: true when it is one, `result` says how it ends.
bool Overlaps::decided_by_pitch(const Region& a, const Region& b, bool& result) {
    if (a.rank > 1 || b.rank > 1) return false;
    if (a.rank == 0 && b.rank == 0) {
        result = true;  // the hulls are all there is
        return true;
    }
    const std::int64_t pitch = a.rank == 1 ? a.dims[0].stride : b.dims[0].stride;
    if (a.rank == 1 && b.rank == 1 && b.dims[0].stride != pitch) return false;
    const std::int64_t column_a = a.start % pitch;
    const std::int64_t column_b = b.start % pitch;
    if (column_a + a.run > pitch || column_b + b.run > pitch) return false;
    const std::int64_t row_a = a.start / pitch;
    const std::int64_t row_b = b.start / pitch;
    result = meet(column_a, column_a + a.run, column_b, column_b + b.run) &&
             meet(row_a, row_a + (a.rank == 1 ? a.dims[0].count : 1), row_b,
                  row_b + (b.rank == 1 ? b.dims[0].count : 1));
    return true;
}

/// Regions share an element when start_a - start_b + (sum over a) - (sum over b) + u - v can be 0,
/// with u and v below the lengths of the runs: when the sums of both sides, their strides as
/// weights, can lie in an interval.
bool Overlaps::operator()(const Region& a, const Region& b) {
    spend(1);
    if (!meet(a.p_lo, a.p_hi, b.p_lo, b.p_hi) || !meet(a.start, a.end, b.start, b.end))
        return false;
    bool result = false;
    if (a.start >= 0 && b.start >= 0 && decided_by_pitch(a, b, result)) return result;
    std::int64_t low = b.start - a.start - (a.run - 1);
    std::int64_t high = b.start - a.start + (b.run - 1);
    int terms = 0;
    for (int x = 0, y = 0; x < a.rank || y < b.rank;) {  // ascending; equal weights are one term
        const bool from_a = y == b.rank || (x < a.rank && a.dims[x].stride <= b.dims[y].stride);
        const Region::Dim& dim = from_a ? a.dims[x++] : b.dims[y++];
        const std::int64_t most = from_a ? dim.count - 1 : 0;
        const std::int64_t least = from_a ? 0 : 1 - dim.count;
        if (terms > 0 && terms_[terms - 1].weight == dim.stride) {
            terms_[terms - 1].low += least;
            terms_[terms - 1].high += most;
        } else {
            terms_[terms++] = {dim.stride, least, most};
        }
    }
    int kept = 0;
    for (int k = 0; k < terms; ++k) {
        const Term term = terms_[k];
        if (kept == 0 && term.weight <= high - low + 1) {  // the interval closes the gaps
            low -= term.weight * term.high;
            high -= term.weight * term.low;
        } else {
            terms_[kept++] = term;
        }
    }
    for (int k = 0; k < kept; ++k) {
        const Term& term = terms_[k];
        least_[k + 1] = least_[k] + term.weight * term.low;
        most_[k + 1] = most_[k] + term.weight * term.high;
        divisor_[k + 1] = std::gcd(divisor_[k], term.weight);
    }
    return search(kept, low, high);
}

/// True when the first `terms` terms can sum up to something in [low, high].
bool Overlaps::search(int terms, std::int64_t low, std::int64_t high) {
    spend(1);
    low = std::max(low, least_[terms]);
    high = std::min(high, most_[terms]);
    if (low > high) return false;
    if (terms == 0) return true;
    if (ceil_div(low, divisor_[terms]) > floor_div(high, divisor_[terms])) return false;
    const Term& term = terms_[terms - 1];
    const std::int64_t from = std::max(term.low, ceil_div(low - most_[terms - 1], term.weight));
    const std::int64_t to = std::min(term.high, floor_div(high - least_[terms - 1], term.weight));
    if (terms == 1) return from <= to;
    for (std::int64_t x = from; x <= to; ++x)
        if (search(terms - 1, low - term.weight * x, high - term.weight * x)) return true;
    return false;
}

RegionIndex::Box RegionIndex::rows_and_columns(const Region& region, std::int64_t pitch) {
    std::int64_t width = region.run;
    for (int d = 0; d < region.rank; ++d)
        if (region.dims[d].stride % pitch != 0)
            width += region.dims[d].stride * (region.dims[d].count - 1);
    const std::int64_t row = floor_div(region.start, pitch);
    const std::int64_t column = region.start - row * pitch;
    const std::int64_t last = floor_div(region.end - 1, pitch);
    if (column + width <= pitch) return {row, last, column, column + width - 1};
    return {row, last, 0, pitch - 1};  // it goes on in the next row
}

RegionIndex::Box RegionIndex::box_of(const Region& region, const Grid& grid) {
    const Box box = rows_and_columns(region, grid.pitch);
    return {box.row_lo >> grid.row_bits, box.row_hi >> grid.row_bits,
            box.column_lo >> grid.column_bits, box.column_hi >> grid.column_bits};
}

RegionIndex::Grid& RegionIndex::grid_of(const Region& region) {
    const std::int64_t pitch = region.rank > 0 ? region.dims[region.rank - 1].stride : kOneRow;
    const Box box = rows_and_columns(region, pitch);
    const auto bits = [](std::int64_t low, std::int64_t high) {
        return static_cast<int>(std::bit_width(static_cast<std::uint64_t>(high - low)));
    };
    const int row_bits = bits(box.row_lo, box.row_hi);
    const int column_bits = bits(box.column_lo, box.column_hi);
    for (Grid& grid : grids_)
        if (grid.pitch == pitch && grid.row_bits == row_bits && grid.column_bits == column_bits)
            return grid;
    Grid& grid = grids_.emplace_back();
    grid.pitch = pitch;
    grid.row_bits = row_bits;
    grid.column_bits = column_bits;
    return grid;
}

void RegionIndex::add(const Region& region, std::int32_t number) {
    Grid& grid = grid_of(region);
    grid.numbers.push_back(number);
    const Box box = box_of(region, grid);
    for (std::int64_t r = box.row_lo; r <= box.row_hi; ++r) {
        for (std::int64_t c = box.column_lo; c <= box.column_hi; ++c) {
            const auto [head, added] = grid.cells.try_emplace(Cell{r, c}, -1);
            links_.push_back({number, head->second});
            head->second = static_cast<std::int32_t>(links_.size() - 1);
        }
    }
}

}  // namespace accelopt::nki::interp
