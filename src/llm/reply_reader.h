#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "llm/provider.h"
#include "llm/sse.h"

namespace accelopt::llm {

/// Reads one 2xx answer as it arrives. Never throws: whatever the server sent becomes an outcome.
class ReplyReader {
  public:
    virtual ~ReplyReader() = default;
    /// Takes the next bytes; returns false once the answer is complete.
    virtual bool take(std::string_view content_type, std::string_view bytes) = 0;
    /// Fills outcome, text, reasoning, usage and error after the last byte. `whole` is false when
    /// the connection broke: then the answer counts only if its terminal marker was seen.
    virtual void finish(bool whole, TryResult& result) = 0;
};

/// A reader of answers that are either a stream of events or one JSON document: a server may
/// answer a request for a stream with a document.
class EventOrDocumentReader : public ReplyReader {
  public:
    bool take(std::string_view content_type, std::string_view bytes) override;
    void finish(bool whole, TryResult& result) override;

  protected:
    /// Takes one event; returns false once the stream is complete. `cut`: the stream ended within
    /// this event, so that it need not be whole.
    virtual bool read_event(const SseEvent& event, bool cut) = 0;
    /// Fills the result from what the events said.
    virtual void finish_stream(bool whole, TryResult& result) = 0;
    virtual void finish_document(const std::string& body, TryResult& result) = 0;

  private:
    enum class Kind { kUnknown, kEvents, kDocument };

    Kind kind_ = Kind::kUnknown;
    std::string body_;  ///< of a document, or the first bytes before the kind is known
    SseParser parser_;
    bool complete_ = false;
};

/// The end of a model's answer, as every adapter sees it.
enum class Finish {
    kStop,
    kLength,
    kFiltered,
    kRefused,
    kMissing,  ///< no terminal marker: the answer may be cut off
    kUnknown
};

/// Decides a try's outcome from its text and its end; `word` is the server's own for the latter.
void conclude(Finish finish, const std::string& word, TryResult& result);

/// Decides a streamed try that an error event or an event beyond reading has ended: the error's
/// body, the event's text. False where there was neither.
bool conclude_broken_stream(const std::optional<std::string>& error,
                            const std::optional<std::string>& broken, TryResult& result);

/// Moves a leading <think> block, which servers without a reasoning parser leave in the answer.
void split_inline_reasoning(TryResult& result);

}  // namespace accelopt::llm
