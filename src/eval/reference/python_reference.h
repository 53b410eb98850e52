#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/result.h"
#include "eval/problem.h"
#include "eval/reference/input_set.h"

namespace accelopt::eval {

/// Identifies everything outside the problem that decides the bits of a reference: numpy's version
/// and the BLAS core type. Loads numpy at the first call.
std::string reference_identity();

/// Draws tensor input `index` of a set (numpy's PCG64 keyed by its seed and name, float32) into
/// `values`. Throws std::bad_alloc when Python runs out of memory.
void draw_input(const InputSet& set, std::size_t index, std::span<float> values);

/// How the arguments reach a function of reference.py.
enum class Precision {
    kFloat32,          ///< as drawn; the result must be float32
    kFloat64,          ///< converted; the result must be float64
    kRoundedBFloat16,  ///< rounded to bfloat16, then as kFloat64
};

/// One output of a function of reference.py, row-major; which member is set follows the precision.
struct ReferenceValues {
    std::span<const float> single;
    std::span<const double> wide;
};

/// Calls `function` of the problem's reference.py with the set's scalars and `tensors` (read-only
/// views, in argument order) and hands each output to `take`. Returns nullopt, or a sentence with
/// the traceback's last line when the function fails, is missing, or returns the wrong number of
/// arrays, a wrong shape or dtype. Throws std::bad_alloc when Python runs out of memory. The
/// reference is trusted benchmark code.
std::optional<std::string> call_reference(
    const Problem& problem, const std::string& function, Precision precision, const InputSet& set,
    const std::vector<std::span<const float>>& tensors,
    const std::function<void(std::size_t, const ReferenceValues&)>& take);

/// Names of the functions that reference.py defines, sorted; an error sentence when it cannot be
/// run.
Result<std::vector<std::string>, std::string> reference_functions(const Problem& problem);

}  // namespace accelopt::eval
