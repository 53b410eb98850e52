#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <unordered_map>
#include <vector>

#include "nki/program.h"
#include "trainium/execute.h"
#include "trainium/number_format.h"
#include "trainium/storage.h"
#include "trainium/written_map.h"

namespace accelopt::trainium::execution {

/// Thrown where the memory limit of an execution would be passed; caught by execute().
struct MemoryExhausted {
    std::int64_t bytes_wanted = 0;
    int line = 0;
};

/// Hands out aligned blocks and takes them back for reuse, so that short-lived tiles stay in cache.
/// What is handed out plus what is kept for reuse never exceeds the limit.
class BlockPool {
  public:
    explicit BlockPool(std::int64_t limit_bytes) : limit_(limit_bytes) {}
    ~BlockPool();
    BlockPool(const BlockPool&) = delete;
    BlockPool& operator=(const BlockPool&) = delete;

    /// Returns `bytes` bytes with undefined contents, aligned to 64; nullptr beyond the limit.
    std::byte* take(std::int64_t bytes);
    /// Returns a block of `bytes` bytes to the pool.
    void give(std::byte* block, std::int64_t bytes);
    /// Counts `bytes` allocated elsewhere against the limit; false beyond it.
    bool reserve(std::int64_t bytes);

  private:
    void trim();

    std::int64_t limit_;
    std::int64_t held_ = 0;  ///< handed out and kept
    std::map<std::int64_t, std::vector<std::byte*>> free_;
};

/// A block of the pool for the length of a scope.
class ScratchBlock {
  public:
    ScratchBlock(BlockPool& pool, std::int64_t bytes, int line) : pool_(pool), bytes_(bytes) {
        data_ = pool_.take(bytes);
        if (data_ == nullptr) throw MemoryExhausted{bytes, line};
    }
    ~ScratchBlock() { pool_.give(data_, bytes_); }
    ScratchBlock(const ScratchBlock&) = delete;
    ScratchBlock& operator=(const ScratchBlock&) = delete;

    std::byte* data() const { return data_; }

  private:
    BlockPool& pool_;
    std::int64_t bytes_;
    std::byte* data_ = nullptr;
};

/// Numbers the tiles of a program (every block of a tensor that some operation touches, so that
/// tensors of absurdly many blocks cost nothing) and knows when each is used last.
class TileTable {
  public:
    /// For a run in `order` (indices of operations; empty: program order).
    explicit TileTable(const nki::Program& program, std::span<const std::int32_t> order = {});

    /// Throws Error(kInternal) for a view of no tensor or of a block that no operation touches.
    std::size_t tile_of(nki::TensorId tensor, std::int64_t block) const;
    std::size_t size() const { return last_use_.size(); }
    nki::TensorId tensor_of(std::size_t tile) const { return tensor_[tile]; }
    /// Tiles whose last use is the operation at `position` of the run.
    std::span<const std::size_t> ending_at(std::int64_t position) const;

  private:
    struct BlockKey {
        nki::TensorId tensor;
        std::int64_t block;
        bool operator==(const BlockKey&) const = default;
    };
    struct BlockHash {
        std::size_t operator()(const BlockKey& key) const;
    };

    std::size_t number(nki::TensorId tensor, std::int64_t block);

    const nki::Program& program_;
    std::unordered_map<BlockKey, std::size_t, BlockHash> blocks_;  ///< all but block 0
    std::vector<nki::TensorId> tensor_;  ///< tensor of a tile; block 0 of each comes first
    std::vector<std::int64_t> last_use_;
    std::vector<std::size_t> ending_;        ///< tiles ordered by last use
    std::vector<std::size_t> ending_begin_;  ///< where those of an operation start
};

/// The arrays of one execution: inputs in place, HBM tensors in their own dtype, tiles allocated
/// when first touched and released after their last use.
class TileMemory final : public Storage {
  public:
    TileMemory(const nki::Program& program, const TileTable& tiles,
               std::span<const InputArray> inputs, std::int64_t limit_bytes);
    ~TileMemory() override;
    TileMemory(const TileMemory&) = delete;
    TileMemory& operator=(const TileMemory&) = delete;

    const nki::Tensor& tensor(nki::TensorId tensor) const override {
        return program_.tensors[tensor];
    }
    /// Outputs are poisoned by fill_gaps() instead, since most are written as a whole.
    std::byte* read(nki::TensorId tensor, std::int64_t block, int line) override;
    std::byte* write(nki::TensorId tensor, std::int64_t block, bool whole, int line) override;
    void fill_gaps(nki::TensorId output, const WrittenMap& map) override;
    OutputBytes& output(nki::TensorId tensor) override;
    BlockPool& pool() override { return pool_; }

    /// Releases the on-chip tiles whose last use was the operation at `position` of the run.
    void release(std::int64_t position);

  private:
    std::byte* allocate(std::size_t tile, bool poison, int line);
    const void* input_of(const nki::Tensor& tensor) const;
    std::byte* fixed(const nki::Tensor& tensor, std::size_t tile);

    const nki::Program& program_;
    const TileTable& tiles_;
    std::span<const InputArray> inputs_;
    BlockPool pool_;
    std::vector<std::byte*> data_;
    std::map<nki::TensorId, OutputBytes> own_;  ///< constants and outputs
};

/// Format of the arrays of a tensor: its own dtype in HBM, the wider one of tiles on chip.
NumberFormat format_of(const nki::Tensor& tensor);
/// Bytes of one array of a tensor; INT64_MAX where they cannot be counted.
std::int64_t array_bytes(const nki::Tensor& tensor);

/// Fills n elements of an array with the poison of its dtype.
void fill_with_poison(const NumberFormat& format, std::byte* data, std::int64_t n);

}  // namespace accelopt::trainium::execution
