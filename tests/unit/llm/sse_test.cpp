#include "llm/sse.h"

#include <catch2/catch.hpp>

using namespace accelopt::llm;

namespace {

std::vector<SseEvent> parse(const std::string& text, std::size_t piece, bool finish = false) {
    SseParser parser;
    std::vector<SseEvent> events;
    for (std::size_t i = 0; i < text.size(); i += piece) {
        parser.feed(std::string_view(text).substr(i, piece), events);
    }
    if (finish) parser.finish(events);
    return events;
}

}  // namespace

TEST_CASE("events are the same whatever pieces they come in") {
    const std::string text =
        "\xEF\xBB\xBF: a comment\n\nevent: one\ndata: first\r\ndata:second\r\n\r\n"
        "data:  two\rdata\r\rid: 7\nretry: 10\n\ndata: last\n\ndata: cut";
    for (std::size_t piece = 1; piece <= text.size(); ++piece) {
        CAPTURE(piece);
        const auto events = parse(text, piece);
        REQUIRE(events.size() == 3);
        CHECK(events[0].name == "one");
        CHECK(events[0].data == "first\nsecond");
        CHECK(events[1].name.empty());
        CHECK(events[1].data == " two\n");
        CHECK(events[2].data == "last");
        const auto all = parse(text, piece, true);
        REQUIRE(all.size() == 4);
        CHECK(all[3].data == "cut");
    }
}

TEST_CASE("an event without data is none") {
    CHECK(parse("event: ping\n\n\n\n:x\n\n", 3, true).empty());
}

TEST_CASE("an event without an end does not take all memory") {
    SseParser parser;
    std::vector<SseEvent> events;
    const std::string piece(1U << 20U, 'x');
    for (int i = 0; i < 40; ++i) parser.feed("data: " + piece + "\n", events);
    CHECK(parser.overflowed());
    parser.feed("\n\ndata: y\n\n", events);
    parser.finish(events);
    CHECK(events.empty());
}
