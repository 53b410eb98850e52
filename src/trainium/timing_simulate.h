#pragma once

#include <vector>

#include "trainium/stream.h"
#include "trainium/timeline.h"
#include "trainium/timing_schedule.h"

namespace accelopt::trainium {

/// What the event simulation of a stream found.
struct SimulationResult {
    double latency_ns = 0;
    double busy_ns[kUnits] = {};          ///< DMA: averaged over all queues
    std::int64_t forced_allocations = 0;  ///< tiles given memory beyond the capacity, see simulate
};

/// One step of a simulation that matters for values: a tile gets its memory, an instruction
/// completes, a tile gives its memory back.
struct OrderStep {
    enum class Kind : std::uint8_t { kAllocate, kComplete, kRelease };
    Kind kind = Kind::kComplete;
    std::int32_t index = 0;  ///< of the instruction, or of the allocation in the schedule
};

/// Runs the stream on the machine's queues. PE, ACT, DVE and Pool execute one instruction at a
/// time, each the first ready one among the next `engine_window` in program order (this stands for
/// the compiler's list scheduling); DMAs are issued likewise from `dma_window` loads and as many
/// stores, at most `dma_in_flight` at once, and spread round-robin over first-come-first-served
/// queues. A result is visible `result_latency_ns` after its engine is free, a DMA `dma_fixed_ns`
/// after its queues. SBUF is given out in program order, PSUM banks when their first user starts
/// (one that overtakes others leaves `psum_reserved_banks` to the oldest); both are taken back at
/// the last use.
///
/// It cannot deadlock: dependencies point backwards and the oldest instruction is in its window, so
/// only a lack of memory can stop everything. Then nothing is in flight, and the oldest instruction
/// that waits for memory gets it all the same; `forced_allocations` counts these.
/// With `order`, appends the steps of the run in the order in which they happen; with `timeline`,
/// writes down when, and what each instruction waited for.
SimulationResult simulate(const Stream& stream, const Schedule& schedule, const Machine& machine,
                          std::vector<OrderStep>* order = nullptr, Timeline* timeline = nullptr);

}  // namespace accelopt::trainium
