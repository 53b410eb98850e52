#include "eval/latency_noise.h"

#include <catch2/catch.hpp>
#include <limits>
#include <vector>

using namespace accelopt::eval;

namespace {

std::optional<MeasuredLatency> summary(const std::vector<double>& latencies, int warm_up = 0) {
    return summarise_latencies(latencies, warm_up);
}

}  // namespace

TEST_CASE("warm-up runs are dropped and the median of the rest stands", "[N16]") {
    const auto measured = summary({9, 5, 5.1, 4.9}, 1);
    REQUIRE(measured.has_value());
    CHECK(measured->median_ms == 5.0);
    CHECK(measured->spread == Approx(0.04));
    CHECK(measured->count == 3);
    CHECK(summary({4, 2})->median_ms == 3.0);
    CHECK(summary({7})->spread == 0.0);
}

TEST_CASE("a series that is no measurement is never summarised", "[N16][X20]") {
    CHECK_FALSE(summary({}).has_value());
    CHECK_FALSE(summary({9}, 1).has_value());
    CHECK_FALSE(summary({9, 0, 5}, 1).has_value());
    CHECK_FALSE(summary({9, -1, 5}, 1).has_value());
    CHECK_FALSE(summary({std::numeric_limits<double>::quiet_NaN(), 5}, 1).has_value());
    CHECK_FALSE(summary({5, std::numeric_limits<double>::infinity()}).has_value());
}

TEST_CASE("a gain within the spread is a tie", "[N16]") {
    const MeasuredLatency baseline{100, 0.03, 5};
    CHECK(compare_latencies({99, 0.01, 5}, baseline) == Comparison::kTie);
    CHECK(compare_latencies({101, 0.01, 5}, baseline) == Comparison::kTie);
    CHECK(compare_latencies({96, 0.01, 5}, baseline) == Comparison::kFaster);
    CHECK(compare_latencies({96, 0.05, 5}, baseline) == Comparison::kTie);
    CHECK(compare_latencies({104, 0.01, 5}, baseline) == Comparison::kSlower);
    CHECK(compare_latencies({100, 0, 1}, {100, 0, 1}) == Comparison::kTie);
    CHECK(to_string(Comparison::kTie) == "tie");
}
