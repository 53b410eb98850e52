#include "llm/retry.h"

#include <catch2/catch.hpp>

using namespace accelopt::llm;

namespace {
constexpr double kNow = 1'796'047'506;  // 2026-11-30 14:05:06 UTC
}

TEST_CASE("a wait is read in seconds", "[N17]") {
    CHECK(parse_retry_after("75", kNow).value() == 75);
    CHECK(parse_retry_after(" 1.5 ", kNow).value() == 1.5);
    CHECK(parse_retry_after("0", kNow).value() == 0);
}

TEST_CASE("a wait is read as an HTTP date", "[N17]") {
    CHECK(parse_http_date("Mon, 30 Nov 2026 14:05:06 GMT").value() == kNow);
    CHECK(parse_retry_after("Mon, 30 Nov 2026 14:06:36 GMT", kNow).value() == 90);
    CHECK(parse_retry_after("Mon, 30 Nov 2026 14:05:00 GMT", kNow).value() == 0);
}

TEST_CASE("an unreadable wait is none") {
    for (const char* text :
         {"", " ", "-3", "soon", "inf", "nan", "1e999", "12 s", "Mon, 30 Foo 2026 14:05:06 GMT",
          "Mon, 99 Nov 2026 14:05:06 GMT", "Mon, 30 Nov 2026 77:05:06 GMT"}) {
        CAPTURE(text);
        CHECK_FALSE(parse_retry_after(text, kNow));
    }
}
