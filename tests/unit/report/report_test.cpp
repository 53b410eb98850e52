#include "report/report.h"

#include <catch2/catch.hpp>

#include "core/error.h"
#include "unit/store/sample_run.h"

using namespace accelopt;
using protocol::LlmOutcome;
using report::render_table;
using store::testing::sample_run;

TEST_CASE("The summary tells what each problem gained, and what it took") {
    CHECK(render_table(sample_run(), "summary", "csv") ==
          "problem,baseline ms,best ms,speed-up,peak % before,peak % after,verified,evaluations,"
          "cost $,failed samples\n"
          "adamw,4.000,4.000,1.00x,12.5,12.5,yes,2,0.7500,none\n"
          "silu,2.000,1.000,2.00x,25.0,50.0,yes,5,5.1250,"
          "\"extraction_failed 1, incorrect 1, llm_failed 1, rejected 1\"\n"
          "geomean / total,,,1.41x,,,2/2,7,5.8750,"
          "\"extraction_failed 1, incorrect 1, llm_failed 1, rejected 1\"\n");
    CHECK(
        render_table(sample_run(), "summary", "text") ==
        R"(problem          baseline ms  best ms  speed-up  peak % before  peak % after  verified  evaluations  cost $  failed samples
-----------------------------------------------------------------------------------------------------------------------------------------------------------------------
adamw                  4.000    4.000     1.00x           12.5          12.5  yes                 2  0.7500  none
silu                   2.000    1.000     2.00x           25.0          50.0  yes                 5  5.1250  extraction_failed 1, incorrect 1, llm_failed 1, rejected 1
-----------------------------------------------------------------------------------------------------------------------------------------------------------------------
geomean / total                           1.41x                               2/2                 7  5.8750  extraction_failed 1, incorrect 1, llm_failed 1, rejected 1
)");
}

TEST_CASE("A gain within the uncertainty of the model is marked, and the mark explained") {
    auto run = sample_run();
    for (auto& unit : run.units) {
        if (unit.baseline) unit.baseline->profile->latency_uncertainty = 1.0;
    }
    const std::string tied = render_table(run, "summary", "text");
    CHECK_THAT(tied, Catch::Contains("2.00x ~"));
    CHECK_THAT(tied, !Catch::Contains("1.00x ~"));  // no gain at all
    CHECK_THAT(tied, Catch::StartsWith("~ a gain within the uncertainty"));
    for (auto& unit : run.units) {
        if (unit.baseline) unit.baseline->profile->latency_uncertainty = 0.99;
    }
    CHECK_THAT(render_table(run, "summary", "text"), !Catch::Contains("~"));
}

TEST_CASE("A try whose price is unknown makes the cost unknown, not smaller") {
    auto run = sample_run();
    run.units[1].ledger[0].cost_usd.reset();
    CHECK_THAT(render_table(run, "summary", "csv"),
               Catch::Contains("adamw,4.000,4.000,1.00x,12.5,12.5,yes,2,n/a,none\n"));
    SECTION("unless the server turned it away before any work") {
        run.units[1].ledger[0].outcome = LlmOutcome::kRateLimited;
        run.units[1].ledger[0].usage = {};
        CHECK_THAT(render_table(run, "summary", "csv"),
                   Catch::Contains("adamw,4.000,4.000,1.00x,12.5,12.5,yes,2,0.5000,none\n"));
    }
}

TEST_CASE("The summary depends on accepted results only") {
    const auto reference = render_table(sample_run(), "summary", "text");
    auto run = sample_run();
    run.ledger.push_back(
        store::testing::ledger_row("silu-r0-0", protocol::Role::kPlanner, 0, 99.0));
    run.launches = 7;
    run.events.clear();
    for (auto& unit : run.units) {
        unit.lease = 42;
        unit.physical_evaluations = 9;
        for (auto& row : unit.ledger) row.latency_s = 77;
        for (auto& sample : unit.samples) {
            sample.shared_evaluation = true;
            if (sample.evaluation) sample.evaluation->cost.wall_s = 12;
        }
    }
    CHECK(render_table(run, "summary", "text") == reference);
    CHECK(render_table(run, "rounds", "text") == render_table(sample_run(), "rounds", "text"));
}

TEST_CASE("A broken baseline and failed units are named, and nothing is called verified") {
    store::RunData run;
    protocol::UnitResult unit;
    unit.unit_id = "b";
    unit.problem = "silu";
    unit.baseline = store::testing::reply_with("silu", protocol::Outcome::kIncorrect, "value", 2.0);
    run.units.push_back(unit);
    protocol::UnitResult lost;
    lost.unit_id = "c";
    lost.problem = "swiglu";
    lost.failure = "evaluator gone";
    run.units.push_back(lost);
    CHECK(render_table(run, "summary", "csv") ==
          "problem,baseline ms,best ms,speed-up,peak % before,peak % after,verified,evaluations,"
          "cost $,failed samples\n"
          "silu,2.000,n/a,n/a,25.0,n/a,no,1,0.0000,baseline incorrect 1\n"
          "swiglu,n/a,n/a,n/a,n/a,n/a,no,0,0.0000,\"baseline not_evaluated 1, unit_failed 1\"\n"
          "geomean / total,,,n/a,,,0/2,1,0.0000,"
          "\"baseline incorrect 1, baseline not_evaluated 1, unit_failed 1\"\n");
}

TEST_CASE("Problems come in the order of the configuration, those without any result too") {
    auto run = sample_run();
    run.resolved_config = R"(
run: {name: sample}
problems: [silu, rope_single_freq_apply, adamw]
agents: {planner: {model: b}, executor: {model: b}, summarizer: {model: b}}
models: {b: {provider: builtin}}
)";
    const std::string table = render_table(run, "summary", "csv");
    CHECK_THAT(table, Catch::Contains("failed samples\nsilu,2.000,1.000"));
    CHECK_THAT(table, Catch::Contains("\nrope_single_freq_apply,n/a,n/a,n/a,n/a,n/a,n/a,0,0.0000,"
                                      "none\nadamw,4.000"));
    CHECK_THAT(table, Catch::Contains(",2/3,7,5.8750,"));
}

TEST_CASE("The rounds table follows the best kernel through the rounds") {
    CHECK(render_table(sample_run(), "rounds", "csv") ==
          "problem,round,best of round ms,best so far ms,speed-up,samples,evaluated,verified,"
          "duplicates,failed\n"
          "adamw,0,4.500,4.000,1.00x,1,1,1,0,0\n"
          "silu,0,1.500,1.500,1.33x,4,2,1,1,2\n"
          "silu,1,1.000,1.000,2.00x,4,2,1,0,2\n");
}

TEST_CASE("The outcomes table counts every ending with its reason") {
    const std::string table = render_table(sample_run(), "outcomes", "csv");
    CHECK_THAT(table, Catch::Contains("silu,baseline,evaluated,ok,,1\n"));
    CHECK_THAT(table, Catch::Contains("silu,plan,ok,,,4\n"));
    CHECK_THAT(table, Catch::Contains("silu,sample,duplicate,,,1\n"));
    CHECK_THAT(table, Catch::Contains("silu,sample,evaluated,incorrect,value,1\n"));
    CHECK_THAT(table, Catch::Contains("silu,sample,evaluated,rejected,sbuf_capacity,1\n"));
    CHECK_THAT(table, Catch::Contains("silu,sample,llm_failed,llm,rate_limited,1\n"));
    CHECK_THAT(table, Catch::Contains("silu,sample,no_change,,,1\n"));
    CHECK_THAT(table, Catch::Contains("silu,summary,ok,,,1\n"));
    CHECK_THAT(table, Catch::Contains("all,sample,evaluated,ok,,3\n"));
}

TEST_CASE("The cost table counts calls, tries and tokens per role and model") {
    auto run = sample_run();
    auto retry = store::testing::ledger_row("adamw-r0-0", protocol::Role::kPlanner, 0, 0.25);
    retry.attempt = 1;
    run.ledger.push_back(retry);
    retry.replayed = true;
    run.ledger.push_back(retry);
    CHECK(render_table(run, "cost", "csv") ==
          "role,model,calls,tries,replayed,input,cached input,cache write,output,reasoning,"
          "unpriced tries,cost $,lost tries,possibly more $\n"
          "planner,small,5,6,1,6000,n/a,n/a,1200,n/a,0,1.5000,0,0.0000\n"
          "executor,small,9,9,0,9000,n/a,n/a,1800,n/a,0,4.5000,0,0.0000\n"
          "summarizer,small,1,1,0,1000,n/a,n/a,200,n/a,0,0.1250,0,0.0000\n"
          "total,,15,16,1,16000,n/a,n/a,3200,n/a,0,6.1250,0,0.0000\n");
    run.ledger[0].cost_usd.reset();
    CHECK_THAT(render_table(run, "cost", "csv"), Catch::Contains(",1,>= 1.2500,0,0.0000\n"));
    for (auto& row : run.ledger) row.cost_usd.reset();
    CHECK_THAT(render_table(run, "cost", "csv"), Catch::Contains("total,,15,16,1,16000,n/a,n/a,"
                                                                 "3200,n/a,16,n/a,0,0.0000\n"));
    // Tries that were in flight when a rank died may have been billed.
    run.open_tries.push_back({"adamw-r0-0", "adamw", "planner", 0, 0, "small", 0.5});
    CHECK_THAT(render_table(run, "cost", "csv"), Catch::Contains("total,,15,16,1,16000,n/a,n/a,"
                                                                 "3200,n/a,16,n/a,1,<= 0.5000\n"));
}

TEST_CASE("A run without results has headers only") {
    for (const auto& table : report::table_names()) {
        for (const char* format : {"text", "csv", "md", "latex"}) {
            CHECK_FALSE(render_table(store::RunData{}, table, format).empty());
        }
    }
}

TEST_CASE("An unknown table suggests the nearest one") {
    CHECK_THROWS_WITH(render_table(sample_run(), "sumary", "text"),
                      Catch::Contains("did you mean \"summary\"") && Catch::Contains("outcomes"));
}
