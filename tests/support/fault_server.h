#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace accelopt::testing {

/// One scripted HTTP answer.
struct ScriptedReply {
    int status = 200;
    std::map<std::string, std::string> headers;
    std::string body;
    std::string content_type = "application/json";
    double delay_s = 0;      ///< before the answer; ends early when the server stops
    bool break_off = false;  ///< closes the connection in the middle of the body
};

/// What a client sent.
struct RecordedRequest {
    std::string path;
    std::map<std::string, std::string> headers;  ///< names in lower case
    std::string body;
};

/// Usage figures of a chat answer; negative = not reported.
struct ChatUsage {
    std::int64_t prompt = 100;
    std::int64_t completion = 10;
    std::int64_t cached = -1;
    std::int64_t reasoning = -1;
};

/// An OpenAI-compatible answer with this text and usage.
ScriptedReply chat_reply(const std::string& text, const ChatUsage& usage = {},
                         const std::string& finish_reason = "stop");
/// The same as an event stream; `pieces` deltas, without [DONE] and all that follows the text when
/// `finish_reason` is empty.
ScriptedReply stream_reply(const std::string& text, const ChatUsage& usage = {},
                           const std::string& finish_reason = "stop", int pieces = 3);
/// An OpenAI-compatible error.
ScriptedReply error_reply(int status, const std::string& message, const std::string& code = "");

/// The text of the last user message of a Chat-Completions request; "" when there is none.
std::string last_user_message(const std::string& request_body);
/// The text of the system message; "" when there is none.
std::string system_message(const std::string& request_body);

/// An HTTP server of this process on a free port of 127.0.0.1. It answers every POST and GET from
/// its script and records what it was asked. Its destructor ends pending delays and joins its
/// threads.
class FaultServer {
  public:
    /// Chooses the answer; `nth` counts requests from 0 in order of arrival. Called from several
    /// threads, one call at a time.
    using Answer = std::function<ScriptedReply(const std::string& request_body, int nth)>;

    explicit FaultServer(Answer answer);
    /// Gives the nth answer to the nth request, and the last one to every request after it.
    explicit FaultServer(std::vector<ScriptedReply> script);
    ~FaultServer();

    /// "http://127.0.0.1:PORT/v1"
    std::string url() const;
    std::vector<RecordedRequest> requests() const;

  private:
    struct State;
    std::unique_ptr<State> state_;
};

/// The address of a port of this machine where nothing listens.
std::string refused_url();

}  // namespace accelopt::testing
