#include "store/candidates.h"

#include <catch2/catch.hpp>

#include "unit/store/sample_run.h"

using namespace accelopt::store;
using accelopt::protocol::SampleStatus;
using accelopt::store::testing::sample_run;

namespace {

const CandidateRow& find(const std::vector<CandidateRow>& rows, const std::string& unit,
                         int sample) {
    for (const auto& row : rows) {
        if (row.unit && row.unit->unit_id == unit && row.sample == sample) return row;
    }
    throw std::runtime_error("no such row");
}

}  // namespace

TEST_CASE("Each problem's candidates start with its baseline and follow the units") {
    const RunData run = sample_run();
    const auto rows = candidate_rows(run);
    REQUIRE(rows.size() == 1 + 1 + 1 + 8);
    CHECK(rows[0].is_baseline());
    CHECK(rows[0].id == "adamw-base");
    CHECK(rows[0].verified());
    CHECK(rows[2].problem == "silu");
    CHECK(rows[2].is_baseline());
    CHECK(rows[2].source == "def kernel(x):\n    return silu(x)\n");
}

TEST_CASE("Every sample has its unit's parent and plan") {
    const RunData run = sample_run();
    const auto rows = candidate_rows(run);
    const auto& winner = find(rows, "silu-r1-1", 0);
    const auto& parent = find(rows, "silu-r0-0", 0);
    CHECK(winner.parent_id == parent.id);
    CHECK(winner.plan == 1);
    CHECK(winner.selected);
    CHECK(parent.parent_id == "silu-base");
    CHECK(find(rows, "silu-r1-1", 1).parent_id == parent.id);  // sibling of the winner
    const auto& other_plan = find(rows, "silu-r1-0", 0);       // nothing of this unit was selected
    CHECK(other_plan.parent_id == parent.id);
    CHECK(other_plan.plan == 0);
    CHECK_FALSE(other_plan.selected);
    CHECK(find(rows, "adamw-r0-0", 0).parent_id == "adamw-base");
}

TEST_CASE("Marked duplicates keep their mark; those of an unfinished round are found by hash") {
    RunData run = sample_run();
    CHECK(find(candidate_rows(run), "silu-r0-1", 0).status == SampleStatus::kDuplicate);
    run.rounds.clear();
    const auto rows = candidate_rows(run);
    CHECK(find(rows, "silu-r0-0", 0).status == SampleStatus::kEvaluated);
    CHECK(find(rows, "silu-r0-1", 0).status == SampleStatus::kDuplicate);
}

TEST_CASE("The best candidate is the fastest verified one, the earliest among equals") {
    RunData run = sample_run();
    {
        const auto rows = candidate_rows(run);
        const CandidateRow* best = best_candidate(rows, "silu");
        REQUIRE(best != nullptr);
        CHECK(best->latency_ms() == 1.0);
        CHECK(best->unit->unit_id == "silu-r1-1");  // the 0.5 ms kernel is wrong
        CHECK(best_candidate(rows, "adamw")->is_baseline());
        CHECK(best_candidate(rows, "matmul") == nullptr);
    }
    run.rounds[2].rewrites[1].samples[0].evaluation->profile->latency = 1.5;
    const auto rows = candidate_rows(run);
    CHECK(best_candidate(rows, "silu")->unit->unit_id == "silu-r0-0");
}

TEST_CASE("A baseline that no round names goes by its unit") {
    RunData run = sample_run();
    for (auto& round : run.rounds) round.baseline.reset();
    const auto rows = candidate_rows(run);
    CHECK(rows[2].id == "silu-base");
    CHECK(rows[2].source.empty());
    CHECK(find(rows, "silu-r0-1", 1).parent_id == "silu-base");
}

TEST_CASE("A run without any result has no candidates") {
    CHECK(candidate_rows(RunData{}).empty());
    CHECK(problems_of(RunData{}).empty());
}
