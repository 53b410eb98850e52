#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "trainium/completion_order.h"
#include "trainium/executor.h"
#include "trainium/slot_memory.h"

namespace accelopt::trainium::execution {

/// One execution of a compiled kernel, step by step.
class OrderedRun {
  public:
    OrderedRun(const nki::Program& program, const CompiledKernel& kernel, const TileTable& tiles,
               std::span<const InputArray> inputs, const ExecutionLimits& limits);

    /// Does one step of the order; `fingerprint` is taken of the operation that an instruction
    /// performs on its own (not of spills, reloads, slices and parts of broadcasts).
    void step(const OrderStep& step, Fingerprint* fingerprint = nullptr);
    std::vector<OutputArray> take_outputs() { return executor_.take_outputs(); }

    /// True for an instruction that performs exactly one operation of the program.
    bool performs_operation(const Instruction& instruction) const;

  private:
    void perform(std::int32_t node, Fingerprint* fingerprint);
    void allocate(std::int32_t life);
    void release(std::int32_t life);
    void overwrite_sharers(std::int32_t node);
    void reload(std::int32_t node);
    void load_slice(std::int32_t node);
    void broadcast_part(std::int32_t node);
    void count_use(std::int32_t tile);

    std::int32_t life_of(std::int32_t node, std::int32_t tile) const;
    nki::TensorId layout_of(const Tile& tile);
    /// Turns a view of the program's tile into one of the tile that the instruction names.
    void rename(nki::View& view, std::int32_t tile, std::int32_t node);
    /// The operation of an instruction with all its views renamed.
    nki::Operation renamed(const Instruction& instruction, std::int32_t node);

    const nki::Program& program_;
    const CompiledKernel& kernel_;
    SlotMemory memory_;
    Executor executor_;
    std::unordered_map<std::int32_t, std::vector<std::int32_t>> fills_;  ///< tile: implicit zeros
    /// Tiles that are reloaded from read-only HBM: (instruction, operation) of their loads.
    std::unordered_map<std::int32_t, std::vector<std::pair<std::int32_t, std::int32_t>>> loads_;
    /// By Tile::shares: lives of such tiles that hold something.
    std::unordered_map<std::int32_t, std::vector<std::int32_t>> sharers_;
    std::unordered_map<std::int32_t, std::int32_t> copy_uses_;  ///< left, of compiler's HBM copies
};

}  // namespace accelopt::trainium::execution
