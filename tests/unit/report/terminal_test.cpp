#include "report/terminal.h"

#include <catch2/catch.hpp>

using namespace accelopt::report;

TEST_CASE("text is cut and padded by characters, not bytes") {
    CHECK(columns_of("été") == 3);
    CHECK(cut_to("été", 3) == "été");
    CHECK(cut_to("étés", 3) == "ét…");
    CHECK(cut_to("abc", 1) == "…");
    CHECK(cut_to("abc", 0).empty());
    CHECK(pad_right("é", 3) == "é  ");
    CHECK(pad_left("é", 3) == "  é");
    CHECK(pad_left("abcd", 3) == "abcd");
}

TEST_CASE("bars stay within their cells") {
    CHECK(bar(0.5, 4) == "##..");
    CHECK(bar(7, 4) == "####");
    CHECK(bar(-1, 4) == "....");
}

TEST_CASE("a sparkline averages into the columns there are, and shows the least trace") {
    CHECK(sparkline({0, 4, 8}, 8, 10) == " ▄█");
    CHECK(sparkline({0.001}, 8, 10) == "▁");
    CHECK(sparkline({0, 8, 8, 8}, 8, 2) == "▄█");
    CHECK(sparkline({16}, 8, 1) == "█");
    CHECK(sparkline({}, 8, 4).empty());
    CHECK(sparkline({1}, 0, 4) == " ");
}

TEST_CASE("colours are left out where the style has none") {
    CHECK(coloured("x", Colour::kBold, {80, false}) == "x");
    CHECK(coloured("x", Colour::kBold, {80, true}) == "\x1b[1mx\x1b[0m");
    CHECK(coloured("", Colour::kRed, {80, true}).empty());
}
