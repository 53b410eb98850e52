#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/result.h"
#include "nki/interpreter.h"
#include "nki/program.h"
#include "trainium/execute.h"
#include "trainium/machine.h"
#include "trainium/mechanism.h"
#include "trainium/stream.h"
#include "trainium/timing_schedule.h"
#include "trainium/timing_simulate.h"

/// The second execution of a kernel: the compiled instruction stream in the order in which the
/// timing model completes it. Values and time are computed from different things; that both
/// executions agree to the bit is what ties them together. A disagreement is a race of the kernel
/// or a fault of a modelled compiler pass, of the dependencies or of the allocation of memory.
namespace accelopt::trainium {

/// A kernel as the timing model runs it.
struct CompiledKernel {
    Stream stream;
    Schedule schedule;
    std::vector<OrderStep> order;
};

/// Lowers, compiles and simulates a legal program, as predict() does.
CompiledKernel compile_kernel(const nki::Program& program, const Machine& machine,
                              Mechanisms mechanisms = {});

/// Runs the instructions of a compiled kernel when they complete, each on the tile that the
/// compiler gave it: merged values are read from the tile that was kept, slices and spilled tiles
/// are loaded again, and tiles lie in the memory the timing model gave them. Products of one PSUM
/// accumulation group complete in program order. Errors and exceptions as of execute().
Result<std::vector<OutputArray>, nki::Finding> execute_completion_order(
    const nki::Program& program, const CompiledKernel& kernel, std::span<const InputArray> inputs,
    const ExecutionLimits& limits);

/// Runs a compiled kernel in completion order and compares with `in_program_order`, the outputs of
/// execute() on the same inputs. Returns nullopt when all bits agree; rejected/hazard with the
/// first output element that differs and the operations that passed each other; or the
/// resource_limit/memory finding of the run.
std::optional<nki::Finding> find_hazard(const nki::Program& program, const CompiledKernel& kernel,
                                        std::span<const InputArray> inputs,
                                        const ExecutionLimits& limits,
                                        std::span<const OutputArray> in_program_order);

}  // namespace accelopt::trainium
