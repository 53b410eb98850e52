#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace accelopt::llm {

/// One POST. Headers are complete lines ("Name: value").
struct HttpRequest {
    std::uint64_t id = 0;
    std::string url;
    std::vector<std::string> headers;
    std::string body;
    double timeout_s = 600;
    double connect_timeout_s = 30;
};

/// What became of a POST. A transport error is a value, not an exception.
struct HttpResponse {
    enum class Transport {
        kComplete,  ///< status, headers and body are whole
        kTimeout,
        kConnection,  ///< not resolved, refused, reset
        kTruncated,   ///< the body broke off
        kTooLarge,    ///< the body exceeds the limit
        kUntrusted    ///< the server's certificate, or the address itself, is not acceptable
    };
    std::uint64_t id = 0;
    Transport transport = Transport::kComplete;
    int status = 0;
    std::map<std::string, std::string> headers;  ///< names in lower case
    std::string body;
    std::string error;  ///< one sentence, never with headers or address
    double elapsed_s = 0;
};

/// Many POSTs in flight on one thread (libcurl multi): kept-alive connections, verified TLS, no
/// signals, no redirects, bounded answers. The only user of curl.h.
class CurlMulti {
  public:
    static constexpr std::size_t kMaxBodyBytes = 64U << 20U;

    explicit CurlMulti(std::size_t max_body_bytes = kMaxBodyBytes);
    ~CurlMulti();
    CurlMulti(const CurlMulti&) = delete;
    CurlMulti& operator=(const CurlMulti&) = delete;

    void start(HttpRequest request);
    /// Moves what has ended to `done`; waits at most `wait_s`, less when something ends.
    void poll(double wait_s, std::vector<HttpResponse>& done);
    /// Drops a request; an unknown id does nothing.
    void cancel(std::uint64_t id);
    std::size_t in_flight() const;

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace accelopt::llm
