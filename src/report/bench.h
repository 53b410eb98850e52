#pragma once

#include <string>
#include <vector>

#include "protocol/evaluation.h"

namespace accelopt::report {

/// Renders the table of `accelopt bench`: per problem the predicted latency beside the measured
/// one, their error, lower bound, stream roofline, percent of peak and confidence. Formats as in
/// render_table.
std::string render_bench(const std::vector<protocol::EvaluationReply>& replies,
                         const std::string& format);

}  // namespace accelopt::report
