#include "report/peak_mean.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace accelopt::report {
namespace {

bool has_peak(const protocol::EvaluationReply& reply) {
    return reply.profile && reply.profile->percent_of_peak.value_or(0) > 0;
}

}  // namespace

std::optional<double> mean_percent_of_peak(const std::vector<protocol::EvaluationReply>& replies) {
    double logarithms = 0;
    int count = 0;
    for (const auto& reply : replies) {
        if (!has_peak(reply)) continue;
        logarithms += std::log(*reply.profile->percent_of_peak);
        ++count;
    }
    if (count == 0) return std::nullopt;
    return std::exp(logarithms / count);
}

std::string peak_mean_line(const std::vector<protocol::EvaluationReply>& replies) {
    const auto mean = mean_percent_of_peak(replies);
    if (!mean) return "";
    const auto problems = std::count_if(replies.begin(), replies.end(), has_peak);
    return fmt::format("geometric mean of % of peak: {:.1f} ({} problem{})\n", 100 * *mean,
                       problems, problems == 1 ? "" : "s");
}

}  // namespace accelopt::report
