#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "config/run_config.h"
#include "core/text.h"
#include "report/format.h"
#include "report/run_tables.h"

namespace accelopt::report {
namespace {

using protocol::SampleStatus;
using protocol::UnitKind;

double uncertainty_of(const store::CandidateRow* row) {
    if (row == nullptr || row->evaluation == nullptr || !row->evaluation->profile) return 0;
    return row->evaluation->profile->latency_uncertainty.value_or(0);
}

/// Set behind a speed-up that may be a tie.
constexpr const char* kTieMark = " ~";

/// What one row of the summary says, as numbers.
struct ProblemSummary {
    std::string problem;
    const store::CandidateRow* baseline = nullptr;
    const store::CandidateRow* best = nullptr;
    int evaluations = 0;
    std::map<std::string, int> failures;
    std::vector<protocol::LedgerRow> ledger;

    std::optional<double> baseline_ms() const {
        return baseline != nullptr ? baseline->latency_ms() : std::nullopt;
    }
    std::optional<double> best_ms() const {
        return best != nullptr ? best->latency_ms() : std::nullopt;
    }
    std::optional<double> speedup() const {
        if (!baseline_ms() || !best_ms() || *best_ms() <= 0) return std::nullopt;
        return *baseline_ms() / *best_ms();
    }
    /// True when the model's own error may be as large as the gain.
    bool is_tie() const {
        const double margin = std::max(uncertainty_of(baseline), uncertainty_of(best));
        return speedup() && best != baseline && *speedup() <= 1 + margin;
    }
};

std::optional<double> percent_of_peak(const store::CandidateRow* row) {
    if (row == nullptr || row->evaluation == nullptr || !row->evaluation->profile) {
        return std::nullopt;
    }
    return row->evaluation->profile->percent_of_peak;
}

void count_candidate(ProblemSummary& summary, const store::CandidateRow& row) {
    if (row.is_baseline()) summary.baseline = &row;
    if (row.status == SampleStatus::kEvaluated && row.evaluation != nullptr) {
        ++summary.evaluations;
    }
    if (!failed(row)) return;
    ++summary.failures[(row.is_baseline() ? "baseline " : "") + ending(row)];
}

void count_unit(ProblemSummary& summary, const protocol::UnitResult& unit) {
    summary.ledger.insert(summary.ledger.end(), unit.ledger.begin(), unit.ledger.end());
    if (!unit.failure.empty()) ++summary.failures["unit_failed"];
    if (unit.kind == UnitKind::kRewrite && unit.plan_outcome != protocol::LlmOutcome::kOk) {
        ++summary.failures["plan_failed"];
    }
}

std::string failures_cell(const std::map<std::string, int>& failures) {
    std::vector<std::string> parts;
    for (const auto& [name, count] : failures) parts.push_back(fmt::format("{} {}", name, count));
    return parts.empty() ? "none" : join(parts, ", ");
}

std::string verified_cell(const ProblemSummary& summary) {
    if (summary.best != nullptr) return "yes";
    return summary.baseline == nullptr ? kUnknown : "no";
}

std::vector<std::string> cells_of(const ProblemSummary& summary) {
    return {summary.problem,
            format_ms(summary.baseline_ms()),
            format_ms(summary.best_ms()),
            format_speedup(summary.speedup()) + (summary.is_tie() ? kTieMark : ""),
            format_percent(percent_of_peak(summary.baseline)),
            format_percent(percent_of_peak(summary.best)),
            verified_cell(summary),
            fmt::format("{}", summary.evaluations),
            format_usd(total_usd(summary.ledger)),
            failures_cell(summary.failures)};
}

std::vector<std::string> total_cells(const std::vector<ProblemSummary>& summaries) {
    double log_sum = 0;
    int improved = 0;
    int verified = 0;
    ProblemSummary total;
    for (const auto& summary : summaries) {
        if (const auto speedup = summary.speedup()) {
            log_sum += std::log(*speedup);
            ++improved;
        }
        verified += summary.best != nullptr ? 1 : 0;
        total.evaluations += summary.evaluations;
        for (const auto& [name, count] : summary.failures) total.failures[name] += count;
        total.ledger.insert(total.ledger.end(), summary.ledger.begin(), summary.ledger.end());
    }
    const std::optional<double> geomean =
        improved > 0 ? std::optional<double>(std::exp(log_sum / improved)) : std::nullopt;
    return {"geomean / total",
            "",
            "",
            format_speedup(geomean),
            "",
            "",
            fmt::format("{}/{}", verified, summaries.size()),
            fmt::format("{}", total.evaluations),
            format_usd(total_usd(total.ledger)),
            failures_cell(total.failures)};
}

}  // namespace

std::vector<std::string> reported_problems(const store::RunData& run) {
    std::vector<std::string> problems;
    if (!run.resolved_config.empty()) {
        problems =
            config::parse_resolved_config(run.resolved_config, run.directory + "/resolved.yaml")
                .problems;
    }
    for (const auto& problem : store::problems_of(run)) {
        if (std::find(problems.begin(), problems.end(), problem) == problems.end()) {
            problems.push_back(problem);
        }
    }
    return problems;
}

bool failed(const store::CandidateRow& row) {
    switch (row.status) {
        case SampleStatus::kEvaluated:
            return !row.verified();
        case SampleStatus::kExtractionFailed:
            return true;
        case SampleStatus::kLlmFailed:
            return true;
        case SampleStatus::kNoChange:
            return false;
        case SampleStatus::kDuplicate:
            return false;
    }
    return true;
}

std::string ending(const store::CandidateRow& row) {
    if (row.is_baseline() && row.evaluation == nullptr) return "not_evaluated";
    if (row.status == SampleStatus::kEvaluated && row.evaluation != nullptr) {
        // An ok that stopped before the values were compared is not a verdict.
        const bool unverified =
            row.evaluation->outcome == protocol::Outcome::kOk && !row.verified();
        return unverified ? "unverified" : std::string(to_string(row.evaluation->outcome));
    }
    return std::string(to_string(row.status));
}

Grid summary_grid(const store::RunData& run) {
    const auto candidates = store::candidate_rows(run);
    std::vector<ProblemSummary> summaries;
    for (const auto& problem : reported_problems(run)) {
        ProblemSummary summary;
        summary.problem = problem;
        summary.best = store::best_candidate(candidates, problem);
        for (const auto& row : candidates) {
            if (row.problem == problem) count_candidate(summary, row);
        }
        for (const auto& unit : run.units) {
            if (unit.problem == problem) count_unit(summary, unit);
        }
        summaries.push_back(std::move(summary));
    }
    Grid grid;
    grid.columns = {{"problem", false},       {"baseline ms", true},   {"best ms", true},
                    {"speed-up", true},       {"peak % before", true}, {"peak % after", true},
                    {"verified", false},      {"evaluations", true},   {"cost $", true},
                    {"failed samples", false}};
    for (const auto& summary : summaries) {
        grid.rows.push_back(cells_of(summary));
        if (summary.is_tie()) {
            grid.caption = "~ a gain within the uncertainty of the model: it may be a tie";
        }
    }
    if (!summaries.empty()) grid.rows.push_back(total_cells(summaries));
    grid.last_row_is_total = true;
    return grid;
}

}  // namespace accelopt::report
