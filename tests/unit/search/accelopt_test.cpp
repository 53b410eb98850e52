#include "search/accelopt.h"

#include <catch2/catch.hpp>

using namespace accelopt;
using namespace accelopt::protocol;
using namespace accelopt::search;

namespace {

Candidate parent(const std::string& id, double latency) {
    Candidate c;
    c.id = id;
    c.problem = "p";
    c.source = "source of " + id;
    c.source_hash = "hash of " + id;
    c.latency_ms = latency;
    return c;
}

Sample verified_sample(int index, const std::string& hash, double latency, double parent_latency) {
    Sample s;
    s.index = index;
    s.status = SampleStatus::kEvaluated;
    s.source = "source of " + hash;
    s.source_hash = hash;
    s.evaluation.emplace();
    s.evaluation->outcome = Outcome::kOk;
    s.evaluation->tier = "values";
    s.evaluation->profile.emplace();
    s.evaluation->profile->latency = latency;
    s.speedup = parent_latency / latency;
    return s;
}

Sample wrong_sample(int index) {
    Sample s;
    s.index = index;
    s.status = SampleStatus::kEvaluated;
    s.source_hash = "wrong";
    s.evaluation.emplace();
    s.evaluation->outcome = Outcome::kIncorrect;
    return s;
}

Sample prose_sample(int index) {
    Sample s;
    s.index = index;
    s.status = SampleStatus::kExtractionFailed;
    return s;
}

void add(RoundOutcome& round, const Candidate& candidate, int plan, std::vector<Sample> samples) {
    Unit unit;
    unit.id = candidate.id + "/" + std::to_string(plan);
    unit.kind = UnitKind::kRewrite;
    unit.problem = "p";
    unit.candidate = candidate;
    unit.plan = plan;
    UnitResult result;
    result.unit_id = unit.id;
    result.samples = std::move(samples);
    round.units.push_back(unit);
    round.results.push_back(result);
}

std::vector<double> latencies(const std::vector<Candidate>& candidates) {
    std::vector<double> out;
    for (const auto& c : candidates) out.push_back(c.latency_ms);
    return out;
}

}  // namespace

TEST_CASE("repository selection keeps one representative per plan, slower ones included") {
    const Candidate a = parent("a", 10);
    RoundOutcome round;
    add(round, a, 0, {verified_sample(0, "k0", 12, 10), verified_sample(1, "k1", 11, 10)});
    add(round, a, 1, {verified_sample(0, "k2", 13, 10)});
    add(round, a, 2, {prose_sample(0)});
    CampaignOptions options;
    options.beam = 6;
    // The incumbent is gone: no group failed entirely.
    CHECK(latencies(select_candidates(options, {a}, round)) == std::vector<double>{11, 13});
    // With a wrong-only group the parent stands in.
    add(round, a, 3, {wrong_sample(0)});
    CHECK(latencies(select_candidates(options, {a}, round)) == std::vector<double>{10, 11, 13});
    options.beam = 2;
    CHECK(latencies(select_candidates(options, {a}, round)) == std::vector<double>{10, 11});
}

TEST_CASE("elitist selection adds the beam to the repository pool") {
    const Candidate a = parent("a", 10);
    RoundOutcome round;
    add(round, a, 0, {verified_sample(0, "k0", 12, 10)});
    CampaignOptions options;
    options.elitist = true;
    CHECK(latencies(select_candidates(options, {a}, round)) == std::vector<double>{10, 12});
}

TEST_CASE("paper selection ranks every verified sample with the previous beam") {
    const Candidate a = parent("a", 10);
    RoundOutcome round;
    add(round, a, 0, {verified_sample(0, "k0", 8, 10), verified_sample(1, "k1", 9, 10)});
    CampaignOptions options;
    options.variant = "paper";
    CHECK(latencies(select_candidates(options, {a}, round)) == std::vector<double>{8, 9, 10});
}

TEST_CASE("one kernel holds at most one place in a beam") {
    const Candidate a = parent("a", 10);
    RoundOutcome round;
    add(round, a, 0, {verified_sample(0, "same", 8, 10)});
    Sample copy = verified_sample(0, "same", 8, 10);
    copy.status = SampleStatus::kDuplicate;
    add(round, a, 1, {copy});
    CampaignOptions options;
    CHECK(latencies(select_candidates(options, {a}, round)) == std::vector<double>{8});
}

TEST_CASE("a round without any implementation keeps the beam") {
    const Candidate a = parent("a", 10);
    RoundOutcome round;
    add(round, a, 0, {prose_sample(0)});
    CHECK(latencies(select_candidates({}, {a}, round)) == std::vector<double>{10});
}

TEST_CASE("pairs: positives above the threshold first, negatives fill up") {
    const Candidate a = parent("a", 100);
    RoundOutcome round;
    add(round, a, 0, {verified_sample(0, "f1", 80, 100)});    // 1.25
    add(round, a, 1, {verified_sample(0, "f2", 50, 100)});    // 2.0
    add(round, a, 2, {verified_sample(0, "f3", 96.5, 100)});  // 1.036: below 1.04
    add(round, a, 3, {verified_sample(0, "s1", 120, 100)});   // 0.833 < 1/1.15
    add(round, a, 4, {verified_sample(0, "s2", 114, 100)});   // 0.877 > 0.8696
    add(round, a, 5, {verified_sample(0, "e", 100, 100)});    // exactly 1
    CampaignOptions options;
    options.top_k = 8;
    const auto pairs = select_pairs(options, 0, round);
    REQUIRE(pairs.size() == 3);
    CHECK(pairs[0].speedup == Approx(2.0));
    CHECK(pairs[1].speedup == Approx(1.25));
    CHECK((pairs[2].speedup == Approx(1.2) && !pairs[2].positive));
    CHECK(pairs[2].slow_source == "source of s1");
    CHECK(pairs[2].fast_source == "source of a");
    options.top_k = 2;  // one positive at most, one negative
    const auto few = select_pairs(options, 0, round);
    REQUIRE(few.size() == 2);
    CHECK(few[0].positive);
    CHECK(!few[1].positive);
}

TEST_CASE("negative pairs: the repository tests the slowest sample, the paper the fastest") {
    const Candidate a = parent("a", 100);
    RoundOutcome round;
    add(round, a, 0, {verified_sample(0, "s1", 105, 100), verified_sample(1, "s2", 200, 100)});
    CampaignOptions options;
    CHECK(select_pairs(options, 0, round).size() == 1);
    options.variant = "paper";
    CHECK(select_pairs(options, 0, round).empty());
}

TEST_CASE(
    "kernels that the model cannot tell apart are ordered by how sure they are, if asked for") {
    const Candidate a = parent("a", 10);
    const auto sample = [](const std::string& hash, double latency, double uncertainty) {
        Sample s = verified_sample(0, hash, latency, 10);
        s.evaluation->profile->latency_uncertainty = uncertainty;
        return s;
    };
    RoundOutcome round;
    add(round, a, 0, {sample("unsure", 8.0, 0.15)});
    add(round, a, 1, {sample("sure", 8.9, 0.05)});  // within 15 % of 8.0
    add(round, a, 2, {sample("slow", 9.3, 0.05)});  // beyond it
    add(round, a, 3, {sample("middle", 8.5, 0.1)});
    CampaignOptions options;
    options.beam = 3;
    CHECK(latencies(select_candidates(options, {a}, round)) == std::vector<double>{8.0, 8.5, 8.9});
    options.tie = "uncertainty";
    CHECK(latencies(select_candidates(options, {a}, round)) == std::vector<double>{8.9, 8.5, 8.0});
    options.beam = 4;
    CHECK(latencies(select_candidates(options, {a}, round)) ==
          std::vector<double>{8.9, 8.5, 8.0, 9.3});
}

TEST_CASE("pairs within the uncertainty of the model teach nothing, if asked for") {
    Candidate a = parent("a", 100);
    a.profile.emplace();
    a.profile->latency_uncertainty = 0.25;
    RoundOutcome round;
    add(round, a, 0, {verified_sample(0, "f1", 81, 100)});   // 1.235: within 25 %
    add(round, a, 1, {verified_sample(0, "f2", 79, 100)});   // 1.266: beyond
    add(round, a, 2, {verified_sample(0, "s1", 124, 100)});  // slower by less than 25 %
    add(round, a, 3, {verified_sample(0, "s2", 126, 100)});
    CampaignOptions options;
    CHECK(select_pairs(options, 0, round).size() == 4);
    options.tie = "uncertainty";
    const auto pairs = select_pairs(options, 0, round);
    REQUIRE(pairs.size() == 2);
    CHECK(pairs[0].fast_source == "source of f2");
    CHECK(pairs[1].slow_source == "source of s2");
}

TEST_CASE("memory: new items first, old ones sampled, capacity kept, empty lessons dropped") {
    const auto item = [](const std::string& id) {
        Experience e;
        e.id = id;
        e.title = "title " + id;
        return e;
    };
    CampaignOptions options;
    options.capacity = 4;
    std::vector<Experience> old = {item("o1"), item("o2"), item("o3"), item("o4")};
    Experience untitled;
    untitled.id = "nothing";
    const auto stream = RandomStream::keyed(1, "m");
    const auto merged = update_memory(options, old, {item("n1"), untitled}, stream);
    REQUIRE(merged.size() == 4);
    CHECK(merged[0].id == "n1");
    CHECK(merged[1].id[0] == 'o');
    options.variant = "paper";
    const auto queue = update_memory(options, old, {item("n1")}, stream);
    REQUIRE(queue.size() == 4);
    CHECK(queue[0].id == "o2");
    CHECK(queue[3].id == "n1");
}
