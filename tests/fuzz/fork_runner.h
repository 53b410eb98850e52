#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

namespace accelopt::fuzz {

/// What one input came to: an outcome for the histogram, and a fault when a rule was broken.
struct Verdict {
    std::string outcome;
    std::string fault;  ///< "" = none
};

struct FuzzOptions {
    std::uint64_t seed = 1;
    std::int64_t executions = 1'000'000'000;
    double seconds = 1e18;     ///< stops after this long
    double hang_seconds = 60;  ///< an input that takes longer is a finding
    std::int64_t batch = 100;  ///< inputs per process
    std::int64_t first = 0;    ///< index of the first input: a finding's index reproduces it
    std::string findings;      ///< folder that findings are written to; "" = none kept
    bool progress = false;     ///< a line per minute
};

/// Adds --executions, --seconds, --seed, --first, --findings ... of a fuzz program; false when the
/// command line is wrong or asks for help, with the exit status in `status`.
bool parse_options(int argc, char** argv, const char* what, FuzzOptions& options, int& status);

/// Runs inputs `first`, `first` + 1, ... in batches, each batch in a process of its own, so that a
/// crash or a hang costs one input and is recorded with it. `make` gives the text of an input and
/// `run` its verdict; both must depend on the index and the seed only. Prints executions per
/// second, the histogram of outcomes and the findings; returns 0 when there was none, else 1.
int run_forked(const FuzzOptions& options, const char* extension,
               const std::function<std::string(std::int64_t index)>& make,
               const std::function<Verdict(const std::string& input)>& run);

}  // namespace accelopt::fuzz
