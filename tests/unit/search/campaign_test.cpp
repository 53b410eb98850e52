#include "search/campaign.h"

#include <catch2/catch.hpp>

#include "core/error.h"
#include "core/hash.h"
#include "core/rng.h"

using namespace accelopt;
using namespace accelopt::protocol;
using namespace accelopt::search;

namespace {

EvaluationReply verified_reply(double latency) {
    EvaluationReply reply;
    reply.outcome = Outcome::kOk;
    reply.tier = "values";
    reply.profile.emplace();
    reply.profile->latency = latency;
    return reply;
}

/// A made-up world: a kernel is a number in text, its latency follows from the number.
UnitResult run_unit(const Unit& unit) {
    UnitResult result;
    result.unit_id = unit.id;
    result.problem = unit.problem;
    result.kind = unit.kind;
    result.round = unit.round;
    result.order = unit.order;
    switch (unit.kind) {
        case UnitKind::kBaseline:
            result.baseline = verified_reply(100);
            break;
        case UnitKind::kRewrite:
            for (int k = 0; k < unit.samples; ++k) {
                auto stream = RandomStream::keyed(9, unit.id + "/" + std::to_string(k));
                Sample s;
                s.index = k;
                const auto kind = stream.below(6);
                if (kind == 0) {
                    s.status = SampleStatus::kExtractionFailed;
                } else {
                    const auto value = stream.below(40);
                    s.status = SampleStatus::kEvaluated;
                    s.source = "kernel " + std::to_string(value);
                    s.source_hash = sha256_hex(s.source);
                    s.evaluation = verified_reply(60.0 + 2.0 * static_cast<double>(value));
                    if (kind == 1) {
                        s.source += " wrong";
                        s.source_hash = sha256_hex(s.source);
                        s.evaluation->outcome = Outcome::kIncorrect;
                    }
                }
                result.samples.push_back(s);
            }
            break;
        case UnitKind::kSummarize:
            result.experience = unit.experience;
            result.experience.title = "lesson " + unit.experience.id;
            break;
    }
    return result;
}

std::string run_campaign(const CampaignOptions& options, std::uint64_t shuffle_seed) {
    Campaign campaign(options, {{"p", "kernel base", "base"}, {"q", "kernel other", "other"}});
    std::vector<Unit> open;
    auto stream = RandomStream::keyed(shuffle_seed, "order");
    std::string log;
    while (!campaign.finished()) {
        for (auto& unit : campaign.take_ready()) open.push_back(unit);
        REQUIRE(!open.empty());
        const auto pick = stream.below(open.size());
        const Unit unit = open[pick];
        open.erase(open.begin() + static_cast<std::ptrdiff_t>(pick));
        auto result = run_unit(unit);
        campaign.complete(result);
        campaign.complete(result);  // a late copy changes nothing
    }
    std::vector<std::string> rounds;
    for (const auto& r : campaign.take_finished_rounds()) {
        std::string text = r.problem + std::to_string(r.round) + ":";
        for (const auto& c : r.selected) text += c.id + ",";
        for (const auto& e : r.memory) text += e.id + ";";
        for (const auto& u : r.rewrites) {
            for (const auto& s : u.samples)
                text += std::string(to_string(s.status)) + s.duplicate_of;
        }
        rounds.push_back(text);
    }
    std::sort(rounds.begin(), rounds.end());
    for (const auto& text : rounds) log += text + "\n";
    for (const auto& p : campaign.problems()) {
        log += p.id + " best " + p.best.id + " " + std::to_string(p.best.latency_ms) + " eval " +
               std::to_string(p.logical_evaluations) + " dup " + std::to_string(p.duplicates) +
               "\n";
    }
    return log;
}

CampaignOptions small() {
    CampaignOptions options;
    options.beam = 3;
    options.plans = 4;
    options.samples = 2;
    options.rounds = 4;
    options.top_k = 4;
    options.capacity = 6;
    return options;
}

}  // namespace

TEST_CASE("a campaign's outcome does not depend on the order of results [N07]", "[N07]") {
    for (const char* scope : {"problem", "campaign"}) {
        for (const char* variant : {"repository", "paper"}) {
            auto options = small();
            options.memory_scope = scope;
            options.variant = variant;
            const std::string first = run_campaign(options, 1);
            CHECK(first.find("best") != std::string::npos);
            for (std::uint64_t seed = 2; seed < 12; ++seed) {
                CHECK(run_campaign(options, seed) == first);
            }
        }
    }
}

TEST_CASE("round 0 plans on the baseline alone; later rounds on the whole beam") {
    auto options = small();
    Campaign campaign(options, {{"p", "kernel base", "base"}});
    auto units = campaign.take_ready();
    REQUIRE(units.size() == 1);
    CHECK(units[0].kind == UnitKind::kBaseline);
    campaign.complete(run_unit(units[0]));
    units = campaign.take_ready();
    CHECK(units.size() == 4);
    for (const auto& unit : units) {
        CHECK(unit.kind == UnitKind::kRewrite);
        CHECK(unit.experiences.empty());
        campaign.complete(run_unit(unit));
    }
    units = campaign.take_ready();
    while (!units.empty() && units[0].kind == UnitKind::kSummarize) {
        for (const auto& unit : units) campaign.complete(run_unit(unit));
        units = campaign.take_ready();
    }
    const auto rounds = campaign.take_finished_rounds();
    REQUIRE(rounds.size() == 1);
    CHECK(units.size() == rounds[0].selected.size() * 4);
    CHECK(units[0].experiences.size() == rounds[0].memory.size());
}

TEST_CASE("a broken baseline stops the campaign before any model is asked [N09]", "[N09]") {
    Campaign campaign(small(), {{"p", "kernel base", "base"}, {"q", "kernel other", "other"}});
    auto units = campaign.take_ready();
    auto bad = run_unit(units[1]);
    bad.baseline->outcome = Outcome::kRejected;
    bad.baseline->reason = "psum_capacity";
    campaign.complete(bad);
    CHECK(!campaign.finished());
    campaign.complete(run_unit(units[0]));
    CHECK(campaign.finished());
    CHECK(campaign.take_ready().empty());
    CHECK(campaign.problems()[1].failed);
    CHECK(campaign.problems()[1].failure == "baseline: rejected/psum_capacity");
}

TEST_CASE("an infrastructure failure is counted, a wrong kernel is not") {
    auto options = small();
    options.rounds = 1;
    Campaign campaign(options, {{"p", "kernel base", "base"}});
    campaign.complete(run_unit(campaign.take_ready()[0]));
    bool first = true;
    for (const auto& unit : campaign.take_ready()) {
        auto result = run_unit(unit);
        if (first) {
            result.samples.clear();
            result.plan_outcome = LlmOutcome::kServerError;
            first = false;
        }
        campaign.complete(result);
    }
    CHECK(campaign.finished());
    CHECK(campaign.problems()[0].failures == 1);
}

TEST_CASE("an unknown strategy is refused") {
    auto options = small();
    options.strategy = "annealing";
    CHECK_THROWS_AS(Campaign(options, {}), Error);
}
