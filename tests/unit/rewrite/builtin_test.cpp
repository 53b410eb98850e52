#include "rewrite/builtin.h"

#include <catch2/catch.hpp>
#include <set>

#include "kernels.h"
#include "nki/syntax/parser.h"
#include "nki/syntax/printer.h"
#include "rewrite/plan.h"
#include "rewrite/planner.h"

namespace accelopt::rewrite {
namespace {

using Catch::Contains;
using protocol::Role;

llm::TryResult ask(llm::Provider& provider, Role role, const llm::Context& context) {
    llm::Request request;
    request.role = role;
    request.context = context;
    provider.start(7, {}, request);
    std::vector<llm::TryResult> done;
    provider.poll(0, done);
    REQUIRE(done.size() == 1);
    CHECK(done[0].ticket == 7);
    CHECK(done[0].outcome == protocol::LlmOutcome::kOk);
    CHECK(done[0].usage.input_tokens == 0);
    CHECK(done[0].usage.output_tokens == 0);
    return done[0];
}

llm::Context on(const Baseline& baseline) {
    llm::Context context;
    context.source = baseline.source();
    context.input_shapes = baseline.shapes;
    return context;
}

const Baseline& silu() { return baselines()[0]; }

std::string fenced(const std::string& reply) {
    const std::string open = "```python\n";
    const std::size_t begin = reply.find(open);
    REQUIRE(begin != std::string::npos);
    const std::size_t end = reply.find("```", begin + open.size());
    REQUIRE(end != std::string::npos);
    return reply.substr(begin + open.size(), end - begin - open.size());
}

TEST_CASE("plan lines survive the round trip") {
    const std::vector<Step> steps = {{"widen_free_tile", 31, {{"width", 2048}}},
                                     {"sigmoid_form", 40, {}}};
    CHECK(plan_line(steps) ==
          "rewrite: widen_free_tile at line 31 width 2048; then sigmoid_form at line 40");
    CHECK(parse_plan("Some words.\n\n" + plan_line(steps) + "\n") == steps);
    // The last line counts.
    CHECK(parse_plan("rewrite: a at line 1\nrewrite: b at line 2\r\n")[0].rule == "b");
    for (const char* bad :
         {"", "rewrite: ", "rewrite: x", "rewrite: x at line", "rewrite: x at line 0",
          "rewrite: x at line 99999999999999999999", "rewrite: x at line 3 width",
          "rewrite: x at line 3 width wide", "no rewrite here"}) {
        INFO(bad);
        CHECK(parse_plan(bad).empty());
    }
}

TEST_CASE("planner, executor and summarizer work on one another's answers") {
    auto provider = make_builtin_provider();
    for (const Baseline& baseline : baselines()) {
        INFO(baseline.name);
        llm::Context context = on(baseline);
        context.seed = 5;
        const std::string plan = ask(*provider, Role::kPlanner, context).text;
        REQUIRE(!parse_plan(plan).empty());
        context.plan = plan;
        const std::string kernel = fenced(ask(*provider, Role::kExecutor, context).text);
        check_kernel(kernel, baseline.shapes);
        llm::Context pair;
        pair.input_shapes = baseline.shapes;
        pair.pair.slow_source = baseline.source();
        pair.pair.fast_source = kernel;
        pair.pair.speedup = 1.25;
        const std::string summary = ask(*provider, Role::kSummarizer, pair).text;
        INFO(plan << summary);
        CHECK(summary.rfind("**", 0) == 0);
        CHECK_THAT(summary, Contains("1.25"));
        // The title names the first step at least.
        CHECK_THAT(summary.substr(0, summary.find('\n')), Contains(parse_plan(plan)[0].rule));
    }
}

TEST_CASE("the same seed gives the same plan, other seeds cover several rewrites") {
    auto provider = make_builtin_provider();
    for (const Baseline& baseline : baselines()) {
        llm::Context context = on(baseline);
        std::set<std::string> plans;
        std::set<std::string> rules;
        for (std::uint64_t seed = 0; seed < 12; ++seed) {
            context.seed = seed;
            const std::string plan = ask(*provider, Role::kPlanner, context).text;
            CHECK(ask(*make_builtin_provider(), Role::kPlanner, context).text == plan);
            plans.insert(plan);
            for (const Step& step : parse_plan(plan)) rules.insert(step.rule);
        }
        INFO(baseline.name);
        CHECK(plans.size() >= 2);
        CHECK(rules.size() >= (baseline.name.rfind("rope", 0) == 0 ? 1u : 2u));
    }
}

TEST_CASE("sites that relieve the busy engine come first") {
    std::vector<Site> sites(2);
    sites[0].rule = "for_pe";
    sites[0].relieves = "PE";
    sites[1].rule = "for_dma";
    sites[1].relieves = "DMA ACT";
    protocol::Profile profile;
    profile.bound = "DMA";
    profile.dma_active_time_percent = 0.97;
    profile.tensor_engine_active_time_percent = 0.2;
    CHECK(rank_sites(sites, profile, {})[0].site.rule == "for_dma");
    profile.bound = "PE";
    profile.dma_active_time_percent = 0.2;
    profile.tensor_engine_active_time_percent = 0.97;
    CHECK(rank_sites(sites, profile, {})[0].site.rule == "for_pe");
    // Without a profile the order is that of the rules.
    CHECK(rank_sites(sites, std::nullopt, {})[0].site.rule == "for_pe");
}

TEST_CASE("memory lifts rules that paid and lowers those that hurt") {
    std::vector<Site> sites(2);
    sites[0].rule = "merge_subtiles";
    sites[1].rule = "widen_free_tile";
    protocol::Experience item;
    item.title = "Widen_free_tile pays";
    item.speedup = 1.4;
    CHECK(rank_sites(sites, std::nullopt, {item})[0].site.rule == "widen_free_tile");
    item.title = "**merge_subtiles hurts**";
    item.positive = false;
    CHECK(rank_sites(sites, std::nullopt, {item})[0].site.rule == "widen_free_tile");
    item.title = "something else";
    CHECK(rank_sites(sites, std::nullopt, {item})[0].site.rule == "merge_subtiles");
}

TEST_CASE("an executor that cannot follow a plan says so without a kernel") {
    auto provider = make_builtin_provider();
    llm::Context context = on(silu());
    for (const char* plan :
         {"Please make it faster.", "rewrite: no_such_rule at line 3",
          "rewrite: widen_free_tile at line 2 width 2048", "rewrite: widen_free_tile at line 21",
          "rewrite: widen_free_tile at line 21 width 1000000",
          "rewrite: sigmoid_form at line 999"}) {
        context.plan = plan;
        INFO(plan);
        CHECK_THAT(ask(*provider, Role::kExecutor, context).text, !Contains("```"));
    }
    context.source = "def kernel(x:\n";
    context.plan = "rewrite: sigmoid_form at line 1";
    CHECK_THAT(ask(*provider, Role::kExecutor, context).text, Contains("cannot be parsed"));
}

TEST_CASE("a planner without a rewrite says so") {
    auto provider = make_builtin_provider();
    llm::Context context;
    for (const char* source :
         {"", "x = 1\n", "def kernel(x:\n", "def kernel(x):\n    return x\n",
          "def kernel(x):\n    while True:\n        pass\n", "class Kernel:\n    pass\n"}) {
        context.source = source;
        INFO(source);
        const std::string plan = ask(*provider, Role::kPlanner, context).text;
        CHECK(parse_plan(plan).empty());
        CHECK_THAT(plan, Contains("No plan"));
    }
}

TEST_CASE("a summarizer names the rule of a pair, and the direction") {
    auto provider = make_builtin_provider();
    Rewriter rewriter;
    const auto widened = rewriter.apply(silu().source(), silu().shapes,
                                        {{"widen_free_tile", 21, {{"width", 7168}}}});
    REQUIRE(widened.ok());
    llm::Context context;
    context.input_shapes = silu().shapes;
    context.pair.slow_source = silu().source();
    context.pair.fast_source = *widened;
    context.pair.speedup = 1.11;
    CHECK_THAT(ask(*provider, Role::kSummarizer, context).text,
               Contains("**widen_free_tile pays**"));
    std::swap(context.pair.slow_source, context.pair.fast_source);
    context.pair.positive = false;
    CHECK_THAT(ask(*provider, Role::kSummarizer, context).text,
               Contains("**widen_free_tile hurts**"));
    context.pair.positive = true;
    context.pair.fast_source = context.pair.slow_source;
    CHECK_THAT(ask(*provider, Role::kSummarizer, context).text, Contains("No optimization found"));
}

TEST_CASE("results come once, in order, whatever the number in flight") {
    auto provider = make_builtin_provider();
    llm::Request request;
    request.context.source = "def kernel(x):\n    return x\n";
    for (std::uint64_t ticket = 1; ticket <= 5; ++ticket) provider->start(ticket, {}, request);
    std::vector<llm::TryResult> done;
    provider->poll(10, done);
    REQUIRE(done.size() == 5);
    for (std::size_t i = 0; i < done.size(); ++i) CHECK(done[i].ticket == i + 1);
    provider->poll(0, done);
    CHECK(done.size() == 5);
}

}  // namespace
}  // namespace accelopt::rewrite
