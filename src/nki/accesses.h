#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "nki/loops.h"
#include "nki/program.h"
#include "nki/regions.h"

namespace accelopt::nki::interp {

/// Finds dependencies between iterations of an affine_range, which the device runs in any order:
/// memory that one iteration writes and another one writes or reads. Updates (matmul accumulation,
/// +=, loop_reduce) that combine into one destination by one operation are no dependency between
/// each other.
class AccessTracker {
  public:
    /// `budget`: steps of comparing accesses; beyond it, resource_limit/steps.
    AccessTracker(const LoopTracker& loops, std::int64_t budget)
        : loops_(loops), overlaps_(budget) {}

    struct Conflict {
        int loop = -1;            ///< index into Program::loops; -1 = none
        int line = 0;             ///< of the earlier access
        bool after_read = false;  ///< the earlier access was a read
    };
    /// `combines`: OpRequest::combines.
    Conflict on_write(const View& view, const Tensor& tensor, int context, AluOp combines,
                      int line);
    Conflict on_read(const View& view, const Tensor& tensor, int context, int line);

    /// What is remembered, about.
    std::int64_t bytes() const { return records_ * static_cast<std::int64_t>(sizeof(Record)); }

  private:
    /// The accesses of one kind (reads, writes that combine by one operation, other writes) to one
    /// region.
    struct Record {
        Region region;
        std::uint64_t hash = 0;  ///< of the region
        int context = 0;         ///< of the newest
        int line = 0;
        AluOp combines = AluOp::kNone;
        /// Older ones that say all that the others would: one from an earlier iteration of every
        /// running affine loop around the newest. Empty for plain writes, which conflict with each
        /// other.
        std::vector<int> earlier;
    };
    /// Records of one tile; beyond a few they are indexed.
    class Records {
      public:
        /// Calls f(record) for records that may share an element with a region, until it returns
        /// true.
        template <typename F>
        bool any_near(const Region& region, Overlaps& overlaps, F&& f) const {
            if (!index_) {
                for (const Record& record : records_)
                    if (f(record)) return true;
                return false;
            }
            return index_->regions.any_near(
                region, [&](std::int64_t work) { overlaps.spend(work); },
                [&](std::int32_t k) { return f(records_[static_cast<std::size_t>(k)]); });
        }
        /// The record of the same region and kind; nullptr: none.
        Record* same(const Record& like);
        void add(Record record);

      private:
        struct Index {
            RegionIndex regions;
            std::unordered_multimap<std::uint64_t, std::int32_t> by_hash;
        };
        static constexpr std::size_t kFew = 16;
        void enter(std::size_t k);

        std::vector<Record> records_;
        std::unique_ptr<Index> index_;
    };
    struct Tile {
        Records writes;
        Records reads;
    };

    static std::uint64_t key(const View& view) {
        return static_cast<std::uint64_t>(view.tensor) << 36 ^
               static_cast<std::uint64_t>(view.block);
    }
    Tile& tile_of(const View& view, const Tensor& tensor) {
        if (tensor.blocks > 1) return blocks_[key(view)];
        const auto id = static_cast<std::size_t>(view.tensor);
        if (id >= tiles_.size()) tiles_.resize(id + 1);
        return tiles_[id];
    }
    /// The affine loop whose iterations `earlier` and `context` lie in; -1: they do not conflict.
    int affine_between(int earlier, int context) const;
    /// The conflict of an access in `context` with those that a record stands for.
    Conflict conflict(const Record& record, int context) const;
    void enter(Records& records, Record fresh);

    const LoopTracker& loops_;
    Overlaps overlaps_;
    std::vector<Tile> tiles_;  ///< of unblocked tensors, by TensorId
    std::unordered_map<std::uint64_t, Tile> blocks_;
    std::int64_t records_ = 0;
    std::vector<int> loops_kept_;  ///< of enter()
};

}  // namespace accelopt::nki::interp
