#include "eval/bounds.h"

#include <algorithm>

namespace accelopt::eval {

namespace {

/// Arithmetic operations that one elementwise instruction performs on an element at most: scale,
/// bias, function and accumulation of nisa.activation; two operations and a reduction of the
/// vector engines' tensor_scalar and scalar_tensor_tensor (NKI documentation, nisa reference).
constexpr double kActivationOperations = 4;
constexpr double kVectorOperations = 3;
/// A multiply and an add per cell of the systolic array and cycle.
constexpr double kCellOperations = 2;

double all_engines_flops(const trainium::Machine& machine) {
    const double lanes = machine.partitions;
    const double passes = std::min(
        {machine.tensor_fp32_passes, machine.tensor_onezero_passes, machine.tensor_bf16_passes});
    const double tensor = kCellOperations * lanes * lanes * machine.tensor_ghz / passes;
    const double scalar = kActivationOperations * lanes * machine.scalar_ghz;
    const double vector = kVectorOperations * lanes * (machine.vector_ghz + machine.gpsimd_ghz);
    return (tensor + scalar + vector) * 1e9;
}

}  // namespace

double peak_model_ms(const Problem& problem, const trainium::Machine& machine) {
    return 1e3 * std::max({problem.minimal_bytes / machine.peak_hbm_bytes_per_s,
                           problem.matmul_flops / machine.peak_matmul_flops,
                           problem.vector_flops / machine.peak_vector_flops});
}

double lower_bound_ms(const Problem& problem, const trainium::Machine& machine) {
    const double operations = problem.matmul_flops + problem.vector_flops;
    return 1e3 * std::max(problem.minimal_bytes / machine.peak_hbm_bytes_per_s,
                          operations / all_engines_flops(machine));
}

}  // namespace accelopt::eval
