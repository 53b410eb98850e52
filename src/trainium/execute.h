#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.h"
#include "nki/interpreter.h"
#include "nki/program.h"
#include "trainium/machine.h"
#include "trainium/output_bytes.h"

namespace accelopt::trainium {

/// Checks a program against rules that need lifetimes or byte maps but no data: reads of
/// uninitialised memory, outputs never stored to, PSUM over-subscription, a tile larger than SBUF.
/// Returns nullopt when the program is legal. `unwritten_outputs` of ExecutionResult is about
/// partly written outputs, which is a verdict on values (incorrect/unwritten_output).
std::optional<nki::Finding> check_legality(const nki::Program& program, const Machine& machine);

/// A read-only row-major array of the dtype of the tensor argument it is bound to.
struct InputArray {
    const void* data = nullptr;
    std::int64_t bytes = 0;
};

/// An output: float32 or the tensor's own dtype, row-major.
struct OutputArray {
    nki::DType dtype = nki::DType::kFloat32;
    std::vector<std::int64_t> shape;
    OutputBytes bytes;
    std::int64_t unwritten_elements = 0;  ///< elements no store touched
};

struct ExecutionLimits {
    std::int64_t memory_bytes = 8'000'000'000;
    int threads = 1;  ///< kept for callers: values are computed on the calling thread alone, so
                      ///< that bits do not follow ranks; run evaluators side by side instead
    bool program_order = false;  ///< never on demand (see execute), whatever memory that takes
};

/// Runs a program on data: float32 elementwise arithmetic (Highway), float32-accumulated products
/// (oneDNN), other dtypes rounded on write. Outputs start poisoned with a finite out-of-range
/// value. `inputs` are in the order of the kernel's tensor arguments and are never written.
/// Operations run in program order; where a kernel's intermediate results would need more memory
/// than its inputs and outputs, on demand of the stores, which gives the same bits
/// (execution_plan). The error is a resource_limit/memory finding, or
/// rejected/tensor_access_out_of_bound for an index that only the data decide. Throws
/// Error(kInternal) for a program that no front end makes (a view outside its tensor, a store to an
/// input) and for inputs of the wrong size.
Result<std::vector<OutputArray>, nki::Finding> execute(const nki::Program& program,
                                                       std::span<const InputArray> inputs,
                                                       const ExecutionLimits& limits);

/// Name of the instruction-set level that vector code runs at on this processor ("AVX3", "AVX2",
/// ...), for run records and `accelopt doctor`. Values may differ in last bits between levels.
std::string simd_target();

/// Keeps vector code and products of this process at or below an instruction-set level ("avx512",
/// "avx2", "sse4"; "auto" changes nothing), so that different processors give equal bits. To be
/// called before the first execution. False when the level is unknown, the processor lacks it, or
/// it is too late.
[[nodiscard]] bool limit_simd(std::string_view level);

}  // namespace accelopt::trainium
