#pragma once

#include <string>
#include <vector>

#include "nki/program.h"
#include "protocol/profile.h"
#include "trainium/machine.h"
#include "trainium/mechanism.h"
#include "trainium/stream.h"

namespace accelopt::trainium {

/// Two layers of a predicted profile.
struct PredictedProfile {
    protocol::Profile as_written;  ///< exact counts of the instruction stream; no latency
    protocol::Profile compiled;    ///< after the modelled compiler passes, with latency
};

/// Predicts the profile of a legal program. Pure function of (program, machine). percent_of_peak
/// and lower_bound_ms are left to eval, which knows the problem's formulas.
PredictedProfile predict(const nki::Program& program, const Machine& machine,
                         Mechanisms mechanisms = {});

/// The same with the detail of the compiled profile, in lists of at most `rows` rows (negative:
/// all; 0 leaves the detail out).
PredictedProfile predict_in_detail(const nki::Program& program, const Machine& machine, int rows);

/// The same of a program that lower() has lowered for a machine with the same memories: a stream
/// is lowered once and predicted for many machines, or with some mechanisms switched off.
PredictedProfile predict_stream(Stream lowered, const Machine& machine, Mechanisms mechanisms = {});

}  // namespace accelopt::trainium
