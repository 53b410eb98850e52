#include "nki/accesses.h"

#include <algorithm>

namespace accelopt::nki::interp {
namespace {

/// False for most regions that share nothing: what is worth a comparison.
bool hulls_meet(const Region& a, const Region& b) { return a.start < b.end && b.start < a.end; }

}  // namespace

AccessTracker::Record* AccessTracker::Records::same(const Record& like) {
    const auto equal = [&](const Record& record) {
        return record.hash == like.hash && record.combines == like.combines &&
               record.region == like.region;
    };
    if (!index_) {
        const auto found = std::find_if(records_.begin(), records_.end(), equal);
        return found == records_.end() ? nullptr : &*found;
    }
    const auto [begin, end] = index_->by_hash.equal_range(like.hash);
    for (auto it = begin; it != end; ++it) {
        Record& record = records_[static_cast<std::size_t>(it->second)];
        if (equal(record)) return &record;
    }
    return nullptr;
}

void AccessTracker::Records::add(Record record) {
    records_.push_back(std::move(record));
    if (index_) return enter(records_.size() - 1);
    if (records_.size() <= kFew) return;
    index_ = std::make_unique<Index>();
    for (std::size_t k = 0; k < records_.size(); ++k) enter(k);
}

void AccessTracker::Records::enter(std::size_t k) {
    const auto number = static_cast<std::int32_t>(k);
    index_->by_hash.emplace(records_[k].hash, number);
    index_->regions.add(records_[k].region, number);
}

int AccessTracker::affine_between(int earlier, int context) const {
    if (earlier == context) return -1;
    const int loop = loops_.separating_loop(earlier, context);
    return loop >= 0 && loops_.kind_of(loop) == LoopKind::kAffine ? loop : -1;
}

AccessTracker::Conflict AccessTracker::conflict(const Record& record, int context) const {
    int loop = affine_between(record.context, context);
    for (std::size_t k = 0; k < record.earlier.size() && loop < 0; ++k)
        loop = affine_between(record.earlier[k], context);
    return {loop, loop < 0 ? 0 : record.line, false};
}

/// Adds an access that conflicts with none. An older one of the same kind is kept beside it when a
/// later access may conflict with the older one alone: a loop around both is affine, and is still
/// in the iteration of the newer one.
void AccessTracker::enter(Records& records, Record fresh) {
    Record* known = records.same(fresh);
    if (known == nullptr) {
        ++records_;
        return records.add(std::move(fresh));
    }
    known->line = fresh.line;
    if (known->context == fresh.context) return;
    loops_kept_.clear();
    std::size_t kept = 0;
    const auto keep = [&](int context) {
        const int loop = affine_between(context, fresh.context);
        if (loop < 0 ||
            std::find(loops_kept_.begin(), loops_kept_.end(), loop) != loops_kept_.end())
            return false;
        loops_kept_.push_back(loop);
        return true;
    };
    for (const int context : known->earlier)
        if (keep(context)) known->earlier[kept++] = context;
    known->earlier.resize(kept);
    if (keep(known->context)) known->earlier.push_back(known->context);
    known->context = fresh.context;
}

AccessTracker::Conflict AccessTracker::on_write(const View& view, const Tensor& tensor, int context,
                                                AluOp combines, int line) {
    Tile& tile = tile_of(view, tensor);
    Record fresh{region_of(view, tensor), 0, context, line, combines, {}};
    fresh.hash = fresh.region.hash();
    Conflict found;
    const auto conflicts = [&](const Record& record) {
        // What is no conflict, wherever it is, is not compared.
        if (!hulls_meet(record.region, fresh.region)) return false;
        if (record.context == context && record.earlier.empty()) return false;
        if (!overlaps_(record.region, fresh.region)) return false;
        found = conflict(record, context);
        return found.loop >= 0;
    };
    if (tile.reads.any_near(fresh.region, overlaps_, conflicts)) {
        found.after_read = true;
        return found;
    }
    if (tile.writes.any_near(fresh.region, overlaps_, [&](const Record& record) {
            return (combines == AluOp::kNone || record.combines != combines) && conflicts(record);
        }))
        return found;
    enter(tile.writes, std::move(fresh));
    return {};
}

AccessTracker::Conflict AccessTracker::on_read(const View& view, const Tensor& tensor, int context,
                                               int line) {
    // Nothing is ever written to these.
    if (tensor.role == TensorRole::kInput || tensor.role == TensorRole::kConstant) return {};
    Tile& tile = tile_of(view, tensor);
    Record fresh{region_of(view, tensor), 0, context, line, AluOp::kNone, {}};
    Conflict found;
    if (tile.writes.any_near(fresh.region, overlaps_, [&](const Record& record) {
            if (!hulls_meet(record.region, fresh.region)) return false;
            if (record.context == context && record.earlier.empty()) return false;
            if (!overlaps_(record.region, fresh.region)) return false;
            found = conflict(record, context);
            return found.loop >= 0;
        }))
        return found;
    fresh.hash = fresh.region.hash();
    enter(tile.reads, std::move(fresh));
    return {};
}

}  // namespace accelopt::nki::interp
