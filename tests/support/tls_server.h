#pragma once

#include <memory>
#include <string>
#include <vector>

namespace accelopt::testing {

/// A TLS server on a free port of 127.0.0.1 with a certificate of its own making. It answers every
/// request with the same HTTP/1.1 answer and remembers what it was offered and asked.
class TlsServer {
  public:
    /// `folder` receives the certificate; `body` is the answer's.
    TlsServer(const std::string& folder, std::string body);
    ~TlsServer();
    TlsServer(const TlsServer&) = delete;
    TlsServer& operator=(const TlsServer&) = delete;

    /// "https://127.0.0.1:PORT/v1"
    std::string url() const;
    /// The certificate, which is also its authority, in PEM.
    std::string certificate_path() const;
    /// Requests that came through.
    int requests() const;
    /// Protocols that the last client offered (ALPN): "h2", "http/1.1".
    std::vector<std::string> offered() const;

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace accelopt::testing
