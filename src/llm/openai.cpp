#include "llm/openai.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "llm/openai_reply.h"
#include "llm/retry.h"
#include "llm/transport/curl_multi.h"

namespace accelopt::llm {
namespace {

using protocol::LlmOutcome;

constexpr double kConnectTimeout_s = 30;
constexpr std::size_t kMaxErrorLength = 500;
/// Shorter keys ("EMPTY", "none") are not worth hiding in a model's own words, where replacing them
/// would change a kernel.
constexpr std::size_t kMinKeyInText = 16;

std::string endpoint(std::string url) {
    static constexpr std::string_view kPath = "/chat/completions";
    while (!url.empty() && url.back() == '/') url.pop_back();
    const bool complete = url.size() >= kPath.size() &&
                          url.compare(url.size() - kPath.size(), kPath.size(), kPath) == 0;
    return complete ? url : url + std::string(kPath);
}

const std::string* find_header(const HttpResponse& response, const std::string& name) {
    const auto at = response.headers.find(name);
    return at == response.headers.end() ? nullptr : &at->second;
}

std::optional<double> server_wait_s(const HttpResponse& response, double now_unix_s) {
    if (const auto* text = find_header(response, "retry-after-ms")) {
        if (const auto wait = parse_retry_after(*text, now_unix_s)) return *wait / 1000;
    }
    const auto* text = find_header(response, "retry-after");
    if (!text) return std::nullopt;
    // The server's own clock, where it shows it, takes the skew out of a date.
    if (const auto* date = find_header(response, "date")) {
        if (const auto server_now = parse_http_date(*date)) now_unix_s = *server_now;
    }
    return parse_retry_after(*text, now_unix_s);
}

LlmOutcome outcome_of(HttpResponse::Transport transport) {
    switch (transport) {
        case HttpResponse::Transport::kComplete:
            return LlmOutcome::kOk;
        case HttpResponse::Transport::kTimeout:
            return LlmOutcome::kTimeout;
        case HttpResponse::Transport::kConnection:
            return LlmOutcome::kServerError;
        case HttpResponse::Transport::kTruncated:
            return LlmOutcome::kTruncatedStream;
        case HttpResponse::Transport::kTooLarge:
            return LlmOutcome::kMalformed;
        case HttpResponse::Transport::kUntrusted:
            return LlmOutcome::kAuth;
    }
    return LlmOutcome::kServerError;
}

class OpenAiProvider : public Provider {
  public:
    explicit OpenAiProvider(Clock& clock) : clock_(clock) {}

    void start(std::uint64_t ticket, const ModelOptions& model, const Request& request) override {
        HttpRequest http;
        http.id = ticket;
        http.url = endpoint(model.url);
        http.headers = {"Content-Type: application/json", "Accept: application/json"};
        if (!model.api_key.empty()) {
            http.headers.push_back("Authorization: Bearer " + model.api_key.reveal());
        }
        http.body = openai_request_body(model, request);
        http.timeout_s = model.timeout_s;
        http.connect_timeout_s = std::min(kConnectTimeout_s, model.timeout_s);
        keys_[ticket] = model.api_key;
        transport_.start(std::move(http));
    }

    void poll(double wait_s, std::vector<TryResult>& done) override {
        std::vector<HttpResponse> responses;
        transport_.poll(wait_s, responses);
        for (const auto& response : responses) {
            const auto key = keys_.find(response.id);
            done.push_back(read(response, key->second));
            keys_.erase(key);
        }
    }

    void cancel(std::uint64_t ticket) override {
        transport_.cancel(ticket);
        keys_.erase(ticket);
    }

  private:
    TryResult read(const HttpResponse& response, const Secret& key) const {
        TryResult result;
        if (response.transport == HttpResponse::Transport::kComplete) {
            read_openai_reply(response.status, response.body, result);
            if (result.outcome != LlmOutcome::kOk) {
                result.retry_after_s = server_wait_s(response, clock_.unix_s());
            }
        } else {
            result.http_status = response.status;
            result.outcome = outcome_of(response.transport);
            result.error = response.error;
        }
        result.ticket = response.id;
        result.latency_s = response.elapsed_s;
        scrub(key, result);
        return result;
    }

    /// Takes the key out of everything that is kept; a server may well repeat it.
    static void scrub(const Secret& key, TryResult& result) {
        // Scrub before cutting, so that no part of a key is left at the cut.
        result.error = key.scrub(std::move(result.error));
        if (result.error.size() > kMaxErrorLength) {
            std::size_t end = kMaxErrorLength;
            while (end > 0 && (static_cast<unsigned char>(result.error[end]) & 0xC0) == 0x80) --end;
            result.error.resize(end);
        }
        result.usage.raw_json = key.scrub(std::move(result.usage.raw_json));
        if (key.reveal().size() >= kMinKeyInText) {
            result.text = key.scrub(std::move(result.text));
            result.reasoning = key.scrub(std::move(result.reasoning));
        }
    }

    Clock& clock_;
    CurlMulti transport_;
    std::map<std::uint64_t, Secret> keys_;  ///< of the tries in flight
};

}  // namespace

std::shared_ptr<Provider> make_openai_provider(Clock& clock) {
    return std::make_shared<OpenAiProvider>(clock);
}

}  // namespace accelopt::llm
