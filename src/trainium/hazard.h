#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "nki/interpreter.h"
#include "trainium/completion_order.h"

namespace accelopt::trainium::execution {

/// The first output element in which the two executions differ.
struct Difference {
    std::size_t output = 0;
    std::int64_t byte = 0;
    std::array<std::byte, 4> expected{};  ///< the element in program order
    std::array<std::byte, 4> found{};     ///< in completion order
};

/// Runs both orders again to find the first instruction whose result differs, and what passed what,
/// and puts that into a rejected/hazard finding.
nki::Finding explain_hazard(const nki::Program& program, const CompiledKernel& kernel,
                            std::span<const InputArray> inputs, const ExecutionLimits& limits,
                            const Difference& difference);

}  // namespace accelopt::trainium::execution
