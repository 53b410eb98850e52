#include "report/bench.h"

#include <fmt/format.h>

#include <cmath>

#include "report/format.h"
#include "report/grid.h"

namespace accelopt::report {
namespace {

using protocol::EvaluationReply;
using protocol::Outcome;

/// Predicted over measured minus one.
std::optional<double> latency_error(const EvaluationReply& reply) {
    if (!reply.profile || !reply.measured) return std::nullopt;
    const auto predicted = reply.profile->latency;
    const auto measured = reply.measured->latency;
    if (!predicted || !measured || *measured <= 0) return std::nullopt;
    return *predicted / *measured - 1;
}

std::string signed_percent(std::optional<double> fraction) {
    return fraction ? fmt::format("{:+.1f}", 100 * *fraction) : kUnknown;
}

std::string verdict(const EvaluationReply& reply) {
    if (reply.outcome != Outcome::kOk) {
        const std::string outcome(to_string(reply.outcome));
        return reply.reason.empty() ? outcome : outcome + "/" + reply.reason;
    }
    return reply.verified() ? "yes" : "not compared";
}

std::vector<std::string> cells_of(const EvaluationReply& reply) {
    const protocol::Profile profile = reply.profile.value_or(protocol::Profile{});
    return {reply.problem,
            format_ms(profile.latency),
            format_ms(reply.measured ? reply.measured->latency : std::nullopt),
            signed_percent(latency_error(reply)),
            format_ms(profile.lower_bound_ms),
            format_ms(profile.stream_roofline_ms),
            format_percent(profile.percent_of_peak),
            profile.bound.empty() ? kUnknown : profile.bound,
            profile.confidence.empty() ? kUnknown : profile.confidence,
            verdict(reply)};
}

}  // namespace

std::string render_bench(const std::vector<EvaluationReply>& replies, const std::string& format) {
    Grid grid;
    grid.columns = {{"problem", false},  {"predicted ms", true},   {"measured ms", true},
                    {"error %", true},   {"lower bound ms", true}, {"roofline ms", true},
                    {"% of peak", true}, {"bound", false},         {"confidence", false},
                    {"verified", false}};
    double error_sum = 0;
    int errors = 0;
    for (const auto& reply : replies) {
        grid.rows.push_back(cells_of(reply));
        if (const auto error = latency_error(reply)) {
            error_sum += std::fabs(*error);
            ++errors;
        }
    }
    if (errors > 0) {
        grid.rows.push_back({"mean |error|", "", "",
                             fmt::format("{:.1f}", 100 * error_sum / errors), "", "", "", "", "",
                             ""});
        grid.last_row_is_total = true;
    }
    return render_grid(grid, format);
}

}  // namespace accelopt::report
