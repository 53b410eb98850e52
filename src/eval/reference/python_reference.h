#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "eval/problem.h"

namespace accelopt::eval {

/// Identifies everything outside the problem that decides the bits of a reference: numpy's version
/// and the BLAS core type. Loads numpy at the first call.
std::string reference_identity();

/// Derives the seed of input set `k` as 64 hexadecimal digits from the run secret and the problem
/// id; one-way, so that a seed tells nothing about the secret.
std::string input_seed(const std::string& secret, const std::string& problem_id, int k);

/// Draws the problem's tensor inputs (numpy's PCG64 keyed by `seed_hex`, float32 ziggurat normals,
/// in argument order) into `inputs` and writes what reference.py's `forward` returns for them to
/// `outputs`. Returns nullopt, or a sentence with the traceback's last line when the reference
/// fails, returns the wrong number of arrays, a wrong shape or another dtype than float32. Throws
/// std::bad_alloc when Python runs out of memory. The reference is trusted benchmark code; it gets
/// read-only views.
std::optional<std::string> compute_reference(const Problem& problem, const std::string& seed_hex,
                                             const std::vector<std::span<float>>& inputs,
                                             const std::vector<std::span<float>>& outputs);

}  // namespace accelopt::eval
