#include "agents/agents.h"

#include <catch2/catch.hpp>
#include <set>

#include "agents/profile_analysis.h"
#include "agents/profile_lines.h"
#include "core/error.h"
#include "nki/interpreter.h"

using namespace accelopt;
using namespace accelopt::agents;
using protocol::Role;

namespace {

Agents make_agents(std::uint64_t seed = 1) {
    return Agents(Prompts(std::string(ACCELOPT_SOURCE_DIR) + "/configs/prompts"),
                  {{"planner", "p"}, {"executor", "e"}, {"fixer", "f"}, {"summarizer", "s"}}, seed);
}

ProblemFacts make_problem() {
    ProblemFacts problem;
    problem.id = "silu";
    problem.title = "SiLU of a layer";
    problem.reference_source = "def forward(x):\n    return REFERENCE_BODY(x)\n";
    problem.input_shapes = {{128, 32, 7168}, {7168}};
    return problem;
}

protocol::Unit make_unit() {
    protocol::Unit unit;
    unit.id = "unit-7";
    unit.problem = "silu";
    unit.kind = protocol::UnitKind::kRewrite;
    unit.round = 2;
    unit.plan = 3;
    unit.samples = 2;
    unit.candidate.id = "cand-5";
    unit.candidate.source = "def kernel(x):\n    return CANDIDATE_BODY(x)  # {{plan}}\n";
    protocol::Profile profile;
    profile.latency = 1.333;
    profile.hbm_read_bytes = 117440512;
    profile.dma_active_time_percent = 0.99;
    profile.bound = "DMA";
    unit.candidate.profile = profile;
    protocol::Experience gain;
    gain.title = "Hoist the load";
    gain.text = "Load once before the loop.";
    gain.speedup = 1.25;
    protocol::Experience untitled;
    untitled.text = "UNTITLED";
    protocol::Experience loss;
    loss.title = "Keep tiles wide";
    loss.text = "Narrow tiles cost instructions.";
    loss.speedup = 1.5;
    loss.positive = false;
    unit.experiences = {gain, untitled, loss};
    return unit;
}

std::string all_text(const llm::Request& request) {
    std::string text;
    for (const auto& message : request.messages) text += message.text + "\n";
    return text;
}

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("prompts list the functions of the table with their parameters, in few bytes") {
    const Agents agents = make_agents();
    const std::string list = nki::api_list();
    CHECK(list.size() > 4'000);
    CHECK(list.size() < 12'000);
    for (const auto& request :
         {agents.planner(make_unit(), make_problem()),
          agents.executor(make_unit(), make_problem(), "the plan", 0),
          agents.fixer(make_unit(), make_problem(), "source", "diagnostics", 0, 1)}) {
        CHECK(contains(all_text(request), list));
        CHECK(contains(all_text(request), "nisa.nc_matmul(stationary, moving, *, "));
    }
}

TEST_CASE("a planner is told the rules, the problem, the kernel, its profile and the memory") {
    const auto request = make_agents().planner(make_unit(), make_problem());
    CHECK(request.unit_id == "unit-7");
    CHECK(request.role == Role::kPlanner);
    CHECK(request.sample == 0);
    CHECK(request.model == "p");
    REQUIRE(request.messages.size() == 2);
    CHECK(request.messages[0].speaker == "system");
    CHECK(request.messages[1].speaker == "user");
    const std::string text = all_text(request);
    for (const char* part :
         {"par_dim", "silu: SiLU of a layer", "(128, 32, 7168), (7168)", "REFERENCE_BODY",
          "CANDIDATE_BODY", "latency: 1.333\n", "hbm_read_bytes: 117440512", "bound: DMA",
          "Hoist the load (1.25x; a rewrite that made a kernel faster)",
          "Load once before the loop.",
          "2. Keep tiles wide (1.50x; a rewrite that made a kernel slower"}) {
        CAPTURE(part);
        CHECK(contains(text + "\n", part));
    }
    CHECK_FALSE(contains(text, "UNTITLED"));
    CHECK_FALSE(contains(text, "psum_read_bytes: "));
    // What looks like a placeholder in a kernel is left alone.
    CHECK(contains(text, "# {{plan}}"));
}

TEST_CASE("a planner names every supported function") {
    const auto text = all_text(make_agents().planner(make_unit(), make_problem()));
    for (const std::string& name : nki::api_entries()) {
        INFO(name);
        CHECK((contains(text, " " + name + "(") || contains(text, " " + name + ",")));
    }
}

TEST_CASE("an executor is told the plan and the kernel, and its samples differ in nothing else") {
    const auto agents = make_agents();
    const auto first = agents.executor(make_unit(), make_problem(), "Fuse THE_PLAN.", 0);
    const auto second = agents.executor(make_unit(), make_problem(), "Fuse THE_PLAN.", 1);
    CHECK(first.role == Role::kExecutor);
    CHECK(first.model == "e");
    CHECK(second.sample == 1);
    CHECK(contains(all_text(first), "THE_PLAN"));
    CHECK(contains(all_text(first), "CANDIDATE_BODY"));
    CHECK(first.sha256() == second.sha256());
    CHECK(first.context.seed != second.context.seed);
}

TEST_CASE("a summarizer is shown the slow and the fast kernel") {
    protocol::Unit unit = make_unit();
    unit.kind = protocol::UnitKind::kSummarize;
    unit.experience.slow_source = "SLOW_KERNEL";
    unit.experience.fast_source = "FAST_KERNEL ```";
    unit.experience.speedup = 1.2345;
    const auto request = make_agents().summarizer(unit, make_problem());
    CHECK(request.role == Role::kSummarizer);
    CHECK(request.model == "s");
    const std::string text = all_text(request);
    CHECK(text.find("SLOW_KERNEL") < text.find("FAST_KERNEL"));
    CHECK(contains(text, "1.234"));
    CHECK(contains(text, "````python\nFAST_KERNEL ```\n````"));
}

TEST_CASE("the structured context travels beside the messages") {
    const auto agents = make_agents();
    const auto planner = agents.planner(make_unit(), make_problem());
    CHECK(planner.context.source == make_unit().candidate.source);
    CHECK(planner.context.profile->latency.value() == 1.333);
    CHECK(planner.context.experiences.size() == 3);
    CHECK(planner.context.input_shapes == make_problem().input_shapes);
    const auto executor = agents.executor(make_unit(), make_problem(), "the plan", 1);
    CHECK(executor.context.plan == "the plan");
    CHECK(executor.context.source == make_unit().candidate.source);
    protocol::Unit unit = make_unit();
    unit.experience.fast_source = "f";
    CHECK(agents.summarizer(unit, make_problem()).context.pair.fast_source == "f");
}

TEST_CASE("a call's seed depends on every coordinate of the call", "[N07]") {
    const auto seed_of = [](std::uint64_t run, auto change, int sample) {
        protocol::Unit unit = make_unit();
        change(unit);
        return make_agents(run).executor(unit, make_problem(), "p", sample).context.seed;
    };
    const auto same = [](protocol::Unit&) {};
    CHECK(seed_of(1, same, 0) == seed_of(1, same, 0));
    std::set<std::uint64_t> seeds = {
        seed_of(1, same, 0),
        seed_of(2, same, 0),
        seed_of(1, same, 1),
        seed_of(
            1, [](protocol::Unit& unit) { unit.problem = "adamw"; }, 0),
        seed_of(
            1, [](protocol::Unit& unit) { unit.round = 3; }, 0),
        seed_of(
            1, [](protocol::Unit& unit) { unit.plan = 4; }, 0),
        seed_of(
            1, [](protocol::Unit& unit) { unit.candidate.id = "x"; }, 0),
        make_agents(1).planner(make_unit(), make_problem()).context.seed};
    CHECK(seeds.size() == 8);
    // The place in a queue is no coordinate of a rewrite.
    CHECK(seed_of(
              1, [](protocol::Unit& unit) { unit.order = 99; }, 0) == seed_of(1, same, 0));
}

namespace {

protocol::Profile analysed_profile() {
    protocol::Profile profile;
    profile.latency = 2;
    protocol::ProfileDetail detail;
    detail.roofline = protocol::Roofline{"elementwise", 1e9,     1e9,     1.0,      0.65,
                                         286.8e9,       286.8e9, 143.4e9, "compute"};
    detail.lines = {{2, "nl.load", 64, 1.5, 0, 0, 0, 0, 1.25, 64 << 20},
                    {1, "nl.exp", 64, 0.4, 0, 0.5, 0, 0, 0, 0},
                    {7, "nl.add", 64, 0.001, 0, 0, 0.25, 0, 0, 0}};
    detail.critical_path = {{2, "nl.load", "DMA", "queue", 60, 1.5},
                            {0, "start-up", "", "startup", 1, 0.03}};
    detail.tensors = {{"x", "input", 0, 32 << 20, 64 << 20, 0, 2.0},
                      {"y", "input", 0, 32 << 20, 32 << 20, 0, 1.0},
                      {"acc", "spilled", 2, 1 << 20, 3 << 20, 1 << 20, 3.0}};
    detail.sbuf = protocol::Occupancy{196608, 98304, 1024, 0.5, {}};
    detail.psum = protocol::Occupancy{8, 3, 1, 0.5, {}};
    profile.detail = detail;
    return profile;
}

}  // namespace

TEST_CASE("a planner is told where the time goes, with the source, and only what matters") {
    const std::string text =
        profile_analysis(analysed_profile(), "def kernel(x):\n    tile = nl.load(x[0])\n");
    CHECK(text ==
          "roofline: 1 elementwise operations per byte of HBM traffic, compute is the roof (ridge "
          "at 0.65); 50 % of what it allows is reached\n"
          "time by source line (share of the critical path):\n"
          "- 75 %: line 2 (nl.load) `tile = nl.load(x[0])`; busy: DMA 1.25 ms, moves 64.0 MiB\n"
          "- 20 %: line 1 (nl.exp) `def kernel(x):`; busy: scalar 0.5 ms\n"
          "critical path:\n"
          "- 75 %: nl.load on line 2 (DMA): the next transfer waits for the DMA queues\n"
          "- 2 %: start-up\n"
          "HBM traffic that could be less:\n"
          "- x (input): every byte is read 2 times, 64.0 MiB in all\n"
          "- acc (line 2) is spilled: 1.0 MiB saved, 3.0 MiB reloaded\n"
          "on-chip memory in use: SBUF at most 96 of 192 KiB per partition; PSUM at most 3 of 8 "
          "banks\n");
    CHECK(profile_analysis(protocol::Profile{}, "").empty());
    auto unit = make_unit();
    CHECK(contains(all_text(make_agents().planner(unit, make_problem())),
                   "Where its time goes:\n\n(none)"));
    unit.candidate.profile = analysed_profile();
    CHECK(
        contains(all_text(make_agents().planner(unit, make_problem())), "acc (line 2) is spilled"));
}

TEST_CASE("profile lines are shuffled once per candidate", "[N07]") {
    const auto user = [](std::uint64_t seed, const std::string& candidate, int plan) {
        protocol::Unit unit = make_unit();
        unit.candidate.id = candidate;
        unit.plan = plan;
        return make_agents(seed).planner(unit, make_problem()).messages[1].text;
    };
    CHECK(user(1, "a", 0) == user(1, "a", 5));
    std::set<std::string> orders;
    for (int i = 0; i < 8; ++i) orders.insert(user(1, "c" + std::to_string(i), 0));
    CHECK(orders.size() > 1);
}

TEST_CASE("a profile line exists for every figure that is known and for no other") {
    protocol::Profile profile;
    CHECK(profile_lines(profile).empty());
    profile.latency = 0.5;
    profile.spill_save_bytes = 0;
    profile.bound = "PE";
    CHECK(profile_lines(profile) ==
          std::vector<std::string>{"latency: 0.5", "spill_save_bytes: 0", "bound: PE"});
}

TEST_CASE("a role without a model is an error of the configuration") {
    const Agents agents(Prompts(std::string(ACCELOPT_SOURCE_DIR) + "/configs/prompts"),
                        {{"planner", "p"}}, 1);
    CHECK_THROWS_WITH(agents.executor(make_unit(), make_problem(), "p", 0),
                      Catch::Contains("executor"));
}

TEST_CASE("a planner's prompt that does not fit loses its oldest experiences, and says so",
          "[N24]") {
    protocol::Unit unit = make_unit();
    unit.experiences.clear();
    for (int i = 0; i < 16; ++i) {
        protocol::Experience item;
        item.id = "x" + std::to_string(i);
        item.title = "Item " + std::to_string(i);
        item.text = std::string(1500, 'w');
        unit.experiences.push_back(item);
    }
    const auto request_at = [&](std::int64_t context_tokens) {
        return Agents(Prompts(std::string(ACCELOPT_SOURCE_DIR) + "/configs/prompts"),
                      {{"planner", "p"}}, 1, {{"p", {context_tokens, 4096}}})
            .planner(unit, make_problem());
    };
    const auto whole = request_at(0);
    CHECK(whole.trimmed.empty());
    const auto tokens = llm::estimate_tokens(whole.messages);
    CHECK(request_at(tokens + 4096).trimmed.empty());

    const auto trimmed = request_at(tokens + 4096 - 1000);
    REQUIRE(trimmed.trimmed.size() == 2);
    CHECK(trimmed.trimmed[0] == "experience x15");
    CHECK(trimmed.trimmed[1] == "experience x14");
    CHECK(trimmed.context.experiences.size() == 14);
    CHECK(llm::estimate_tokens(trimmed.messages) + 4096 <= tokens + 4096 - 1000);
    CHECK(all_text(trimmed).find("Item 13") != std::string::npos);
    CHECK(all_text(trimmed).find("Item 14") == std::string::npos);
    CHECK(request_at(tokens + 4096 - 1000).sha256() == trimmed.sha256());
    // Nothing more to leave out: sent as it is, the server has the last word.
    CHECK(request_at(100).context.experiences.empty());
}

TEST_CASE("a prompt of 15,000 tokens with a cap of 4,096 is trimmed to fit into 16,384", "[N24]") {
    protocol::Unit unit = make_unit();
    unit.experiences.clear();
    for (int i = 0; i < 4; ++i) {
        protocol::Experience item;
        item.id = "x" + std::to_string(i);
        item.title = "Item";
        unit.experiences.push_back(item);
    }
    const auto request_at = [&](std::int64_t context_tokens) {
        return Agents(Prompts(std::string(ACCELOPT_SOURCE_DIR) + "/configs/prompts"),
                      {{"planner", "p"}}, 1, {{"p", {context_tokens, 4096}}})
            .planner(unit, make_problem());
    };
    const auto tokens = [&] { return llm::estimate_tokens(request_at(0).messages); };
    REQUIRE(tokens() < 15'000);
    // Grows the items until the prompt is of that size.
    for (std::size_t i = 0; tokens() < 15'000; ++i) {
        auto& text = unit.experiences[i % 4].text;
        text += std::string(tokens() < 14'900 ? 100 : 1, 'w');
    }
    CHECK(tokens() == 15'000);
    const auto trimmed = request_at(16'384);
    CHECK_FALSE(trimmed.trimmed.empty());
    CHECK(trimmed.trimmed[0] == "experience x3");
    CHECK(llm::estimate_tokens(trimmed.messages) <= 16'384 - 4096);
}

TEST_CASE(
    "the fixer is shown the kernel and what the checker says, each repair a call of its own") {
    const Agents agents = make_agents();
    const auto first =
        agents.fixer(make_unit(), make_problem(), "def kernel(x): BROKEN\n", "psum_capacity", 1, 0);
    CHECK(first.role == Role::kFixer);
    CHECK(first.model == "f");
    CHECK(first.problem == "silu");
    CHECK(all_text(first).find("BROKEN") != std::string::npos);
    CHECK(all_text(first).find("psum_capacity") != std::string::npos);
    const auto second =
        agents.fixer(make_unit(), make_problem(), "def kernel(x): BROKEN\n", "psum_capacity", 1, 1);
    CHECK(second.sample != first.sample);
    CHECK(second.context.seed != first.context.seed);
}
