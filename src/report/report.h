#pragma once

#include <map>
#include <string>
#include <vector>

#include "store/archive.h"

namespace accelopt::report {

/// Tables that `render_table` knows: summary, rounds, outcomes, cost, best.
const std::vector<std::string>& table_names();

/// Renders a table of a run as text, csv, md or latex. `summary`, `rounds`, `outcomes` and `best`
/// are functions of the accepted results alone: the same search prints the same bytes whatever ran
/// it and however often it was interrupted; `cost` also counts the tries of launches that died.
/// Throws Error(kUser, "unknown_table" or "unknown_format") with a suggestion.
std::string render_table(const store::RunData& run, const std::string& table,
                         const std::string& format);

/// The winner of a problem, when it is not the baseline itself.
struct BestFile {
    std::string problem;
    std::string source;  ///< goes to best/PROBLEM.py
    std::string diff;    ///< unified, from the baseline; goes to best/PROBLEM.diff
};

/// Winners of all problems that have one. Baseline sources are those journalled with the rounds;
/// `baselines` (problem -> source) fills in for problems without.
std::vector<BestFile> best_files(const store::RunData& run,
                                 const std::map<std::string, std::string>& baselines = {});

}  // namespace accelopt::report
