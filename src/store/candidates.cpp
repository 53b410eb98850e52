#include "store/candidates.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

namespace accelopt::store {
namespace {

using protocol::Candidate;
using protocol::Sample;
using protocol::SampleStatus;
using protocol::UnitKind;
using protocol::UnitResult;

using RoundKey = std::pair<std::string, int>;

std::string id_of_sample(const UnitResult& unit, int index) {
    protocol::Unit identity;
    identity.id = unit.unit_id;
    return Sample::candidate_id(identity, index);
}

/// What the rounds say about candidates, indexed for look-up.
class Lineage {
  public:
    explicit Lineage(const RunData& run) {
        for (const auto& round : run.rounds) {
            for (const auto& candidate : round.selected) {
                selected_.emplace(candidate.id, &candidate);
                if (candidate.round < 0) baselines_.emplace(round.problem, &candidate);
            }
            if (round.baseline) baselines_.emplace(round.problem, &*round.baseline);
        }
        for (const auto& unit : run.units) {
            if (unit.kind == UnitKind::kBaseline) baseline_units_[unit.problem] = &unit;
        }
    }

    const Candidate* selected(const std::string& id) const {
        const auto found = selected_.find(id);
        return found == selected_.end() ? nullptr : found->second;
    }

    const Candidate* baseline(const std::string& problem) const {
        const auto found = baselines_.find(problem);
        return found == baselines_.end() ? nullptr : found->second;
    }

    const UnitResult* baseline_unit(const std::string& problem) const {
        const auto found = baseline_units_.find(problem);
        return found == baseline_units_.end() ? nullptr : found->second;
    }

    /// A baseline goes by the name of the unit that evaluated it.
    std::string baseline_id(const std::string& problem) const {
        if (const Candidate* known = baseline(problem)) return known->id;
        const UnitResult* unit = baseline_unit(problem);
        return unit == nullptr ? "" : unit->unit_id;
    }

  private:
    std::unordered_map<std::string, const Candidate*> selected_;
    std::map<std::string, const Candidate*> baselines_;
    std::map<std::string, const UnitResult*> baseline_units_;
};

std::map<RoundKey, std::vector<const UnitResult*>> rewrites_by_round(const RunData& run) {
    std::map<RoundKey, std::vector<const UnitResult*>> units;
    for (const auto& unit : run.units) {
        if (unit.kind == UnitKind::kRewrite) units[{unit.problem, unit.round}].push_back(&unit);
    }
    for (const auto& round : run.rounds) {
        auto& list = units[{round.problem, round.round}];
        list.clear();  // the coordinator's copy has the duplicates marked
        for (const auto& unit : round.rewrites) list.push_back(&unit);
    }
    return units;
}

CandidateRow baseline_row(const std::string& problem, const Lineage& lineage) {
    const UnitResult* unit = lineage.baseline_unit(problem);
    CandidateRow row;
    row.id = lineage.baseline_id(problem);
    row.problem = problem;
    row.unit = unit;
    if (unit != nullptr && unit->baseline) row.evaluation = &*unit->baseline;
    row.status = row.evaluation ? SampleStatus::kEvaluated : SampleStatus::kLlmFailed;
    if (const Candidate* known = lineage.baseline(problem)) {
        row.source = known->source;
        row.source_hash = known->source_hash;
    }
    row.selected = lineage.selected(row.id) != nullptr;
    return row;
}

void add_samples(std::vector<CandidateRow>& rows, const UnitResult& unit, const Lineage& lineage,
                 std::set<std::string>& seen_hashes) {
    for (const auto& sample : unit.samples) {
        CandidateRow row;
        row.id = id_of_sample(unit, sample.index);
        row.problem = unit.problem;
        row.parent_id = unit.parent_id;
        row.round = unit.round;
        row.plan = unit.plan;
        row.sample = sample.index;
        row.source = sample.source;
        row.source_hash = sample.source_hash;
        row.unit = &unit;
        row.made_by = &sample;
        if (sample.evaluation) row.evaluation = &*sample.evaluation;
        row.status = sample.status;
        if (row.status == SampleStatus::kEvaluated && !sample.source_hash.empty() &&
            !seen_hashes.insert(sample.source_hash).second) {
            row.status = SampleStatus::kDuplicate;  // a round that never ended has none marked
        }
        row.selected = lineage.selected(row.id) != nullptr;
        rows.push_back(std::move(row));
    }
}

}  // namespace

bool CandidateRow::verified() const {
    return status == protocol::SampleStatus::kEvaluated && evaluation != nullptr &&
           evaluation->verified();
}

std::optional<double> CandidateRow::latency_ms() const {
    if (evaluation == nullptr || !evaluation->profile) return std::nullopt;
    return evaluation->profile->latency;
}

std::vector<std::string> problems_of(const RunData& run) {
    std::vector<std::string> problems;
    const auto add = [&](const std::string& problem) {
        if (std::find(problems.begin(), problems.end(), problem) == problems.end()) {
            problems.push_back(problem);
        }
    };
    for (const auto& unit : run.units) add(unit.problem);
    for (const auto& round : run.rounds) add(round.problem);
    return problems;
}

std::vector<CandidateRow> candidate_rows(const RunData& run) {
    const Lineage lineage(run);
    const auto rewrites = rewrites_by_round(run);
    std::vector<CandidateRow> rows;
    for (const auto& problem : problems_of(run)) {
        std::set<std::string> seen_hashes;
        if (lineage.baseline_unit(problem) != nullptr || lineage.baseline(problem) != nullptr) {
            rows.push_back(baseline_row(problem, lineage));
            if (!rows.back().source_hash.empty()) seen_hashes.insert(rows.back().source_hash);
        }
        for (auto at = rewrites.lower_bound({problem, -1});
             at != rewrites.end() && at->first.first == problem; ++at) {
            for (const UnitResult* unit : at->second) {
                add_samples(rows, *unit, lineage, seen_hashes);
            }
        }
    }
    return rows;
}

const CandidateRow* best_candidate(const std::vector<CandidateRow>& rows,
                                   const std::string& problem) {
    const CandidateRow* best = nullptr;
    for (const auto& row : rows) {
        if (row.problem != problem || !row.verified() || !row.latency_ms()) continue;
        if (best == nullptr || *row.latency_ms() < *best->latency_ms()) best = &row;
    }
    return best;
}

}  // namespace accelopt::store
