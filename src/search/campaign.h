#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "protocol/unit.h"

namespace accelopt::search {

struct CampaignOptions {
    std::string strategy = "accelopt";
    std::string variant = "repository";  ///< or "paper" (papers.md section 1 lists the differences)
    int beam = 6;
    int plans = 12;
    int samples = 2;
    int rounds = 16;
    bool elitist = false;
    /// "none": any lower latency is faster, as in the published programs. "uncertainty": latencies
    /// within the uncertainty of their predictions are equal.
    std::string tie = "none";
    std::string memory_scope = "problem";  ///< or "campaign"
    int top_k = 8;
    int capacity = 16;
    double positive_threshold = 1.04;
    double negative_threshold = 1.15;
    std::uint64_t seed = 1;
};

struct ProblemStart {
    std::string id;
    std::string baseline_source;
    std::string baseline_hash;  ///< normalised-AST hash
};

/// What happened at the end of one round of one problem; journalled and archived.
struct RoundRecord {
    std::string problem;
    int round = 0;
    std::vector<protocol::Candidate> selected;   ///< the beam of the next round
    std::vector<protocol::Experience> memory;    ///< as handed to the next round's planners
    std::vector<protocol::UnitResult> rewrites;  ///< in unit order, duplicates marked
};

/// The state of one problem, for progress, tables and best/.
struct ProblemState {
    std::string id;
    bool finished = false;
    bool failed = false;  ///< baseline broken: no search
    std::string failure;
    int round = 0;  ///< round in progress
    protocol::Candidate baseline;
    protocol::Candidate best;     ///< fastest verified kernel so far, baseline included
    int logical_evaluations = 0;  ///< one per distinct kernel and problem
    int samples = 0;
    int duplicates = 0;
    int failures = 0;  ///< units that failed for reasons of infrastructure
};

/// The search as pure logic: hands out units, takes results in any order, decides in unit order at
/// the barrier of each step. Same options, problems and results give the same units, whatever the
/// order or timing of `complete`.
class Campaign {
  public:
    Campaign(CampaignOptions options, std::vector<ProblemStart> problems);
    ~Campaign();

    /// Units that have become ready since the last call, in order.
    std::vector<protocol::Unit> take_ready();
    /// Takes a unit's result; a second result of one unit is ignored.
    void complete(protocol::UnitResult result);
    bool finished() const;
    const std::vector<ProblemState>& problems() const;
    /// Rounds that have ended since the last call.
    std::vector<RoundRecord> take_finished_rounds();

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace accelopt::search
