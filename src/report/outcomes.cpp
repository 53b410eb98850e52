#include <fmt/format.h>

#include <map>
#include <tuple>

#include "report/run_tables.h"

namespace accelopt::report {
namespace {

using protocol::LlmOutcome;
using protocol::SampleStatus;
using protocol::UnitKind;

/// What something ended as: who, how, and why.
using Ending = std::tuple<std::string, std::string, std::string, std::string>;

Ending ending_of(const store::CandidateRow& row) {
    const std::string what = row.is_baseline() ? "baseline" : "sample";
    std::string outcome;
    std::string reason;
    if (row.evaluation != nullptr && row.status == SampleStatus::kEvaluated) {
        outcome = to_string(row.evaluation->outcome);
        reason = row.evaluation->reason;
    } else if (row.status == SampleStatus::kLlmFailed && row.made_by != nullptr) {
        outcome = "llm";
        reason = to_string(row.made_by->llm_outcome);
    }
    const std::string status = row.is_baseline() && row.evaluation == nullptr
                                   ? "not_evaluated"
                                   : std::string(to_string(row.status));
    return {what, status, outcome, reason};
}

void count_unit(std::map<Ending, int>& counts, const protocol::UnitResult& unit) {
    if (!unit.failure.empty()) {
        ++counts[{"unit", "failed", std::string(to_string(unit.kind)), unit.failure}];
    }
    if (unit.kind == UnitKind::kBaseline) return;
    const bool plan = unit.kind == UnitKind::kRewrite;
    const bool answered = unit.plan_outcome == LlmOutcome::kOk;
    const std::string status = !answered                                  ? "llm_failed"
                               : (plan || !unit.experience.title.empty()) ? "ok"
                                                                          : "nothing_learnt";
    ++counts[{plan ? "plan" : "summary", status, answered ? "" : "llm",
              answered ? "" : std::string(to_string(unit.plan_outcome))}];
}

}  // namespace

Grid outcomes_grid(const store::RunData& run) {
    Grid grid;
    grid.columns = {{"problem", false}, {"what", false},   {"status", false},
                    {"outcome", false}, {"reason", false}, {"count", true}};
    const auto candidates = store::candidate_rows(run);
    std::map<Ending, int> all;
    const auto add_rows = [&](const std::string& problem, const std::map<Ending, int>& counts) {
        for (const auto& [key, count] : counts) {
            const auto& [what, status, outcome, reason] = key;
            grid.rows.push_back({problem, what, status, outcome, reason, fmt::format("{}", count)});
        }
    };
    const auto problems = reported_problems(run);
    for (const auto& problem : problems) {
        std::map<Ending, int> counts;
        for (const auto& row : candidates) {
            if (row.problem == problem) ++counts[ending_of(row)];
        }
        for (const auto& unit : run.units) {
            if (unit.problem == problem) count_unit(counts, unit);
        }
        for (const auto& [key, count] : counts) all[key] += count;
        add_rows(problem, counts);
    }
    if (problems.size() > 1) add_rows("all", all);
    return grid;
}

}  // namespace accelopt::report
