#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace accelopt::llm {

/// Response headers, names in lower case.
using HttpHeaders = std::map<std::string, std::string>;

/// Takes the body of a 2xx answer as it arrives, instead of HttpResponse::body.
class BodySink {
  public:
    virtual ~BodySink() = default;
    /// Returns false once the answer is complete: what follows is of no interest.
    virtual bool take(const HttpHeaders& headers, std::string_view bytes) = 0;
};

/// One request, a POST unless `get` says otherwise. Headers are complete lines ("Name: value").
struct HttpRequest {
    std::uint64_t id = 0;
    bool get = false;
    std::string url;
    std::vector<std::string> headers;
    std::string body;
    double timeout_s = 600;
    double connect_timeout_s = 30;
    /// Ends the request when no byte has come for so long; 0 = never.
    double stall_timeout_s = 0;
    /// Whether the wait for the first byte counts as a stall too. It does for a stream, not for an
    /// answer that is sent when the model has finished.
    bool stall_from_start = false;
    std::shared_ptr<BodySink> sink;  ///< may be null
};

/// What became of a request. A transport error is a value, not an exception.
struct HttpResponse {
    enum class Transport {
        kComplete,    ///< status, headers and body are whole
        kTimeout,     ///< the total time-out, or a stall
        kConnection,  ///< not resolved, refused, reset
        kTruncated,   ///< the body broke off
        kTooLarge,    ///< the body exceeds the limit
        kUntrusted    ///< the server's certificate, or the address itself, is not acceptable
    };
    std::uint64_t id = 0;
    Transport transport = Transport::kComplete;
    int status = 0;
    HttpHeaders headers;
    std::string body;
    std::string error;  ///< one sentence, never with headers or address
    double elapsed_s = 0;
};

/// Many requests in flight on one thread (libcurl multi): kept-alive connections (HTTP/2 where a
/// server offers it), verified TLS, no signals, no redirects, bounded answers. Proxies come from
/// http_proxy, https_proxy, ALL_PROXY and NO_PROXY, a CA bundle from CURL_CA_BUNDLE or
/// SSL_CERT_FILE or a folder of them from SSL_CERT_DIR. The only user of curl.h.
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
