#include "llm/reply_reader.h"

#include <algorithm>

#include "llm/json_reading.h"
#include "llm/server_error.h"

namespace accelopt::llm {

using protocol::LlmOutcome;

bool EventOrDocumentReader::take(std::string_view content_type, std::string_view bytes) {
    if (kind_ == Kind::kUnknown) {
        // Blanks before the answer are nothing, however many there are.
        bytes.remove_prefix(std::min(bytes.find_first_not_of(" \t\r\n\xEF\xBB\xBF"), bytes.size()));
        if (bytes.empty()) return true;
        // What the body looks like counts more than what the header says: both may be wrong.
        const bool stream = content_type.find("text/event-stream") != std::string_view::npos;
        const bool events = bytes.substr(0, 5) == "data:" || bytes.substr(0, 6) == "event:" ||
                            bytes.substr(0, 1) == ":";
        kind_ = events || (stream && bytes.front() != '{') ? Kind::kEvents : Kind::kDocument;
    }
    if (kind_ == Kind::kDocument) {
        body_ += bytes;
        return true;
    }
    std::vector<SseEvent> events;
    parser_.feed(bytes, events);
    for (const auto& event : events) {
        if (complete_) break;
        complete_ = !read_event(event, false);
    }
    return !complete_ && !parser_.overflowed();
}

void EventOrDocumentReader::finish(bool whole, TryResult& result) {
    if (kind_ != Kind::kEvents) {
        if (whole) {
            finish_document(body_, result);
        } else {
            result.outcome = LlmOutcome::kTruncatedStream;
            result.error = "the answer broke off";
        }
        return;
    }
    std::vector<SseEvent> rest;
    parser_.finish(rest);
    for (const auto& event : rest) {
        if (!complete_) complete_ = !read_event(event, true);
    }
    finish_stream(whole, result);
    if (parser_.overflowed() && result.outcome == LlmOutcome::kTruncatedStream) {
        result.outcome = LlmOutcome::kMalformed;
        result.error = "an event of the stream is larger than any answer";
    }
}

bool conclude_broken_stream(const std::optional<std::string>& error,
                            const std::optional<std::string>& broken, TryResult& result) {
    if (error) {
        read_error_body(result.http_status, *error, result);
    } else if (broken) {
        result.outcome = LlmOutcome::kMalformed;
        result.error = "an event of the stream is not a JSON object: " + one_line(*broken);
    }
    return error || broken;
}

void conclude(Finish finish, const std::string& word, TryResult& result) {
    const bool empty = blank(result.text);
    switch (finish) {
        case Finish::kStop:
            result.outcome = empty ? LlmOutcome::kEmpty : LlmOutcome::kOk;
            if (empty) result.error = "the answer is empty";
            return;
        case Finish::kLength:
            result.outcome = empty ? LlmOutcome::kReasoningExhausted : LlmOutcome::kLength;
            result.error = empty ? "max_tokens was used up before the answer began"
                                 : "the answer was cut off at max_tokens";
            return;
        case Finish::kFiltered:
            result.outcome = LlmOutcome::kFiltered;
            result.error = "the server's content filter stopped the answer";
            return;
        case Finish::kRefused:
            result.outcome = LlmOutcome::kRefused;
            result.error = "the model refused: " + one_line(word);
            return;
        case Finish::kMissing:
            result.outcome = LlmOutcome::kTruncatedStream;
            result.error = "the answer has no finish_reason: it may be cut off";
            return;
        case Finish::kUnknown:
            result.outcome = LlmOutcome::kMalformed;
            result.error = "unknown finish_reason: " + one_line(word);
            return;
    }
}

void split_inline_reasoning(TryResult& result) {
    static constexpr std::string_view kOpen = "<think>";
    static constexpr std::string_view kClose = "</think>";
    const auto first = result.text.find_first_not_of(" \t\r\n");
    if (first == std::string::npos || result.text.compare(first, kOpen.size(), kOpen) != 0) return;
    const auto start = first + kOpen.size();
    const auto close = result.text.find(kClose, start);
    result.reasoning += result.text.substr(start, close - start);
    result.text =
        close == std::string::npos ? std::string() : result.text.substr(close + kClose.size());
}

}  // namespace accelopt::llm
