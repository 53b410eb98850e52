#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace accelopt::testing {

/// One step of an answer given byte by byte.
struct RawStep {
    enum class Then {
        kGoOn,
        kClose,      ///< closes the connection in good order
        kReset,      ///< closes it with a reset
        kHalfClose,  ///< ends its own side only
        kHold        ///< says nothing more and keeps the connection
    };
    double delay_s = 0;  ///< before the bytes
    std::string bytes;
    Then then = Then::kGoOn;
};
using RawAnswer = std::vector<RawStep>;

struct RawRequest {
    std::string head;  ///< request line and headers, as sent
    std::string body;
};

/// A whole HTTP answer with a Content-Length.
RawAnswer http_answer(int status, const std::string& content_type, const std::string& body,
                      double delay_s = 0, const std::vector<std::string>& headers = {});
/// The head of a chunked event stream, and its parts. `chunk("")` ends the body.
std::string event_stream_head();
std::string chunk(const std::string& bytes);
/// One event of a Chat-Completions stream that carries this JSON, as a chunk.
std::string chat_event(const std::string& json);
/// A delta with this text, as a chunk.
std::string chat_delta(const std::string& text);
/// The last events: finish_reason, usage (none when `prompt` < 0), [DONE], and the body's end.
std::string chat_end(std::int64_t prompt, std::int64_t completion,
                     const std::string& finish = "stop");

/// An HTTP/1.1 server of bare sockets on one thread (epoll) and a free port of 127.0.0.1, for
/// answers that no HTTP library would send, and for load: it keeps any number of connections and
/// answers in flight. Each request on a connection is answered in full before the next is read.
class RawServer {
  public:
    /// Chooses the answer on the server's thread; `nth` counts requests from 0.
    using Answer = std::function<RawAnswer(const RawRequest& request, int nth)>;

    explicit RawServer(Answer answer);
    ~RawServer();
    RawServer(const RawServer&) = delete;
    RawServer& operator=(const RawServer&) = delete;

    int port() const;
    /// "http://127.0.0.1:PORT/v1"
    std::string url() const;
    /// Requests read completely so far.
    int requests() const;
    /// Connections accepted so far.
    int connections() const;

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace accelopt::testing
