#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/evaluation.h"
#include "protocol/usage.h"

namespace accelopt::protocol {

/// One item of the optimisation memory, written by the summarizer from a slow-fast pair.
struct Experience {
    std::string id;  ///< hash of problem, round, pair
    std::string problem;
    int round = 0;  ///< round whose samples made the pair
    std::string title;
    std::string text;      ///< what to do and when, as shown to planners
    double speedup = 1;    ///< of the pair, >= 1
    bool positive = true;  ///< false: the generated kernel was the slow one
    std::string slow_source;
    std::string fast_source;
};

/// A kernel that the search builds on.
struct Candidate {
    std::string id;  ///< hash of problem, round, parent, plan, sample; baseline: of source
    std::string problem;
    std::string parent_id;  ///< "" for the baseline
    int round = -1;         ///< round that made it; -1 = baseline
    int plan = -1;
    int sample = -1;
    std::string source;
    std::string source_hash;  ///< normalised-AST hash
    double latency_ms = 0;
    std::optional<Profile> profile;
};

enum class UnitKind { kBaseline, kRewrite, kSummarize };

std::string_view to_string(UnitKind kind);
std::optional<UnitKind> parse_unit_kind(std::string_view text);

/// A unit of work that a worker pulls. The id is a hash of what determines its result.
struct Unit {
    std::string id;
    std::string problem;
    UnitKind kind = UnitKind::kBaseline;
    int round = 0;
    int order = 0;  ///< position within its step: the merge order
    // kRewrite: one planner call on `candidate`, then `samples` executor calls.
    Candidate candidate;
    int plan = 0;
    int samples = 0;
    std::vector<Experience> experiences;
    // kSummarize: the pair; `experience` holds all but title and text.
    Experience experience;
};

/// One call to the fixer for a sample whose kernel the checks turned down.
struct Repair {
    std::string source;   ///< the kernel that was turned down
    std::string verdict;  ///< on it: "rejected/psum_capacity"
    LlmOutcome llm_outcome = LlmOutcome::kOk;
    std::string reply;  ///< raw text of the fixer
};

/// One executor sample of a rewrite unit.
struct Sample {
    int index = 0;
    SampleStatus status = SampleStatus::kLlmFailed;
    LlmOutcome llm_outcome = LlmOutcome::kOk;
    std::string reply;         ///< raw text of the executor
    std::string source;        ///< extracted kernel, "" when none
    std::string source_hash;   ///< normalised-AST hash, "" when it does not parse
    std::string duplicate_of;  ///< candidate id, set by the coordinator
    std::optional<EvaluationReply> evaluation;
    bool shared_evaluation = false;  ///< evaluated physically by another sample
    std::optional<double> speedup;   ///< over the parent candidate, when verified
    std::vector<Repair> repairs;     ///< in order; `source` is the last kernel that came of them

    /// Identity of the kernel this sample made.
    static std::string candidate_id(const Unit& unit, int index);
};

/// What a worker reports for a unit.
struct UnitResult {
    std::string unit_id;
    std::string problem;
    UnitKind kind = UnitKind::kBaseline;
    int round = 0;
    int order = 0;
    std::string parent_id;  ///< kRewrite: the candidate it builds on
    int plan = -1;          ///< kRewrite
    std::int64_t lease = 0;
    std::string plan_text;                      ///< kRewrite
    LlmOutcome plan_outcome = LlmOutcome::kOk;  ///< kRewrite, kSummarize
    std::vector<Sample> samples;                ///< kRewrite
    std::optional<EvaluationReply> baseline;    ///< kBaseline
    Experience experience;                      ///< kSummarize; title "" = nothing learnt
    std::vector<LedgerRow> ledger;
    int physical_evaluations = 0;
    std::string failure;  ///< infrastructure failure, "" = none
};

std::string to_json(const Unit& unit);
Unit parse_unit(std::string_view json);
std::string to_json(const UnitResult& result);
UnitResult parse_unit_result(std::string_view json);
std::string to_json(const Experience& experience);
Experience parse_experience(std::string_view json);
std::string to_json(const Candidate& candidate);
Candidate parse_candidate(std::string_view json);

}  // namespace accelopt::protocol
