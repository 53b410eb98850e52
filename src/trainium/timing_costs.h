#pragma once

#include "trainium/stream.h"

namespace accelopt::trainium {

/// Returns the unit an instruction runs on: the engine the source asked for, else the compiler's
/// usual choice (copies, activations and tensor_scalar on ScalarE; tensor_tensor, reductions,
/// scans, reciprocals and memsets on VectorE; iota on GpSimd; measured on 14 kernels).
Unit unit_of(const Instruction& instruction);

/// Elementwise instructions under this many elements per partition are dominated by their overhead.
inline constexpr int kTinyElements = 16;
bool is_tiny(const Instruction& instruction);

/// Returns how long an engine is busy with an instruction, in ns. Not for DMAs.
double engine_ns(const Instruction& instruction, const Stream& stream, const Machine& machine);

/// What one DMA costs: `queues` queues are busy for `queue_ns` each.
struct DmaCost {
    int queues = 1;
    double queue_ns = 0;
    bool far_stride = false;  ///< the far-stride rule decided the cost of a descriptor
};
DmaCost dma_cost(const Instruction& instruction, const Machine& machine);

/// Busy time per unit of a whole stream, in ns; DMA time is averaged over all queues.
struct BusyTimes {
    double unit_ns[kUnits] = {};
    double dma_far_ns = 0;             ///< DMA time of descriptors that the far-stride rule decided
    double dma_single_element_ns = 0;  ///< of DMAs whose descriptors move one element
    double tiny_ns = 0;                ///< engine time of instructions under 16 elements
    double engines_ns() const;         ///< all units but DMA
};
BusyTimes busy_times(const Stream& stream, const Machine& machine);

}  // namespace accelopt::trainium
