#pragma once

#include <optional>
#include <string>
#include <vector>

#include "protocol/evaluation.h"

namespace accelopt::report {

/// Geometric mean of percent of peak over the replies that have one, as the papers average
/// (AccelOpt: 49.2 % of Trainium 1, 45.3 % of Trainium 2 for the baselines); a fraction. nullopt
/// without any.
std::optional<double> mean_percent_of_peak(const std::vector<protocol::EvaluationReply>& replies);

/// "geometric mean of % of peak: 45.7 (14 problems)", with a line end; "" without any.
std::string peak_mean_line(const std::vector<protocol::EvaluationReply>& replies);

}  // namespace accelopt::report
