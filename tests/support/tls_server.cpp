#include "support/tls_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>

namespace accelopt::testing {
namespace {

template <auto Free>
struct Deleter {
    template <typename T>
    void operator()(T* object) const {
        Free(object);
    }
};
using Key = std::unique_ptr<EVP_PKEY, Deleter<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Deleter<X509_free>>;
using Context = std::unique_ptr<SSL_CTX, Deleter<SSL_CTX_free>>;
using Session = std::unique_ptr<SSL, Deleter<SSL_free>>;

void check(bool good, const char* what) {
    if (!good) throw std::runtime_error(what);
}

/// Signed by itself, valid for an hour, for 127.0.0.1.
Certificate make_certificate(EVP_PKEY* key) {
    Certificate certificate(X509_new());
    X509* x = certificate.get();
    X509_set_version(x, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(x), 1);
    X509_gmtime_adj(X509_getm_notBefore(x), -60);
    X509_gmtime_adj(X509_getm_notAfter(x), 3600);
    X509_set_pubkey(x, key);
    X509_NAME* name = X509_get_subject_name(x);
    const unsigned char common[] = "accelopt test";
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, common, -1, -1, 0);
    X509_set_issuer_name(x, name);
    const std::array<std::pair<int, const char*>, 2> extensions = {
        {{NID_subject_alt_name, "IP:127.0.0.1"}, {NID_basic_constraints, "critical,CA:TRUE"}}};
    for (const auto& [id, value] : extensions) {
        X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, nullptr, id, value);
        check(extension && X509_add_ext(x, extension, -1) == 1, "certificate extension");
        X509_EXTENSION_free(extension);
    }
    check(X509_sign(x, key, EVP_sha256()) > 0, "certificate signature");
    return certificate;
}

}  // namespace

struct TlsServer::State {
    std::string path;
    std::string answer;
    Key key;
    Certificate certificate;
    Context context;
    int listener = -1;
    int port = 0;
    std::atomic<bool> stop{false};
    std::atomic<int> requests{0};
    std::mutex mutex;
    std::vector<std::string> offered;
    std::thread thread;

    void open();
    void serve();
    void converse(int fd);
    static int choose(SSL*, const unsigned char** out, unsigned char* length,
                      const unsigned char* in, unsigned in_length, void* self);
};

int TlsServer::State::choose(SSL*, const unsigned char** out, unsigned char* length,
                             const unsigned char* in, unsigned in_length, void* self) {
    auto& state = *static_cast<State*>(self);
    const std::scoped_lock lock(state.mutex);
    state.offered.clear();
    int result = SSL_TLSEXT_ERR_NOACK;
    for (unsigned at = 0; at < in_length && at + 1 + in[at] <= in_length; at += 1 + in[at]) {
        state.offered.emplace_back(reinterpret_cast<const char*>(in + at + 1), in[at]);
        if (state.offered.back() != "http/1.1") continue;
        *out = in + at + 1;
        *length = in[at];
        result = SSL_TLSEXT_ERR_OK;
    }
    return result;
}

void TlsServer::State::open() {
    listener = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    auto* plain = reinterpret_cast<sockaddr*>(&address);
    check(listener >= 0 && bind(listener, plain, length) == 0 && listen(listener, 16) == 0 &&
              getsockname(listener, plain, &length) == 0,
          "the TLS server found no free port");
    port = ntohs(address.sin_port);
}

void TlsServer::State::serve() {
    while (!stop) {
        pollfd ready{listener, POLLIN, 0};
        if (poll(&ready, 1, 50) <= 0) continue;
        const int fd = accept(listener, nullptr, nullptr);
        if (fd < 0) continue;
        const timeval limit{2, 0};
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
        converse(fd);
        close(fd);
    }
}

/// One request per connection.
void TlsServer::State::converse(int fd) {
    const Session session(SSL_new(context.get()));
    SSL_set_fd(session.get(), fd);
    if (SSL_accept(session.get()) != 1) return;
    std::string request;
    std::array<char, 4096> buffer{};
    while (request.find("\r\n\r\n") == std::string::npos) {
        const int count = SSL_read(session.get(), buffer.data(), buffer.size());
        if (count <= 0) return;
        request.append(buffer.data(), static_cast<std::size_t>(count));
    }
    ++requests;
    SSL_write(session.get(), answer.data(), static_cast<int>(answer.size()));
    SSL_shutdown(session.get());
    // Closed with bytes unread, the connection would be reset and the answer lost.
    shutdown(fd, SHUT_WR);
    while (read(fd, buffer.data(), buffer.size()) > 0) {
    }
}

TlsServer::TlsServer(const std::string& folder, std::string body)
    : state_(std::make_unique<State>()) {
    State& state = *state_;
    std::signal(SIGPIPE, SIG_IGN);
    state.path = folder + "/ca.pem";
    state.answer =
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n"
        "Content-Length: " +
        std::to_string(body.size()) + "\r\n\r\n" + body;
    state.key.reset(EVP_EC_gen("P-256"));
    check(state.key != nullptr, "EVP_EC_gen");
    state.certificate = make_certificate(state.key.get());
    std::FILE* file = std::fopen(state.path.c_str(), "w");
    check(file && PEM_write_X509(file, state.certificate.get()) == 1, "certificate file");
    std::fclose(file);
    state.context.reset(SSL_CTX_new(TLS_server_method()));
    check(SSL_CTX_use_certificate(state.context.get(), state.certificate.get()) == 1 &&
              SSL_CTX_use_PrivateKey(state.context.get(), state.key.get()) == 1,
          "TLS context");
    SSL_CTX_set_alpn_select_cb(state.context.get(), &State::choose, &state);
    state.open();
    state.thread = std::thread([&state] { state.serve(); });
}

TlsServer::~TlsServer() {
    state_->stop = true;
    state_->thread.join();
    close(state_->listener);
}

std::string TlsServer::url() const {
    return "https://127.0.0.1:" + std::to_string(state_->port) + "/v1";
}
std::string TlsServer::certificate_path() const { return state_->path; }
int TlsServer::requests() const { return state_->requests; }
std::vector<std::string> TlsServer::offered() const {
    const std::scoped_lock lock(state_->mutex);
    return state_->offered;
}

}  // namespace accelopt::testing
