#include "report/bench.h"

#include <fmt/format.h>

#include <cmath>
#include <map>

#include "core/text.h"
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

/// The stream roofline over the measurement minus one: what a model has to beat.
std::optional<double> roofline_error(const EvaluationReply& reply) {
    if (!reply.profile || !reply.measured) return std::nullopt;
    const auto roofline = reply.profile->stream_roofline_ms;
    const auto measured = reply.measured->latency;
    if (!roofline || !measured || *measured <= 0) return std::nullopt;
    return *roofline / *measured - 1;
}

/// Mean of absolute errors.
struct MeanError {
    double sum = 0;
    int count = 0;

    void add(double error) {
        sum += std::fabs(error);
        ++count;
    }
    std::string percent() const {
        return count > 0 ? fmt::format("{:.1f}", 100 * sum / count) : kUnknown;
    }
};

/// Whether the confidence of the predictions means something.
std::string confidence_lines(const std::map<std::string, MeanError>& by_confidence) {
    std::string text;
    for (const char* level : {"high", "medium", "low"}) {
        const auto at = by_confidence.find(level);
        if (at == by_confidence.end()) continue;
        text += fmt::format("{}{} {} % ({})", text.empty() ? "" : ", ", level, at->second.percent(),
                            at->second.count);
    }
    return text.empty() ? "" : "\nmean |error| by confidence: " + text + "\n";
}

/// Why predictions are not of high confidence, and for which problems.
std::string reason_lines(const std::vector<EvaluationReply>& replies) {
    std::map<std::string, std::vector<std::string>> problems;
    for (const auto& reply : replies) {
        if (!reply.profile) continue;
        for (const auto& reason : reply.profile->confidence_reasons) {
            problems[reason].push_back(reply.problem);
        }
    }
    std::string text;
    for (const auto& [reason, names] : problems) {
        text += "  - " + reason + ": " + join(names, ", ") + "\n";
    }
    return text.empty() ? "" : "\nless than high confidence\n" + text;
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
            format_percent(profile.latency_uncertainty),
            verdict(reply)};
}

}  // namespace

std::string render_bench(const std::vector<EvaluationReply>& replies, const std::string& format) {
    Grid grid;
    grid.columns = {{"problem", false},  {"predicted ms", true},   {"measured ms", true},
                    {"error %", true},   {"lower bound ms", true}, {"roofline ms", true},
                    {"% of peak", true}, {"bound", false},         {"confidence", false},
                    {"+- %", true},      {"verified", false}};
    MeanError model;
    MeanError roofline;
    std::map<std::string, MeanError> by_confidence;
    for (const auto& reply : replies) {
        grid.rows.push_back(cells_of(reply));
        if (const auto error = latency_error(reply)) {
            model.add(*error);
            by_confidence[reply.profile->confidence].add(*error);
        }
        if (const auto error = roofline_error(reply)) roofline.add(*error);
    }
    if (model.count > 0) {
        grid.rows.push_back({"mean |error|", "", "", model.percent(), "", roofline.percent() + " %",
                             "", "", "", "", ""});
        grid.last_row_is_total = true;
    }
    std::string text = render_grid(grid, format);
    if (format == "text") text += confidence_lines(by_confidence) + reason_lines(replies);
    return text;
}

}  // namespace accelopt::report
