#pragma once

#include <optional>
#include <string>
#include <vector>

#include "eval/problem.h"

namespace accelopt::eval {

/// One set of arguments: how each is drawn and from which seed.
struct InputSet {
    std::string name = "nominal";
    std::vector<InputSpec> inputs;   ///< in kernel argument order
    std::vector<std::string> seeds;  ///< per input, 64 hexadecimal digits
    /// Set: the tensors are drawn as NKIBench draws them, from numpy's older generator seeded with
    /// this number, one after the other; `seeds` does not count.
    std::optional<int> published_seed;

    /// Everything that decides the bits of input `index`, as text.
    std::string key_of(std::size_t index) const;
};

/// Derives the seed of input set `k` as 64 hexadecimal digits from the run secret and the problem
/// id; one-way, so that a seed tells nothing about the secret.
std::string input_seed(const std::string& secret, const std::string& problem_id, int k);

/// The nominal inputs of index `k`.
InputSet nominal_set(const Problem& problem, const std::string& secret, int k);
/// The nominal inputs as NKIBench draws them from `seed` (AccelOpt, eval_numpy.py: 0, 21, 42, 63
/// and 84).
InputSet published_set(const Problem& problem, int seed);
/// A stress set: what it replaces has a seed of its own, the rest is that of nominal set 0.
InputSet stress_set(const Problem& problem, const std::string& secret, const StressSet& stress);

}  // namespace accelopt::eval
