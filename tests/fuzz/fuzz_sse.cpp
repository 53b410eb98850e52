// A stream of events gives the same events whatever pieces it comes in.
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "llm/sse.h"

using accelopt::llm::SseEvent;
using accelopt::llm::SseParser;

namespace {

std::vector<SseEvent> parse(std::string_view text, std::size_t piece) {
    SseParser parser;
    std::vector<SseEvent> events;
    for (std::size_t i = 0; i < text.size(); i += piece) {
        parser.feed(text.substr(i, piece), events);
    }
    parser.finish(events);
    return events;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size == 0) return 0;
    const std::size_t piece = 1 + data[0] % 7;
    const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
    const auto whole = parse(text, text.size() + 1);
    const auto pieces = parse(text, piece);
    if (whole.size() != pieces.size()) std::abort();
    for (std::size_t i = 0; i < whole.size(); ++i) {
        if (whole[i].name != pieces[i].name || whole[i].data != pieces[i].data) std::abort();
        if (whole[i].data.find('\r') != std::string::npos) std::abort();
    }
    return 0;
}
