#include <catch2/catch.hpp>

#include "report/report.h"
#include "unit/store/sample_run.h"

using namespace accelopt;
using store::testing::sample_run;

TEST_CASE("Only problems with a winner of their own get a best file, diffed from the baseline") {
    const auto files = report::best_files(sample_run());
    REQUIRE(files.size() == 1);
    CHECK(files[0].problem == "silu");
    CHECK(files[0].source == "def kernel(x):\n    return tiled(x)\n");
    CHECK(files[0].diff ==
          "--- silu/baseline.py\n+++ best/silu.py\n@@ -1,2 +1,2 @@\n def kernel(x):\n"
          "-    return silu(x)\n+    return tiled(x)\n");
}

TEST_CASE("A baseline that the journal lacks is taken from the caller") {
    auto run = sample_run();
    for (auto& round : run.rounds) round.baseline.reset();
    const auto files = report::best_files(run, {{"silu", "def kernel(x):\n    pass\n"}});
    REQUIRE(files.size() == 1);
    CHECK_THAT(files[0].diff, Catch::Contains("-    pass\n"));
}

TEST_CASE("The lineage of a winner leads from the baseline through every parent") {
    CHECK(report::render_table(sample_run(), "best", "csv") == [] {
        const auto run = sample_run();
        const std::string first = run.rounds[1].selected[0].id;
        const std::string second = run.rounds[2].selected[0].id;
        return "problem,step,candidate,round,plan,sample,latency ms,speed-up,change\n"
               "adamw,0,adamw-base,,,,4.000,1.00x,baseline\n"
               "silu,0,silu-base,,,,2.000,1.00x,baseline\n"
               "silu,1," +
               first +
               ",0,0,0,1.500,1.33x,widen the tile of step 0\n"
               "silu,2," +
               second + ",1,1,0,1.000,2.00x,widen the tile of step 1\n";
    }());
}

TEST_CASE("Lineages that loop end") {
    auto run = sample_run();
    run.rounds[1].selected[0].parent_id = run.rounds[2].selected[0].id;
    CHECK_THAT(report::render_table(run, "best", "text"), Catch::Contains("silu"));
}
