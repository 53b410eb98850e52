#include "llm/http_provider.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "llm/server_error.h"
#include "llm/server_wait.h"

namespace accelopt::llm {
namespace {

using protocol::LlmOutcome;

constexpr double kConnectTimeout_s = 30;
constexpr std::size_t kMaxErrorLength = 500;
/// Shorter keys ("EMPTY", "none") are not worth hiding in a model's own words, where replacing them
/// would change a kernel.
constexpr std::size_t kMinKeyInText = 16;

/// Hands the bytes of one answer to its reader.
class ReaderSink : public BodySink {
  public:
    explicit ReaderSink(std::unique_ptr<ReplyReader> reader) : reader_(std::move(reader)) {}
    bool take(const HttpHeaders& headers, std::string_view bytes) override {
        const auto type = headers.find("content-type");
        return reader_->take(type == headers.end() ? std::string_view() : type->second, bytes);
    }
    ReplyReader& reader() { return *reader_; }

  private:
    std::unique_ptr<ReplyReader> reader_;
};

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

class HttpProvider : public Provider {
  public:
    HttpProvider(std::unique_ptr<Dialect> dialect, Clock& clock)
        : dialect_(std::move(dialect)), clock_(clock) {}

    void start(std::uint64_t ticket, const ModelOptions& model, const Request& request) override {
        HttpRequest http = dialect_->write_request(model, request, clock_.unix_s());
        auto sink = std::make_shared<ReaderSink>(dialect_->make_reader(model));
        http.id = ticket;
        http.timeout_s = model.timeout_s;
        http.connect_timeout_s = std::min(kConnectTimeout_s, model.timeout_s);
        http.stall_timeout_s = model.stall_timeout_s;
        http.stall_from_start = model.stream;
        http.sink = sink;
        tries_.insert_or_assign(ticket, Try{model, std::move(sink)});
        transport_.start(std::move(http));
    }

    void poll(double wait_s, std::vector<TryResult>& done) override {
        std::vector<HttpResponse> responses;
        transport_.poll(wait_s, responses);
        for (const auto& response : responses) {
            const auto at = tries_.find(response.id);
            done.push_back(read(response, at->second));
            tries_.erase(at);
        }
    }

    void cancel(std::uint64_t ticket) override {
        transport_.cancel(ticket);
        tries_.erase(ticket);
    }

  private:
    struct Try {
        ModelOptions model;
        std::shared_ptr<ReaderSink> sink;
    };

    TryResult read(const HttpResponse& response, Try& a_try) const {
        TryResult result;
        result.ticket = response.id;
        result.http_status = response.status;
        result.latency_s = response.elapsed_s;
        const bool complete = response.transport == HttpResponse::Transport::kComplete;
        if (response.status >= 200 && response.status <= 299) {
            a_try.sink->reader().finish(complete, result);
            // What an incomplete answer used is billed all the same; what ended it is the
            // transport.
            if (result.outcome == LlmOutcome::kTruncatedStream && !complete) {
                result.outcome = outcome_of(response.transport);
                result.error = response.error;
            }
        } else if (complete) {
            dialect_->read_error(response, result);
        } else {
            result.outcome = outcome_of(response.transport);
            result.error = response.error;
        }
        const ServerWait wait = read_server_wait(response.headers, clock_.unix_s());
        if (result.outcome != LlmOutcome::kOk) result.retry_after_s = wait.retry_after_s;
        result.limit_reset_s = wait.used_up_s;
        scrub(a_try.model, result);
        return result;
    }

    std::unique_ptr<Dialect> dialect_;
    Clock& clock_;
    CurlMulti transport_;
    std::map<std::uint64_t, Try> tries_;  ///< in flight
};

}  // namespace

void Dialect::read_error(const HttpResponse& response, TryResult& result) const {
    read_error_body(response.status, response.body, result);
}

void scrub(const ModelOptions& model, TryResult& result) {
    for (const Secret* key : {&model.api_key, &model.secret_key, &model.session_token}) {
        if (key->empty()) continue;
        result.error = key->scrub(std::move(result.error));
        result.usage.raw_json = key->scrub(std::move(result.usage.raw_json));
        if (key->reveal().size() < kMinKeyInText) continue;
        result.text = key->scrub(std::move(result.text));
        result.reasoning = key->scrub(std::move(result.reasoning));
    }
    // Scrub before cutting, so that no part of a key is left at the cut.
    if (result.error.size() <= kMaxErrorLength) return;
    std::size_t end = kMaxErrorLength;
    while (end > 0 && (static_cast<unsigned char>(result.error[end]) & 0xC0) == 0x80) --end;
    result.error.resize(end);
}

std::string join_url(std::string base, const std::string& path) {
    while (!base.empty() && base.back() == '/') base.pop_back();
    const bool complete = base.size() >= path.size() &&
                          base.compare(base.size() - path.size(), path.size(), path) == 0;
    return complete ? base : base + path;
}

std::shared_ptr<Provider> make_http_provider(std::unique_ptr<Dialect> dialect, Clock& clock) {
    return std::make_shared<HttpProvider>(std::move(dialect), clock);
}

}  // namespace accelopt::llm
