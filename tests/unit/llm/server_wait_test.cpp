#include "llm/server_wait.h"

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

TEST_CASE("the reset of a limit is read in every form that servers use", "[N17]") {
    CHECK(parse_reset("6m0s", kNow).value() == 360);
    CHECK(parse_reset("1.5s", kNow).value() == 1.5);
    CHECK(parse_reset("20ms", kNow).value() == Approx(0.02));
    CHECK(parse_reset("1h2m3s", kNow).value() == 3723);
    CHECK(parse_reset("12", kNow).value() == 12);
    CHECK(parse_reset("1796047516", kNow).value() == 10);
    CHECK(parse_reset("1796047516000", kNow).value() == 10);
    CHECK(parse_reset("2026-11-30T14:05:16Z", kNow).value() == 10);
    CHECK(parse_reset("2026-11-30T15:05:16.5+01:00", kNow).value() == 10.5);
    CHECK(parse_reset("2026-11-30T14:00:00Z", kNow).value() == 0);
    for (const char* text : {"", "s", "5x", "2026-11-30", "2026-13-30T14:05:16Z", "-1s", "1..2s"}) {
        CAPTURE(text);
        CHECK_FALSE(parse_reset(text, kNow));
    }
}

TEST_CASE("headers say when to come back", "[N17]") {
    CHECK(read_server_wait({{"retry-after", "75"}}, kNow).retry_after_s.value() == 75);
    CHECK(read_server_wait({{"retry-after-ms", "250"}, {"retry-after", "9"}}, kNow)
              .retry_after_s.value() == 0.25);
    const auto used_up = read_server_wait({{"x-ratelimit-remaining-requests", "0"},
                                           {"x-ratelimit-reset-requests", "7s"},
                                           {"x-ratelimit-remaining-tokens", "0"},
                                           {"x-ratelimit-reset-tokens", "9s"}},
                                          kNow);
    CHECK(used_up.used_up_s.value() == 9);
    CHECK(used_up.retry_after_s.value() == 9);
    const auto plenty = read_server_wait(
        {{"x-ratelimit-remaining-requests", "5"}, {"x-ratelimit-reset-requests", "7s"}}, kNow);
    CHECK_FALSE(plenty.used_up_s);
    CHECK_FALSE(plenty.retry_after_s);
    const auto anthropic =
        read_server_wait({{"anthropic-ratelimit-output-tokens-remaining", "0"},
                          {"anthropic-ratelimit-output-tokens-reset", "2026-11-30T14:05:36Z"}},
                         kNow);
    CHECK(anthropic.used_up_s.value() == 30);
}
