#include "llm/transport/curl_multi.h"

#include <curl/curl.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <string_view>
#include <unordered_map>
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
    SteadyClock::time_point last_byte;  ///< or the start
    std::size_t body_bytes = 0;
    std::size_t sent_bytes = 0;  ///< of the request's body
    bool answering = false;      ///< a byte has come
    bool complete = false;       ///< the sink needs no more
    SteadyClock::time_point completed;
};

void note_bytes(Transfer& transfer) {
    transfer.answering = true;
    transfer.last_byte = SteadyClock::now();
}

std::size_t give_body(char* buffer, std::size_t size, std::size_t count, void* user) {
    auto& transfer = *static_cast<Transfer*>(user);
    const std::string& body = transfer.request.body;
    const std::size_t length = std::min(size * count, body.size() - transfer.sent_bytes);
    body.copy(buffer, length, transfer.sent_bytes);
    transfer.sent_bytes += length;
    return length;
}

/// curl sends a request again by itself when a kept connection dies before the answer. The server
/// may have seen, and billed, the first: every time a request is sent has to be a try of its own.
int refuse_rewind(void*, curl_off_t, int) { return CURL_SEEKFUNC_FAIL; }

int status_of(std::string_view status_line) {
    const auto space = status_line.find(' ');
    int status = 0;
    if (space == std::string_view::npos) return status;
    for (const char c : status_line.substr(space + 1, 3)) {
        if (c < '0' || c > '9') return 0;
        status = status * 10 + (c - '0');
    }
    return status;
}

std::size_t take_body(char* bytes, std::size_t size, std::size_t count, void* user) {
    auto& transfer = *static_cast<Transfer*>(user);
    const std::size_t length = size * count;
    note_bytes(transfer);
    transfer.body_bytes += length;
    if (transfer.body_bytes > transfer.max_body_bytes) {
        transfer.too_large = true;
        return 0;
    }
    const bool good = transfer.response.status >= 200 && transfer.response.status <= 299;
    if (!transfer.request.sink || !good) {
        transfer.response.body.append(bytes, length);
    } else if (!transfer.complete &&
               !transfer.request.sink->take(transfer.response.headers, {bytes, length})) {
        transfer.complete = true;
        transfer.completed = transfer.last_byte;
    }
    return length;
}

std::size_t take_header(char* bytes, std::size_t size, std::size_t count, void* user) {
    static constexpr std::size_t kMaxHeaders = 200;
    auto& transfer = *static_cast<Transfer*>(user);
    auto& headers = transfer.response.headers;
    const std::string_view line(bytes, size * count);
    note_bytes(transfer);
    if (line.substr(0, 5) == "HTTP/") {
        headers.clear();  // after "100 Continue", say
        transfer.response.status = status_of(line);
    }
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

std::string variable(std::initializer_list<const char*> names) {
    for (const char* name : names) {
        const char* value = std::getenv(name);
        if (value && *value) return value;
    }
    return {};
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

/// What the standard variables say, read once.
struct Environment {
    std::string no_proxy = no_proxy_list();
    std::string ca_file = variable({"CURL_CA_BUNDLE", "SSL_CERT_FILE"});
    std::string ca_folder = variable({"SSL_CERT_DIR"});
};

void set_limits(CURL* easy, const HttpRequest& request) {
    set(easy, CURLOPT_TIMEOUT_MS, milliseconds(request.timeout_s));
    set(easy, CURLOPT_CONNECTTIMEOUT_MS, milliseconds(request.connect_timeout_s));
    set(easy, CURLOPT_NOSIGNAL, 1L);
    set(easy, CURLOPT_TCP_KEEPALIVE, 1L);  // minutes of silence while a model thinks
}

void set_security(CURL* easy, const HttpRequest& request, const Environment& environment) {
    set(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    set(easy, CURLOPT_FOLLOWLOCATION, 0L);  // a redirect must not carry the key elsewhere
    set(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);  // a proxy's are not the model's
    set(easy, CURLOPT_NOPROXY, environment.no_proxy.c_str());
    set(easy, CURLOPT_SSL_VERIFYPEER, 1L);
    set(easy, CURLOPT_SSL_VERIFYHOST, 2L);
    if (!environment.ca_file.empty()) set(easy, CURLOPT_CAINFO, environment.ca_file.c_str());
    if (!environment.ca_folder.empty()) set(easy, CURLOPT_CAPATH, environment.ca_folder.c_str());
    // With HTTP/2 one connection carries many calls: better to wait for it than to open another.
    if (request.url.rfind("https:", 0) == 0) set(easy, CURLOPT_PIPEWAIT, 1L);
}

std::unique_ptr<Transfer> make_transfer(HttpRequest request, std::size_t max_body_bytes,
                                        const Environment& environment) {
    auto transfer = std::make_unique<Transfer>();
    transfer->request = std::move(request);
    transfer->max_body_bytes = max_body_bytes;
    transfer->response.id = transfer->request.id;
    transfer->started = SteadyClock::now();
    transfer->last_byte = transfer->started;
    transfer->easy.reset(curl_easy_init());
    CURL* easy = transfer->easy.get();
    require(easy != nullptr, "curl_easy_init");
    // "Expect:" switches off the wait for "100 Continue" before a long prompt.
    transfer->headers.reset(curl_slist_append(nullptr, "Expect:"));
    for (const auto& header : transfer->request.headers) {
        require(curl_slist_append(transfer->headers.get(), header.c_str()), "curl_slist_append");
    }
    const HttpRequest& http = transfer->request;
    set(easy, CURLOPT_URL, http.url.c_str());
    set_limits(easy, http);
    set_security(easy, http, environment);
    set(easy, CURLOPT_ACCEPT_ENCODING, "");
    set(easy, CURLOPT_USERAGENT, "accelopt");
    set(easy, CURLOPT_HTTPHEADER, transfer->headers.get());
    if (!http.get) {
        set(easy, CURLOPT_POST, 1L);
        set(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(http.body.size()));
        set(easy, CURLOPT_READFUNCTION, &give_body);
        set(easy, CURLOPT_READDATA, static_cast<void*>(transfer.get()));
        set(easy, CURLOPT_SEEKFUNCTION, &refuse_rewind);
    }
    set(easy, CURLOPT_WRITEFUNCTION, &take_body);
    set(easy, CURLOPT_WRITEDATA, static_cast<void*>(transfer.get()));
    set(easy, CURLOPT_HEADERFUNCTION, &take_header);
    set(easy, CURLOPT_HEADERDATA, static_cast<void*>(transfer.get()));
    set(easy, CURLOPT_ERRORBUFFER, transfer->error_text.data());
    return transfer;
}

}  // namespace

/// After a complete answer the server has this long to end the body, so that the connection can be
/// used again.
constexpr double kLinger_s = 0.5;
/// Idle connections that are kept for the next calls.
constexpr long kKeptConnections = 1024;
/// How often the transfers are looked through for stalls.
constexpr double kCheck_s = 0.2;

struct CurlMulti::State {
    std::size_t max_body_bytes = 0;
    Environment environment;
    std::unique_ptr<CURLM, MultiDeleter> multi;
    std::map<CURL*, std::unique_ptr<Transfer>> transfers;
    std::unordered_map<std::uint64_t, CURL*> by_id;
    SteadyClock::time_point next_check;

    ~State() {
        for (auto& [easy, transfer] : transfers) curl_multi_remove_handle(multi.get(), easy);
    }
    void drop(CURL* easy) {
        const auto at = transfers.find(easy);
        curl_multi_remove_handle(multi.get(), easy);
        by_id.erase(at->second->request.id);
        transfers.erase(at);
    }
    void end(CURL* easy, CURLcode code, std::vector<HttpResponse>& done);
    void end_stalled(std::vector<HttpResponse>& done);
};

/// Ends what has stalled, and what is complete although the server keeps the body open.
void CurlMulti::State::end_stalled(std::vector<HttpResponse>& done) {
    const auto now = SteadyClock::now();
    if (now < next_check) return;
    next_check = now + std::chrono::duration_cast<SteadyClock::duration>(
                           std::chrono::duration<double>(kCheck_s));
    const auto seconds_since = [now](SteadyClock::time_point then) {
        return std::chrono::duration<double>(now - then).count();
    };
    std::vector<std::pair<CURL*, CURLcode>> ends;
    for (auto& [easy, transfer] : transfers) {
        const double limit = transfer->request.stall_timeout_s;
        if (transfer->complete) {
            if (seconds_since(transfer->completed) > kLinger_s) ends.emplace_back(easy, CURLE_OK);
        } else if (limit > 0 && (transfer->answering || transfer->request.stall_from_start) &&
                   seconds_since(transfer->last_byte) > limit) {
            ends.emplace_back(easy, CURLE_OPERATION_TIMEDOUT);
        }
    }
    for (const auto& [easy, code] : ends) {
        Transfer& transfer = *transfers.at(easy);
        if (code == CURLE_OPERATION_TIMEDOUT) {
            std::snprintf(transfer.error_text.data(), transfer.error_text.size(),
                          "no byte came for %.1f s", transfer.request.stall_timeout_s);
        }
        end(easy, code, done);
    }
}

void CurlMulti::State::end(CURL* easy, CURLcode code, std::vector<HttpResponse>& done) {
    Transfer& transfer = *transfers.at(easy);
    HttpResponse& response = transfer.response;
    long status = 0;
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    response.status = static_cast<int>(status);
    response.elapsed_s =
        std::chrono::duration<double>(SteadyClock::now() - transfer.started).count();
    response.transport = classify(code, status != 0);
    if (transfer.complete) {
        response.transport = HttpResponse::Transport::kComplete;
    } else if (transfer.too_large) {
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
    state_->multi.reset(curl_multi_init());
    require(state_->multi != nullptr, "curl_multi_init");
    curl_multi_setopt(state_->multi.get(), CURLMOPT_MAXCONNECTS, kKeptConnections);
}

CurlMulti::~CurlMulti() = default;

void CurlMulti::start(HttpRequest request) {
    auto transfer = make_transfer(std::move(request), state_->max_body_bytes, state_->environment);
    CURL* easy = transfer->easy.get();
    require(curl_multi_add_handle(state_->multi.get(), easy) == CURLM_OK, "curl_multi_add_handle");
    state_->by_id[transfer->request.id] = easy;
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
        state_->end_stalled(done);
        const double left = std::chrono::duration<double>(until - SteadyClock::now()).count();
        if (done.size() > before || left <= 0 || state_->transfers.empty()) return;
        const int wait_ms = static_cast<int>(std::ceil(std::min(left, kCheck_s) * 1000));
        require(curl_multi_poll(multi, nullptr, 0, wait_ms, nullptr) == CURLM_OK,
                "curl_multi_poll");
    }
}

void CurlMulti::cancel(std::uint64_t id) {
    const auto at = state_->by_id.find(id);
    if (at != state_->by_id.end()) state_->drop(at->second);
}

std::size_t CurlMulti::in_flight() const { return state_->transfers.size(); }

}  // namespace accelopt::llm
