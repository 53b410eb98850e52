#include "nki/accesses.h"

#include <algorithm>

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

bool overlap(const Region& a, const Region& b) {
    if (a.hash == b.hash) return true;
    if (!a.exact || !b.exact) return false;
    if (!intervals_meet(a.p_lo, a.p_hi - a.p_lo, b.p_lo, b.p_hi - b.p_lo)) return false;
    if (a.rows == 1 && b.rows == 1) return intervals_meet(a.start, a.run, b.start, b.run);
    Region x = a;
    Region y = b;
    const std::int64_t pitch = x.rows > 1 ? x.pitch : y.pitch;
    if (!set_pitch(x, pitch) || !set_pitch(y, pitch)) return false;
    return intervals_meet(x.start / pitch, x.rows, y.start / pitch, y.rows) &&
           intervals_meet(x.start % pitch, x.run, y.start % pitch, y.run);
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
                                                bool associative, int line) {
    Tile& tile = tile_of(view, tensor);
    Record fresh{region_of(view, tensor), context, line, associative, context};
    const auto replace = [&](Record& record) {
        if (record.associative && associative) fresh.first_context = record.first_context;
        record = fresh;
    };
    const auto collides = [&](const Record& record) {
        if (record.associative && associative) return Conflict{};
        return conflict(record, context);
    };
    for (const Record& read : tile.reads) {
        if (!overlap(read.region, fresh.region)) continue;
        Conflict found = conflict_with_any(read, context);
        found.after_read = true;
        if (found.loop >= 0) return found;
    }
    if (!tile.many) {
        Record* same = nullptr;
        for (Record& record : tile.few) {
            if (!overlap(record.region, fresh.region)) continue;
            const Conflict found = collides(record);
            if (found.loop >= 0) return found;
            if (record.region.hash == fresh.region.hash) same = &record;
        }
        if (same != nullptr) {
            replace(*same);
        } else if (tile.few.size() < kFew) {
            tile.few.push_back(fresh);
        } else {
            tile.many = std::make_unique<std::unordered_map<std::uint64_t, Record>>();
            for (Record& record : tile.few) tile.many->emplace(record.region.hash, record);
            tile.many->emplace(fresh.region.hash, fresh);
            tile.few.clear();
        }
        return {};
    }
    const auto [it, added] = tile.many->try_emplace(fresh.region.hash, fresh);
    if (added) return {};
    const Conflict found = collides(it->second);
    replace(it->second);
    return found;
}

AccessTracker::Conflict AccessTracker::on_read(const View& view, const Tensor& tensor, int context,
                                               int line) {
    Tile& tile = tile_of(view, tensor);
    const Region region = region_of(view, tensor);
    // What this iteration reads may be the sum of what earlier ones added.
    for (const Record& record : tile.few) {
        if (!overlap(record.region, region)) continue;
        const Conflict found = conflict_with_any(record, context);
        if (found.loop >= 0) return found;
    }
    if (tile.many) {
        const auto it = tile.many->find(region.hash);
        const Conflict found =
            it == tile.many->end() ? Conflict{} : conflict_with_any(it->second, context);
        if (found.loop >= 0) return found;
    }
    for (Record& read : tile.reads) {
        if (read.region.hash != region.hash) continue;
        read.context = context;
        read.line = line;
        return {};
    }
    if (tile.reads.size() < kFew) tile.reads.push_back({region, context, line, false, context});
    return {};
}

}  // namespace accelopt::nki::interp
