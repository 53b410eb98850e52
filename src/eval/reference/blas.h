#pragma once

#include <string>
#include <vector>

namespace accelopt::eval {

/// Which matrix kernels numpy's BLAS uses in this process, and why.
struct BlasChoice {
    std::string core_type;  ///< what the library reports, e.g. "SkylakeX"; "" when it has none
    std::string source;     ///< "environment", "processor" or "library default"
    bool probed = false;    ///< products agreed with plain loops
    std::string note;       ///< one sentence for `accelopt doctor`
};

/// OpenBLAS core types this processor can run, best first, from CPUID alone (never from timing, so
/// that bits repeat between runs). Empty on other architectures.
std::vector<std::string> blas_candidates();

/// Chooses and announces (OPENBLAS_CORETYPE, one thread) the core type, once per process and
/// before numpy loads: the first candidate whose products agree with plain loops in a child
/// process, since a wrong type may crash. A type already set in the environment is left alone and
/// only probed. Sources: facts of Debian 12's OpenBLAS 0.3.21, which detects new processors as
/// "Prescott" and then runs eight times slower.
const BlasChoice& choose_blas();

}  // namespace accelopt::eval
