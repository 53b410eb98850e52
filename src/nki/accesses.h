#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "nki/loops.h"
#include "nki/program.h"

namespace accelopt::nki::interp {

/// What a view touches. In a form that overlaps are proved on quickly: partitions [p_lo, p_hi) and,
/// from element `start`, `rows` runs of `run` elements, `pitch` apart. A view of any other form
/// (`exact` is false) is compared run by run.
struct Region {
    std::uint64_t hash = 0;  ///< of the whole view
    bool exact = true;
    std::int64_t p_lo = 0;
    std::int64_t p_hi = 1;
    std::int64_t start = 0;
    std::int64_t pitch = 0;
    std::int64_t rows = 1;
    std::int64_t run = 1;
    std::int64_t hull_lo = 0;  ///< elements [hull_lo, hull_hi) hold all runs
    std::int64_t hull_hi = 1;
    std::array<Dim, kMaxDims> dims{};  ///< without the partitions of an on-chip view
};

Region region_of(const View& view, const Tensor& tensor);
/// True when the regions provably share an element.
bool overlap(const Region& a, const Region& b);

/// Finds dependencies between iterations of an affine_range, which the device runs in any order:
/// memory that one iteration writes and another one writes or reads. Associative updates (matmul
/// accumulation, +=, loop_reduce) of one destination are no dependency between each other.
class AccessTracker {
  public:
    explicit AccessTracker(const LoopTracker& loops) : loops_(loops) {}

    struct Conflict {
        int loop = -1;            ///< index into Program::loops; -1 = none
        int line = 0;             ///< of the earlier access
        bool after_read = false;  ///< the earlier access was a read
    };
    Conflict on_write(const View& view, const Tensor& tensor, int context, AluOp combines,
                      int line);
    Conflict on_read(const View& view, const Tensor& tensor, int context, int line);

  private:
    struct Record {
        Region region;
        int context = 0;
        int line = 0;
        AluOp combines = AluOp::kNone;  ///< OpRequest::combines of a write
        int first_context = 0;          ///< of the oldest combining write, or read, of the region
    };
    /// Records of one tile. Beyond a few they are found by the cells of a grid that they touch.
    class Records {
      public:
        /// Calls f(record) for the records that share an element, until it returns true.
        template <typename F>
        bool any_overlapping(const Region& region, F&& f) {
            if (!grid_) return any_of(records_, region, f);
            const auto any_in = [&](const std::vector<std::int32_t>& some) {
                return std::any_of(some.begin(), some.end(), [&](std::int32_t k) {
                    return overlap(records_[k].region, region) && f(records_[k]);
                });
            };
            const std::vector<std::uint64_t> cells = cells_of(region);
            if (cells.empty()) return any_of(records_, region, f);
            if (any_in(grid_->wide)) return true;
            for (const std::uint64_t cell : cells) {
                const auto found = grid_->cells.find(cell);
                if (found != grid_->cells.end() && any_in(found->second)) return true;
            }
            return false;
        }
        /// The record of the same view; nullptr: none.
        Record* same(const Region& region);
        void add(const Record& record, const Tensor& tensor);

      private:
        struct Grid {
            std::int64_t row = 1;  ///< elements of a row of the tensor
            std::unordered_map<std::uint64_t, std::int32_t> by_hash;
            std::unordered_map<std::uint64_t, std::vector<std::int32_t>> cells;
            std::vector<std::int32_t> wide;  ///< in very many cells
        };

        template <typename F>
        static bool any_of(std::vector<Record>& records, const Region& region, F&& f) {
            for (Record& record : records) {
                if (overlap(record.region, region) && f(record)) return true;
            }
            return false;
        }
        std::vector<std::uint64_t> cells_of(const Region& region) const;
        void enter(std::int32_t k);

        std::vector<Record> records_;
        std::unique_ptr<Grid> grid_;
    };
    struct Tile {
        Records writes;
        Records reads;
    };
    static constexpr std::size_t kFew = 24;
    static constexpr std::size_t kMost = 1U << 16;

    static std::uint64_t key(const View& view) {
        return static_cast<std::uint64_t>(view.tensor) << 36 ^
               static_cast<std::uint64_t>(view.block);
    }
    Conflict conflict(const Record& record, int context) const;
    Conflict conflict_with_any(const Record& record, int context) const;

    const LoopTracker& loops_;
    Tile& tile_of(const View& view, const Tensor& tensor) {
        if (tensor.blocks > 1) return blocks_[key(view)];
        const auto id = static_cast<std::size_t>(view.tensor);
        if (id >= tiles_.size()) tiles_.resize(id + 1);
        return tiles_[id];
    }

    std::vector<Tile> tiles_;  ///< of unblocked tensors, by TensorId
    std::unordered_map<std::uint64_t, Tile> blocks_;
};

}  // namespace accelopt::nki::interp
