#pragma once

#include <string>
#include <vector>

#include "protocol/evaluation.h"

namespace accelopt::report {

/// Renders the table of `accelopt bench`: per problem the predicted latency beside the measured
/// one, their error, lower bound, stream roofline, percent of peak, confidence and what it means
/// for the latency; then the mean errors of model and roofline. As text, the mean error by
/// confidence and the reasons for less than high confidence follow. Formats as in render_table.
std::string render_bench(const std::vector<protocol::EvaluationReply>& replies,
                         const std::string& format);

}  // namespace accelopt::report
