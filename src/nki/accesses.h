#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "nki/loops.h"
#include "nki/program.h"

namespace accelopt::nki::interp {

/// What a view touches, in a form that overlaps are proved on: partitions [p_lo, p_hi) and, from
/// element `start`, `rows` runs of `run` elements, `pitch` apart. A view of any other form only
/// equals itself (`exact` is false).
struct Region {
    std::uint64_t hash = 0;  ///< of the whole view
    bool exact = true;
    std::int64_t p_lo = 0;
    std::int64_t p_hi = 1;
    std::int64_t start = 0;
    std::int64_t pitch = 0;
    std::int64_t rows = 1;
    std::int64_t run = 1;
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
    Conflict on_write(const View& view, const Tensor& tensor, int context, bool associative,
                      int line);
    Conflict on_read(const View& view, const Tensor& tensor, int context, int line);

  private:
    struct Record {
        Region region;
        int context = 0;
        int line = 0;
        bool associative = false;
        int first_context = 0;  ///< of the oldest associative write, or read, of the region
    };
    /// The writes to one tile: a few regions are compared with each other, many by identity only.
    struct Tile {
        std::vector<Record> few;
        std::vector<Record> reads;
        std::unique_ptr<std::unordered_map<std::uint64_t, Record>> many;
    };
    static constexpr std::size_t kFew = 24;

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
