#include "report/format.h"

#include <catch2/catch.hpp>
#include <cmath>

using namespace accelopt::report;

TEST_CASE("Unknown figures are n/a, never 0") {
    CHECK(format_ms(std::nullopt) == "n/a");
    CHECK(format_usd(std::nullopt) == "n/a");
    CHECK(format_speedup(std::nan("")) == "n/a");
    CHECK(format_percent(INFINITY) == "n/a");
    CHECK(format_bytes(std::nullopt) == "n/a");
    CHECK(format_integer(std::nullopt) == "n/a");
    CHECK(format_count(std::nullopt) == "n/a");
}

TEST_CASE("Known figures keep their units") {
    CHECK(format_ms(1.3333) == "1.333");
    CHECK(format_usd(0.0) == "0.0000");
    CHECK(format_speedup(1.254) == "1.25x");
    CHECK(format_percent(0.4) == "40.0");
    CHECK(format_bytes(512) == "512 B");
    CHECK(format_bytes(1024) == "1.0 KiB");
    CHECK(format_bytes(117440512) == "112.0 MiB");
    CHECK(format_count(999.0) == "999");
    CHECK(format_count(85899870208.0) == "85.90 G");
}
