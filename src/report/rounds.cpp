#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "report/format.h"
#include "report/run_tables.h"

namespace accelopt::report {
namespace {

using protocol::SampleStatus;

struct RoundSummary {
    std::optional<double> best_ms;
    int samples = 0;
    int evaluated = 0;
    int verified = 0;
    int duplicates = 0;
    int failures = 0;
};

void count(RoundSummary& round, const store::CandidateRow& row) {
    ++round.samples;
    round.duplicates += row.status == SampleStatus::kDuplicate ? 1 : 0;
    round.evaluated += row.status == SampleStatus::kEvaluated ? 1 : 0;
    round.failures += failed(row) ? 1 : 0;
    if (!row.verified()) return;
    ++round.verified;
    const auto latency = row.latency_ms();
    if (latency && (!round.best_ms || *latency < *round.best_ms)) round.best_ms = latency;
}

std::optional<double> ratio(std::optional<double> before, std::optional<double> after) {
    if (!before || !after || *after <= 0) return std::nullopt;
    return *before / *after;
}

}  // namespace

Grid rounds_grid(const store::RunData& run) {
    Grid grid;
    grid.columns = {{"problem", false},       {"round", true},    {"best of round ms", true},
                    {"best so far ms", true}, {"speed-up", true}, {"samples", true},
                    {"evaluated", true},      {"verified", true}, {"duplicates", true},
                    {"failed", true}};
    const auto candidates = store::candidate_rows(run);
    for (const auto& problem : reported_problems(run)) {
        std::optional<double> baseline_ms;
        std::map<int, RoundSummary> rounds;
        for (const auto& row : candidates) {
            if (row.problem != problem) continue;
            if (row.is_baseline() && row.verified()) baseline_ms = row.latency_ms();
            if (!row.is_baseline()) count(rounds[row.round], row);
        }
        std::optional<double> so_far = baseline_ms;
        for (const auto& [number, round] : rounds) {
            if (round.best_ms && (!so_far || *round.best_ms < *so_far)) so_far = round.best_ms;
            grid.rows.push_back(
                {problem, fmt::format("{}", number), format_ms(round.best_ms), format_ms(so_far),
                 format_speedup(ratio(baseline_ms, so_far)), fmt::format("{}", round.samples),
                 fmt::format("{}", round.evaluated), fmt::format("{}", round.verified),
                 fmt::format("{}", round.duplicates), fmt::format("{}", round.failures)});
        }
    }
    return grid;
}

}  // namespace accelopt::report
