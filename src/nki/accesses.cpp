#include "nki/accesses.h"

#include <algorithm>
#include <cstdlib>

namespace accelopt::nki::interp {
namespace {

std::uint64_t mix(std::uint64_t hash, std::int64_t value) {
    hash ^= static_cast<std::uint64_t>(value) + 0x9e3779b97f4a7c15ULL + (hash << 6) + (hash >> 2);
    hash *= 0xbf58476d1ce4e5b9ULL;
    return hash ^ (hash >> 29);
}

bool intervals_meet(std::int64_t a, std::int64_t na, std::int64_t b, std::int64_t nb) {
    return a < b + nb && b < a + na;
}

/// Rewrites a one-row region on the pitch of another; false when it does not fit a row.
bool set_pitch(Region& region, std::int64_t pitch) {
    if (region.rows == 1) {
        region.pitch = pitch;
        return region.start % pitch + region.run <= pitch;
    }
    return region.pitch == pitch;
}

}  // namespace

Region region_of(const View& view, const Tensor& tensor) {
    Region region;
    region.hash = mix(0, view.offset);
    for (int d = 0; d < view.rank; ++d) {
        if (view.dims[d].count == 1) continue;
        region.hash = mix(mix(region.hash, view.dims[d].stride), view.dims[d].count);
    }
    const bool on_chip = tensor.buffer != Buffer::kHbm;
    region.start = view.offset;
    int first = 0;
    if (on_chip) {
        region.p_lo = view.offset / tensor.free_elements;
        region.p_hi = region.p_lo + view.dims[0].count;
        region.start = view.offset % tensor.free_elements;
        first = 1;
    }
    region.hull_lo = region.start;
    region.hull_hi = region.start + 1;
    for (int d = first; d < view.rank; ++d) {
        region.dims[d - first] = view.dims[d];
        const std::int64_t reach = (view.dims[d].count - 1) * view.dims[d].stride;
        (reach < 0 ? region.hull_lo : region.hull_hi) += reach;
    }
    int d = view.rank - 1;
    for (; d >= first; --d) {  // the innermost run
        if (view.dims[d].count == 1) continue;
        if (view.dims[d].stride != region.run) break;
        region.run *= view.dims[d].count;
    }
    for (; d >= first; --d) {
        if (view.dims[d].count == 1) continue;
        if (region.rows == 1 && view.dims[d].stride > 0) {
            region.pitch = view.dims[d].stride;
            region.rows = view.dims[d].count;
        } else if (view.dims[d].stride == region.pitch * region.rows && region.rows > 1) {
            region.rows *= view.dims[d].count;
        } else {
            region.exact = false;
        }
    }
    if (region.rows > 1 && region.start % region.pitch + region.run > region.pitch)
        region.exact = false;
    return region;
}

namespace {

/// A view of more runs than this is compared by its hull alone, and then never found to overlap.
constexpr std::int64_t kMaxRuns = 4096;

/// First elements of the runs of a region, ascending, and the length of a run; empty: too many.
std::vector<std::int64_t> runs_of(const Region& region, std::int64_t& length) {
    std::vector<Dim> dims;
    std::int64_t first = region.start;
    for (Dim dim : region.dims) {
        if (dim.count <= 1 || dim.stride == 0) continue;
        if (dim.stride < 0) {
            first += (dim.count - 1) * dim.stride;
            dim.stride = -dim.stride;
        }
        dims.push_back(dim);
    }
    std::sort(dims.begin(), dims.end(),
              [](const Dim& a, const Dim& b) { return a.stride < b.stride; });
    length = 1;
    std::size_t d = 0;
    for (; d < dims.size() && dims[d].stride <= length; ++d)
        length += (dims[d].count - 1) * dims[d].stride;
    std::vector<std::int64_t> starts{first};
    for (; d < dims.size(); ++d) {
        const std::size_t before = starts.size();
        if (dims[d].count > kMaxRuns / static_cast<std::int64_t>(before)) return {};
        for (std::int64_t k = 1; k < dims[d].count; ++k)
            for (std::size_t n = 0; n < before; ++n)
                starts.push_back(starts[n] + k * dims[d].stride);
    }
    std::sort(starts.begin(), starts.end());
    return starts;
}

bool runs_meet(const Region& a, const Region& b) {
    std::int64_t length_a = 1;
    std::int64_t length_b = 1;
    const std::vector<std::int64_t> of_a = runs_of(a, length_a);
    const std::vector<std::int64_t> of_b = runs_of(b, length_b);
    for (std::size_t i = 0, k = 0; i < of_a.size() && k < of_b.size();) {
        if (intervals_meet(of_a[i], length_a, of_b[k], length_b)) return true;
        of_a[i] < of_b[k] ? ++i : ++k;
    }
    return false;
}

}  // namespace

bool overlap(const Region& a, const Region& b) {
    if (a.hash == b.hash) return true;
    if (!intervals_meet(a.p_lo, a.p_hi - a.p_lo, b.p_lo, b.p_hi - b.p_lo)) return false;
    if (a.hull_hi <= b.hull_lo || b.hull_hi <= a.hull_lo) return false;
    if (!a.exact || !b.exact) return runs_meet(a, b);
    if (a.rows == 1 && b.rows == 1) return intervals_meet(a.start, a.run, b.start, b.run);
    Region x = a;
    Region y = b;
    const std::int64_t pitch = x.rows > 1 ? x.pitch : y.pitch;
    if (!set_pitch(x, pitch) || !set_pitch(y, pitch)) return runs_meet(a, b);
    return intervals_meet(x.start / pitch, x.rows, y.start / pitch, y.rows) &&
           intervals_meet(x.start % pitch, x.run, y.start % pitch, y.run);
}

AccessTracker::Record* AccessTracker::Records::same(const Region& region) {
    if (grid_) {
        const auto found = grid_->by_hash.find(region.hash);
        return found == grid_->by_hash.end() ? nullptr : &records_[found->second];
    }
    for (Record& record : records_)
        if (record.region.hash == region.hash) return &record;
    return nullptr;
}

void AccessTracker::Records::add(const Record& record, const Tensor& tensor) {
    if (records_.size() >= kMost) return;
    records_.push_back(record);
    const auto count = static_cast<std::int32_t>(records_.size());
    if (grid_) return enter(count - 1);
    if (records_.size() <= kFew) return;
    grid_ = std::make_unique<Grid>();
    const bool hbm = tensor.buffer == Buffer::kHbm && !tensor.shape.empty();
    grid_->row = std::max<std::int64_t>(1, hbm ? tensor.shape.back() : tensor.free_elements);
    for (std::int32_t k = 0; k < count; ++k) enter(k);
}

void AccessTracker::Records::enter(std::int32_t k) {
    const Region& region = records_[k].region;
    grid_->by_hash.emplace(region.hash, k);
    const std::vector<std::uint64_t> cells = cells_of(region);
    if (cells.empty()) grid_->wide.push_back(k);
    for (const std::uint64_t cell : cells) grid_->cells[cell].push_back(k);
}

/// The cells of 128 rows and 128 columns that a region may touch; empty: very many.
std::vector<std::uint64_t> AccessTracker::Records::cells_of(const Region& region) const {
    constexpr std::int64_t kCell = 128;
    constexpr std::int64_t kMany = 512;
    const std::int64_t row = grid_->row;
    const std::int64_t row_lo = region.hull_lo / row / kCell;
    const std::int64_t row_hi = (region.hull_hi - 1) / row / kCell;
    std::int64_t column_lo = 0;
    std::int64_t column_hi = (row - 1) / kCell;
    std::int64_t extent = 0;  // what stays within its row, whichever that is, keeps its columns
    for (const Dim& dim : region.dims) {
        if (dim.count > 1 && dim.stride % row != 0)
            extent += (dim.count - 1) * std::abs(std::int64_t{dim.stride});
    }
    const std::int64_t column = region.hull_lo % row;
    if (column + extent < row) {
        column_lo = column / kCell;
        column_hi = (column + extent) / kCell;
    }
    std::vector<std::uint64_t> cells;
    if (row_hi - row_lo >= kMany || column_hi - column_lo >= kMany ||
        (row_hi - row_lo + 1) * (column_hi - column_lo + 1) > kMany)
        return cells;
    for (std::int64_t r = row_lo; r <= row_hi; ++r)
        for (std::int64_t c = column_lo; c <= column_hi; ++c)
            cells.push_back(static_cast<std::uint64_t>(r) << 32 | static_cast<std::uint64_t>(c));
    return cells;
}

AccessTracker::Conflict AccessTracker::conflict(const Record& record, int context) const {
    Conflict found;
    if (record.context == context) return found;
    const int loop = loops_.separating_loop(record.context, context);
    if (loop < 0 || loops_.kind_of(loop) != LoopKind::kAffine) return found;
    found.loop = loop;
    found.line = record.line;
    return found;
}

/// The newest and the oldest access that a record stands for.
AccessTracker::Conflict AccessTracker::conflict_with_any(const Record& record, int context) const {
    const Conflict found = conflict(record, context);
    if (found.loop >= 0 || record.first_context == record.context) return found;
    Record first = record;
    first.context = record.first_context;
    return conflict(first, context);
}

AccessTracker::Conflict AccessTracker::on_write(const View& view, const Tensor& tensor, int context,
                                                AluOp combines, int line) {
    Tile& tile = tile_of(view, tensor);
    Record fresh{region_of(view, tensor), context, line, combines, context};
    const auto combined = [&](const Record& record) {
        return combines != AluOp::kNone && record.combines == combines;
    };
    Conflict found;
    tile.reads.any_overlapping(fresh.region, [&](const Record& read) {
        found = conflict_with_any(read, context);
        found.after_read = true;
        return found.loop >= 0;
    });
    if (found.loop >= 0) return found;
    tile.writes.any_overlapping(fresh.region, [&](const Record& record) {
        found = combined(record) ? Conflict{} : conflict_with_any(record, context);
        return found.loop >= 0;
    });
    if (found.loop >= 0) return found;
    if (Record* same = tile.writes.same(fresh.region)) {
        if (combined(*same)) fresh.first_context = same->first_context;
        *same = fresh;
    } else {
        tile.writes.add(fresh, tensor);
    }
    return {};
}

AccessTracker::Conflict AccessTracker::on_read(const View& view, const Tensor& tensor, int context,
                                               int line) {
    // Nothing is ever written to these.
    if (tensor.role == TensorRole::kInput || tensor.role == TensorRole::kConstant) return {};
    Tile& tile = tile_of(view, tensor);
    const Region region = region_of(view, tensor);
    Conflict found;
    // What this iteration reads may be the sum of what earlier ones added.
    tile.writes.any_overlapping(region, [&](const Record& record) {
        found = conflict_with_any(record, context);
        return found.loop >= 0;
    });
    if (found.loop >= 0) return found;
    if (Record* read = tile.reads.same(region)) {
        read->context = context;
        read->line = line;
    } else {
        tile.reads.add({region, context, line, AluOp::kNone, context}, tensor);
    }
    return {};
}

}  // namespace accelopt::nki::interp
