#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace accelopt::llm {

/// One event of a server-sent stream.
struct SseEvent {
    std::string name;  ///< of the `event` field; "" when there is none
    std::string data;  ///< the `data` lines, joined by newlines
};

/// Splits a text/event-stream into events (WHATWG HTML, 9.2.6), whatever the pieces it comes in.
/// Memory is bounded by one event.
class SseParser {
  public:
    static constexpr std::size_t kMaxEventBytes = 16U << 20U;

    /// Appends the events that `bytes` completes.
    void feed(std::string_view bytes, std::vector<SseEvent>& events);
    /// Appends what an end without a blank line leaves: some servers end so. Such an event may be
    /// cut off.
    void finish(std::vector<SseEvent>& events);
    /// True when an event exceeded kMaxEventBytes; nothing more is read.
    bool overflowed() const { return overflowed_; }

  private:
    void read_line(std::string_view line, std::vector<SseEvent>& events);
    void dispatch(std::vector<SseEvent>& events);

    std::string line_;
    SseEvent event_;
    bool has_data_ = false;
    bool after_return_ = false;  ///< the last byte was '\r': a '\n' belongs to it
    bool at_start_ = true;
    bool overflowed_ = false;
};

}  // namespace accelopt::llm
