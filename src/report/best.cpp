#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_map>

#include "report/diff.h"
#include "report/format.h"
#include "report/report.h"
#include "report/run_tables.h"

namespace accelopt::report {
namespace {

using store::CandidateRow;

constexpr std::size_t kPlanCharacters = 72;

/// From the baseline (as far back as parents are known) to `winner`.
std::vector<const CandidateRow*> lineage_of(
    const CandidateRow& winner, const std::unordered_map<std::string, const CandidateRow*>& by_id) {
    std::vector<const CandidateRow*> path;
    std::set<std::string> visited;
    for (const CandidateRow* row = &winner; row != nullptr && visited.insert(row->id).second;) {
        path.push_back(row);
        const auto parent = by_id.find(row->parent_id);
        row = parent == by_id.end() ? nullptr : parent->second;
    }
    std::reverse(path.begin(), path.end());
    return path;
}

/// The first line that says something, shortened between characters.
std::string plan_title(const CandidateRow& row) {
    if (row.is_baseline()) return "baseline";
    const std::string& text = row.unit->plan_text;
    const auto start = text.find_first_not_of(" \t\r\n");
    if (start == std::string::npos) return "";
    std::string line = text.substr(start, text.find_first_of("\r\n", start) - start);
    if (line.size() <= kPlanCharacters) return line;
    std::size_t end = kPlanCharacters;
    while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xc0) == 0x80) --end;
    return line.substr(0, end) + "...";
}

std::vector<std::string> cells_of(const CandidateRow& row, std::size_t step,
                                  std::optional<double> baseline_ms) {
    const auto number = [](int value) { return value < 0 ? "" : fmt::format("{}", value); };
    const auto latency = row.latency_ms();
    std::optional<double> speedup;
    if (baseline_ms && latency && *latency > 0) speedup = *baseline_ms / *latency;
    return {row.problem,        fmt::format("{}", step), row.id,
            number(row.round),  number(row.plan),        number(row.sample),
            format_ms(latency), format_speedup(speedup), plan_title(row)};
}

}  // namespace

Grid best_grid(const store::RunData& run) {
    Grid grid;
    grid.columns = {{"problem", false},   {"step", true},     {"candidate", false},
                    {"round", true},      {"plan", true},     {"sample", true},
                    {"latency ms", true}, {"speed-up", true}, {"change", false}};
    const auto candidates = store::candidate_rows(run);
    std::unordered_map<std::string, const CandidateRow*> by_id;
    for (const auto& row : candidates) by_id.emplace(row.id, &row);
    for (const auto& problem : reported_problems(run)) {
        const CandidateRow* winner = store::best_candidate(candidates, problem);
        if (winner == nullptr) continue;
        std::optional<double> baseline_ms;
        for (const auto& row : candidates) {
            if (row.problem == problem && row.is_baseline()) baseline_ms = row.latency_ms();
        }
        const auto path = lineage_of(*winner, by_id);
        for (std::size_t step = 0; step < path.size(); ++step) {
            grid.rows.push_back(cells_of(*path[step], step, baseline_ms));
        }
    }
    return grid;
}

std::vector<BestFile> best_files(const store::RunData& run,
                                 const std::map<std::string, std::string>& baselines) {
    std::vector<BestFile> files;
    const auto candidates = store::candidate_rows(run);
    for (const auto& problem : reported_problems(run)) {
        const CandidateRow* winner = store::best_candidate(candidates, problem);
        if (winner == nullptr || winner->is_baseline()) continue;
        std::string baseline;
        for (const auto& row : candidates) {
            if (row.problem == problem && row.is_baseline()) baseline = row.source;
        }
        const auto given = baselines.find(problem);
        if (baseline.empty() && given != baselines.end()) baseline = given->second;
        files.push_back({problem, winner->source,
                         unified_diff(baseline, winner->source, problem + "/baseline.py",
                                      "best/" + problem + ".py")});
    }
    return files;
}

}  // namespace accelopt::report
