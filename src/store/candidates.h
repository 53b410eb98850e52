#pragma once

#include <optional>
#include <string>
#include <vector>

#include "store/archive.h"

namespace accelopt::store {

/// One kernel of a run, or one attempt at a kernel, with its place in the search. The pointers
/// look into the RunData that the row was made from.
struct CandidateRow {
    std::string id;
    std::string problem;
    std::string parent_id;  ///< "" = baseline
    int round = -1;         ///< -1 = baseline
    int plan = -1;          ///< -1 = baseline
    int sample = -1;        ///< -1 = baseline
    std::string source;
    std::string source_hash;
    const protocol::UnitResult* unit = nullptr;
    const protocol::Sample* made_by = nullptr;  ///< null for the baseline
    const protocol::EvaluationReply* evaluation = nullptr;
    /// As the search counts it: evaluated samples that repeat an earlier kernel are duplicates.
    protocol::SampleStatus status = protocol::SampleStatus::kLlmFailed;
    bool selected = false;  ///< entered a beam

    bool is_baseline() const { return made_by == nullptr; }
    /// True when this kernel counts as an evaluation of its own and is right on every seed.
    bool verified() const;
    /// Predicted latency in ms; nullopt when the timing tier was not reached.
    std::optional<double> latency_ms() const;
};

/// Every kernel of a run in (problem, round, order, sample) order, each baseline first. Finished
/// rounds are taken as the coordinator journalled them; of an unfinished round the results so far
/// count.
std::vector<CandidateRow> candidate_rows(const RunData& run);

/// The fastest verified kernel of `problem`, the earliest among equals, or null.
const CandidateRow* best_candidate(const std::vector<CandidateRow>& rows,
                                   const std::string& problem);

/// Problems in order of first appearance (alphabetical, as load_run sorts).
std::vector<std::string> problems_of(const RunData& run);

}  // namespace accelopt::store
