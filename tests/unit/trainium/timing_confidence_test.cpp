#include <catch2/catch.hpp>

#include "trainium/profile_confidence.h"

using namespace accelopt::trainium;

namespace {

BusyTimes busy_dma(double far, double single) {
    BusyTimes busy;
    busy.unit_ns[static_cast<int>(Unit::kDma)] = 100;
    busy.unit_ns[static_cast<int>(Unit::kPe)] = 100;
    busy.dma_far_ns = far;
    busy.dma_single_element_ns = single;
    return busy;
}

}  // namespace

TEST_CASE("a prediction without doubtful mechanisms has high confidence and no reasons") {
    const Confidence confidence = judge({}, busy_dma(0, 0), {});
    CHECK(confidence.level == "high");
    CHECK(confidence.reasons.empty());
}

TEST_CASE("the far-stride rule lowers confidence from a fifth of the DMA time on") {
    CHECK(judge({}, busy_dma(20, 0), {}).level == "high");
    const Confidence confidence = judge({}, busy_dma(21, 0), {});
    CHECK(confidence.level == "medium");
    REQUIRE(confidence.reasons.size() == 1);
    CHECK(confidence.reasons[0].find("far-stride") != std::string::npos);
    // It does not matter where another unit is busy twice as long.
    BusyTimes computing = busy_dma(100, 0);
    computing.unit_ns[static_cast<int>(Unit::kPe)] = 200;
    CHECK(judge({}, computing, {}).level == "high");
}

TEST_CASE("each known weakness is named") {
    CHECK(judge({}, busy_dma(0, 11), {}).level == "low");
    CHECK(judge({}, busy_dma(0, 10), {}).level == "high");

    SimulationResult forced;
    forced.forced_allocations = 1;
    CHECK(judge({}, busy_dma(0, 0), forced).level == "low");

    BusyTimes tiny = busy_dma(0, 0);
    tiny.tiny_ns = 51;
    CHECK(judge({}, tiny, {}).level == "low");

    BusyTimes pool = busy_dma(0, 0);
    pool.unit_ns[static_cast<int>(Unit::kPool)] = 30;
    CHECK(judge({}, pool, {}).level == "medium");

    Counters counters;
    counters.hbm_read_bytes = 60;
    counters.hbm_write_bytes = 40;
    counters.spill_save_bytes = 10;
    CHECK(judge(counters, busy_dma(0, 0), {}).level == "high");
    counters.spill_reload_bytes = 1;
    CHECK(judge(counters, busy_dma(0, 0), {}).level == "medium");
    counters.spill_reload_bytes = 21;
    const Confidence heavy = judge(counters, busy_dma(50, 0), {});
    CHECK(heavy.level == "low");
    CHECK(heavy.reasons.size() == 2);
}

TEST_CASE("a kernel that keeps no unit busy half of the time is a doubtful one") {
    SimulationResult idle;
    idle.latency_ns = 1000;
    idle.busy_ns[static_cast<int>(Unit::kAct)] = 499;
    CHECK(judge({}, busy_dma(0, 0), idle).level == "low");
    idle.busy_ns[static_cast<int>(Unit::kAct)] = 500;
    CHECK(judge({}, busy_dma(0, 0), idle).level == "high");
}
