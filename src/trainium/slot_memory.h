#pragma once

#include <array>
#include <deque>
#include <map>
#include <span>
#include <unordered_map>
#include <vector>

#include "trainium/storage.h"
#include "trainium/stream.h"
#include "trainium/tile_memory.h"

namespace accelopt::trainium::execution {

/// The arrays of an execution in completion order. On-chip tiles live in slots that are handed out
/// and taken back when the timing model does so, and nothing protects what lies in a slot: memory
/// that is reused too early, or read before it was given, shows in the values. A view of an
/// on-chip tile names its life in `block` (an index into Schedule::allocations); HBM tensors of the
/// program keep their ids, and the compiler's copies in HBM have ids of their own.
class SlotMemory final : public Storage {
  public:
    SlotMemory(const nki::Program& program, const TileTable& tiles,
               std::span<const InputArray> inputs, std::size_t lives, std::int64_t limit_bytes);
    ~SlotMemory() override;
    SlotMemory(const SlotMemory&) = delete;
    SlotMemory& operator=(const SlotMemory&) = delete;

    /// Returns a layout of the compiler's own: an on-chip array [partitions, columns].
    nki::TensorId layout(std::int64_t partitions, std::int64_t columns, nki::DType dtype);

    /// Says how the array of a life is laid out; once, before anything else is done with it.
    void describe(std::int32_t life, nki::TensorId layout) { lives_[life].layout = layout; }
    /// Gives a life a slot of its size: the one given back last, whatever it holds.
    void allocate(std::int32_t life);
    void release(std::int32_t life);

    /// Poisons the elements of a life that lie in a box of its partitions and bytes.
    void lose(std::int32_t life, const trainium::Operand& box);

    /// Copies all of a life to the compiler's HBM array `copy`, made at the first spill, and back.
    /// A reload before any spill brings poison.
    void spill(std::int32_t life, std::int32_t copy, int line);
    void reload(std::int32_t copy, std::int32_t life, int line);
    /// Gives the memory of an HBM copy back.
    void drop(std::int32_t copy);

    const nki::Tensor& tensor(nki::TensorId tensor) const override;
    std::byte* read(nki::TensorId tensor, std::int64_t block, int line) override;
    std::byte* write(nki::TensorId tensor, std::int64_t block, bool whole, int line) override;
    void fill_gaps(nki::TensorId output, const WrittenMap& map) override {
        hbm_.fill_gaps(output, map);
    }
    OutputBytes& output(nki::TensorId tensor) override { return hbm_.output(tensor); }
    BlockPool& pool() override { return hbm_.pool(); }

  private:
    struct Slot {
        std::byte* data = nullptr;
        std::int64_t bytes = 0;
    };
    struct Life {
        std::int32_t slot = -1;
        nki::TensorId layout = -1;
        bool touched = false;
    };

    std::int32_t take_slot(std::int64_t bytes, int line);
    std::byte* touch(nki::TensorId tensor, std::int64_t life, bool whole, int line);

    const nki::Program& program_;
    TileMemory hbm_;
    std::deque<nki::Tensor> layouts_;
    std::map<std::array<std::int64_t, 3>, nki::TensorId> layout_of_;
    std::vector<Life> lives_;
    std::vector<Slot> slots_;
    std::map<std::int64_t, std::vector<std::int32_t>> free_;  ///< slots by size, last given back
    std::unordered_map<std::int32_t, Slot> copies_;
};

}  // namespace accelopt::trainium::execution
