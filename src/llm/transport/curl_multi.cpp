#include "llm/transport/curl_multi.h"

#include <curl/curl.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "core/error.h"

namespace accelopt::llm {
namespace {

using SteadyClock = std::chrono::steady_clock;

struct EasyDeleter {
    void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
};
struct ListDeleter {
    void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};
struct MultiDeleter {
    void operator()(CURLM* handle) const { curl_multi_cleanup(handle); }
};

/// One request in flight; curl holds pointers to its members, so that it never moves.
struct Transfer {
    HttpRequest request;
    HttpResponse response;
    std::size_t max_body_bytes = 0;
    bool too_large = false;
    std::unique_ptr<curl_slist, ListDeleter> headers;
    std::unique_ptr<CURL, EasyDeleter> easy;
    std::array<char, CURL_ERROR_SIZE> error_text{};
    SteadyClock::time_point started;
};

std::size_t take_body(char* bytes, std::size_t size, std::size_t count, void* user) {
    auto& transfer = *static_cast<Transfer*>(user);
    const std::size_t length = size * count;
    if (transfer.response.body.size() + length > transfer.max_body_bytes) {
        transfer.too_large = true;
        return 0;
    }
    transfer.response.body.append(bytes, length);
    return length;
}

std::size_t take_header(char* bytes, std::size_t size, std::size_t count, void* user) {
    static constexpr std::size_t kMaxHeaders = 200;
    auto& headers = static_cast<Transfer*>(user)->response.headers;
    const std::string_view line(bytes, size * count);
    if (line.substr(0, 5) == "HTTP/") headers.clear();  // after "100 Continue", say
    const auto colon = line.find(':');
    if (colon == std::string_view::npos || headers.size() >= kMaxHeaders) return line.size();
    std::string name(line.substr(0, colon));
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    const auto first = line.find_first_not_of(" \t", colon + 1);
    const auto last = line.find_last_not_of(" \t\r\n");
    const bool present = first != std::string_view::npos && last >= first;
    headers[name] = present ? std::string(line.substr(first, last - first + 1)) : std::string();
    return line.size();
}

HttpResponse::Transport classify(CURLcode code, bool answer_began) {
    switch (code) {
        case CURLE_OK:
            return HttpResponse::Transport::kComplete;
        case CURLE_OPERATION_TIMEDOUT:
            return HttpResponse::Transport::kTimeout;
        case CURLE_PARTIAL_FILE:
            return HttpResponse::Transport::kTruncated;
        case CURLE_PEER_FAILED_VERIFICATION:
        case CURLE_SSL_CACERT_BADFILE:
        case CURLE_SSL_ISSUER_ERROR:
        case CURLE_URL_MALFORMAT:
        case CURLE_UNSUPPORTED_PROTOCOL:
            return HttpResponse::Transport::kUntrusted;
        default:
            return answer_began ? HttpResponse::Transport::kTruncated
                                : HttpResponse::Transport::kConnection;
    }
}

/// A model served on this machine is never reached through a proxy.
std::string no_proxy_list() {
    std::string list = "localhost,127.0.0.1,::1";
    for (const char* name : {"no_proxy", "NO_PROXY"}) {
        const char* value = std::getenv(name);
        if (value && *value) list += std::string(",") + value;
    }
    return list;
}

void check(CURLcode code, const char* what) { require(code == CURLE_OK, what); }

template <typename Value>
void set(CURL* easy, CURLoption option, Value value) {
    check(curl_easy_setopt(easy, option, value), "curl_easy_setopt");
}

long milliseconds(double seconds) {
    return std::max(1L, static_cast<long>(std::ceil(std::min(seconds, 1e6) * 1000)));
}

void start_curl() {
    static const CURLcode kStarted = curl_global_init(CURL_GLOBAL_DEFAULT);
    require(kStarted == CURLE_OK, "curl_global_init");
}

std::unique_ptr<Transfer> make_transfer(HttpRequest request, std::size_t max_body_bytes,
                                        const std::string& no_proxy) {
    auto transfer = std::make_unique<Transfer>();
    transfer->request = std::move(request);
    transfer->max_body_bytes = max_body_bytes;
    transfer->response.id = transfer->request.id;
    transfer->started = SteadyClock::now();
    transfer->easy.reset(curl_easy_init());
    CURL* easy = transfer->easy.get();
    require(easy != nullptr, "curl_easy_init");
    // "Expect:" switches off the wait for "100 Continue" before a long prompt.
    transfer->headers.reset(curl_slist_append(nullptr, "Expect:"));
    for (const auto& header : transfer->request.headers) {
        require(curl_slist_append(transfer->headers.get(), header.c_str()), "curl_slist_append");
    }
    set(easy, CURLOPT_URL, transfer->request.url.c_str());
    set(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    set(easy, CURLOPT_FOLLOWLOCATION, 0L);  // a redirect must not carry the key elsewhere
    set(easy, CURLOPT_NOPROXY, no_proxy.c_str());
    set(easy, CURLOPT_NOSIGNAL, 1L);
    set(easy, CURLOPT_SSL_VERIFYPEER, 1L);
    set(easy, CURLOPT_SSL_VERIFYHOST, 2L);
    set(easy, CURLOPT_TCP_KEEPALIVE, 1L);  // minutes of silence while a model thinks
    set(easy, CURLOPT_ACCEPT_ENCODING, "");
    set(easy, CURLOPT_USERAGENT, "accelopt");
    set(easy, CURLOPT_HTTPHEADER, transfer->headers.get());
    set(easy, CURLOPT_POSTFIELDS, transfer->request.body.c_str());
    set(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(transfer->request.body.size()));
    set(easy, CURLOPT_TIMEOUT_MS, milliseconds(transfer->request.timeout_s));
    set(easy, CURLOPT_CONNECTTIMEOUT_MS, milliseconds(transfer->request.connect_timeout_s));
    set(easy, CURLOPT_WRITEFUNCTION, &take_body);
    set(easy, CURLOPT_WRITEDATA, static_cast<void*>(transfer.get()));
    set(easy, CURLOPT_HEADERFUNCTION, &take_header);
    set(easy, CURLOPT_HEADERDATA, static_cast<void*>(transfer.get()));
    set(easy, CURLOPT_ERRORBUFFER, transfer->error_text.data());
    return transfer;
}

}  // namespace

struct CurlMulti::State {
    std::size_t max_body_bytes = 0;
    std::string no_proxy;
    std::unique_ptr<CURLM, MultiDeleter> multi;
    std::map<CURL*, std::unique_ptr<Transfer>> transfers;

    ~State() {
        for (auto& [easy, transfer] : transfers) curl_multi_remove_handle(multi.get(), easy);
    }
    void drop(CURL* easy) {
        curl_multi_remove_handle(multi.get(), easy);
        transfers.erase(easy);
    }
    void end(CURL* easy, CURLcode code, std::vector<HttpResponse>& done);
};

void CurlMulti::State::end(CURL* easy, CURLcode code, std::vector<HttpResponse>& done) {
    Transfer& transfer = *transfers.at(easy);
    HttpResponse& response = transfer.response;
    long status = 0;
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    response.status = static_cast<int>(status);
    response.elapsed_s =
        std::chrono::duration<double>(SteadyClock::now() - transfer.started).count();
    response.transport = classify(code, status != 0);
    if (transfer.too_large) {
        response.transport = HttpResponse::Transport::kTooLarge;
        response.error = "the answer exceeds " + std::to_string(transfer.max_body_bytes) + " bytes";
        response.body.clear();
    } else if (code != CURLE_OK) {
        const char* detail =
            transfer.error_text[0] ? transfer.error_text.data() : curl_easy_strerror(code);
        response.error = std::string("no complete answer: ") + detail;
    }
    done.push_back(std::move(response));
    drop(easy);
}

CurlMulti::CurlMulti(std::size_t max_body_bytes) : state_(std::make_unique<State>()) {
    start_curl();
    state_->max_body_bytes = max_body_bytes;
    state_->no_proxy = no_proxy_list();
    state_->multi.reset(curl_multi_init());
    require(state_->multi != nullptr, "curl_multi_init");
}

CurlMulti::~CurlMulti() = default;

void CurlMulti::start(HttpRequest request) {
    auto transfer = make_transfer(std::move(request), state_->max_body_bytes, state_->no_proxy);
    CURL* easy = transfer->easy.get();
    require(curl_multi_add_handle(state_->multi.get(), easy) == CURLM_OK, "curl_multi_add_handle");
    state_->transfers.emplace(easy, std::move(transfer));
}

void CurlMulti::poll(double wait_s, std::vector<HttpResponse>& done) {
    CURLM* multi = state_->multi.get();
    const auto before = done.size();
    const auto until = SteadyClock::now() + std::chrono::duration<double>(std::max(0.0, wait_s));
    for (;;) {
        int running = 0;
        require(curl_multi_perform(multi, &running) == CURLM_OK, "curl_multi_perform");
        int queued = 0;
        while (const CURLMsg* message = curl_multi_info_read(multi, &queued)) {
            if (message->msg != CURLMSG_DONE) continue;
            // The message dies with its handle: copy before `end`.
            CURL* easy = message->easy_handle;
            const CURLcode code = message->data.result;
            state_->end(easy, code, done);
        }
        const double left = std::chrono::duration<double>(until - SteadyClock::now()).count();
        if (done.size() > before || left <= 0 || state_->transfers.empty()) return;
        const int wait_ms = static_cast<int>(std::ceil(std::min(left, 60.0) * 1000));
        require(curl_multi_poll(multi, nullptr, 0, wait_ms, nullptr) == CURLM_OK,
                "curl_multi_poll");
    }
}

void CurlMulti::cancel(std::uint64_t id) {
    for (const auto& [easy, transfer] : state_->transfers) {
        if (transfer->request.id == id) {
            state_->drop(easy);
            return;
        }
    }
}

std::size_t CurlMulti::in_flight() const { return state_->transfers.size(); }

}  // namespace accelopt::llm
