#include "llm/sse.h"

#include <utility>

namespace accelopt::llm {

void SseParser::feed(std::string_view bytes, std::vector<SseEvent>& events) {
    if (after_return_ && !bytes.empty()) {
        after_return_ = false;
        if (bytes.front() == '\n') bytes.remove_prefix(1);
    }
    while (!bytes.empty() && !overflowed_) {
        const auto end = bytes.find_first_of("\r\n");
        line_.append(bytes.substr(0, end));
        if (line_.size() + event_.data.size() > kMaxEventBytes) {
            overflowed_ = true;
            line_ = {};
            event_ = {};
            return;
        }
        if (end == std::string_view::npos) return;
        const bool carriage = bytes[end] == '\r';
        bytes.remove_prefix(end + 1);
        if (carriage && bytes.empty()) after_return_ = true;
        if (carriage && !bytes.empty() && bytes.front() == '\n') bytes.remove_prefix(1);
        const std::string line = std::exchange(line_, {});
        read_line(line, events);
    }
}

void SseParser::finish(std::vector<SseEvent>& events) {
    if (overflowed_) return;
    if (!line_.empty()) read_line(std::exchange(line_, {}), events);
    dispatch(events);
}

void SseParser::read_line(std::string_view line, std::vector<SseEvent>& events) {
    static constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
    if (std::exchange(at_start_, false) && line.substr(0, 3) == kByteOrderMark) {
        line.remove_prefix(3);
    }
    if (line.empty()) {
        dispatch(events);
        return;
    }
    const auto colon = line.find(':');
    const std::string_view field = line.substr(0, colon);
    std::string_view value;
    if (colon != std::string_view::npos) value = line.substr(colon + 1);
    if (!value.empty() && value.front() == ' ') value.remove_prefix(1);
    if (field == "data") {
        if (has_data_) event_.data += '\n';
        event_.data += value;
        has_data_ = true;
    } else if (field == "event") {
        event_.name = value;
    }
    // Comments (an empty field), `id`, `retry` and unknown fields mean nothing here.
}

void SseParser::dispatch(std::vector<SseEvent>& events) {
    if (has_data_) events.push_back(std::move(event_));
    event_ = {};
    has_data_ = false;
}

}  // namespace accelopt::llm
