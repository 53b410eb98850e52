#pragma once

#include <string>
#include <vector>

#include "core/rng.h"
#include "protocol/unit.h"
#include "search/campaign.h"

namespace accelopt::search {

/// What one round of one problem produced: the units handed out and their results, in unit order.
struct RoundOutcome {
    std::vector<protocol::Unit> units;
    std::vector<protocol::UnitResult> results;  ///< same order as `units`
};

/// Chooses the next beam (papers.md section 1, "Candidate selection").
/// repository: one representative per (parent, plan) group, the fastest verified sample, or the
/// parent as a stand-in when none verified; groups without any implementation are left out; the
/// fastest `beam` representatives are kept, slower than their parent or not.
/// paper: the fastest `beam` of all verified samples and the current beam.
/// `elitist` adds the current beam to the repository pool. In every variant one kernel (by
/// normalised hash) holds at most one place: published runs could hold copies. An empty pool keeps
/// the current beam. With `tie: uncertainty` kernels whose latencies the model cannot tell apart
/// are ordered by how sure their predictions are.
std::vector<protocol::Candidate> select_candidates(const CampaignOptions& options,
                                                   const std::vector<protocol::Candidate>& beam,
                                                   const RoundOutcome& round);

/// Chooses slow-fast pairs (papers.md section 1, "Slow-fast pairs"): at most top_k items without
/// title and text, positives (fastest first, at most top_k/2) before negatives (slowest first).
/// A pair of kernels appears once. With `tie: uncertainty` a pair must also differ by more than the
/// uncertainty of its predictions.
std::vector<protocol::Experience> select_pairs(const CampaignOptions& options, int round,
                                               const RoundOutcome& outcome);

/// Merges a round's items into the memory (papers.md section 1, "Memory update"). repository: new
/// items, then a random sample of the old ones; paper: a queue that drops the oldest. Items
/// without a title taught nothing and are dropped.
std::vector<protocol::Experience> update_memory(const CampaignOptions& options,
                                                const std::vector<protocol::Experience>& memory,
                                                std::vector<protocol::Experience> items,
                                                RandomStream stream);

/// The candidate that a verified sample makes.
protocol::Candidate candidate_of(const protocol::Unit& unit, const protocol::Sample& sample);

/// True when the sample has a verified evaluation, its own or that of the kernel it duplicates.
bool verified(const protocol::Sample& sample);

}  // namespace accelopt::search
