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

/// One piece of one output of a function of reference.py, in C order.
struct OutputPiece {
    std::int64_t first = 0;  ///< index along the output's cut axis
    std::int64_t count = 0;  ///< along that axis; the other extents are the output's
    std::span<const double> values;
};

/// Calls each of `functions` in float64 on one piece of the inputs after the other, as the
/// problem's `blocks` cut them (in one piece where it declares none), and hands on each output of
/// each: take(function, output, piece), the functions of a piece in their order. The arrays that
/// the reference gets are read-only. Returns nullopt, or a sentence as of call_reference that
/// begins with the function. A few pieces at least are made of a small problem too, so that a
/// wrong declaration shows there.
std::optional<std::string> call_reference_in_pieces(
    const Problem& problem, const std::vector<std::string>& functions, const InputSet& set,
    const std::vector<std::span<const float>>& tensors,
    const std::function<void(std::size_t, std::size_t, const OutputPiece&)>& take);

/// Names of the functions that reference.py defines, sorted; an error sentence when it cannot be
/// run.
Result<std::vector<std::string>, std::string> reference_functions(const Problem& problem);

}  // namespace accelopt::eval
