#pragma once

#include <string>
#include <vector>

#include "nki/program.h"
#include "protocol/profile.h"
#include "trainium/machine.h"

namespace accelopt::trainium {

/// Two layers of a predicted profile.
struct PredictedProfile {
    protocol::Profile as_written;  ///< exact counts of the instruction stream; no latency
    protocol::Profile compiled;    ///< after the modelled compiler passes, with latency
};

/// Predicts the profile of a legal program. Pure function of (program, machine, rows).
/// percent_of_peak and lower_bound_ms are left to eval, which knows the problem's formulas. `rows`
/// is the length of the lists of the compiled profile's detail (negative: all); 0 leaves the detail
/// out, which saves the time to find it.
PredictedProfile predict(const nki::Program& program, const Machine& machine, int rows = 0);

}  // namespace accelopt::trainium
