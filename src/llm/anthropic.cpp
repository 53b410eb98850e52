#include "llm/anthropic.h"

#include <optional>
#include <utility>

#include "llm/http_provider.h"
#include "llm/json_reading.h"
#include "llm/server_error.h"

namespace accelopt::llm {
namespace {

using protocol::LlmOutcome;

constexpr const char* kVersion = "2023-06-01";  // the API's version header

/// Anthropic's counts are disjoint as they come; thinking is part of output_tokens and not told
/// apart. Later counts of a stream are totals: they replace what came before.
void read_usage(const Json& holder, protocol::Usage& usage, Json& raw) {
    const Json* object = member(holder, "usage");
    if (!object || !object->is_object()) return;
    raw.update(*object);
    usage.raw_json = dump(raw);
    const auto take = [&](const char* name, std::optional<std::int64_t>& count) {
        if (const auto value = count_member(*object, name)) count = value;
    };
    take("input_tokens", usage.input_tokens);
    take("cache_read_input_tokens", usage.cached_input_tokens);
    take("cache_creation_input_tokens", usage.cache_write_tokens);
    take("output_tokens", usage.output_tokens);
}

void conclude_anthropic(const std::string& reason, TryResult& result) {
    if (reason == "end_turn" || reason == "stop_sequence") {
        conclude(Finish::kStop, reason, result);
    } else if (reason == "max_tokens" || reason == "model_context_window_exceeded") {
        conclude(Finish::kLength, reason, result);
    } else if (reason == "refusal") {
        conclude(Finish::kRefused, "stop_reason refusal", result);
    } else {
        conclude(reason.empty() ? Finish::kMissing : Finish::kUnknown, reason, result);
    }
}

class AnthropicReader : public EventOrDocumentReader {
  protected:
    bool read_event(const SseEvent& event, bool cut) override {
        const auto data = parse_object(event.data);
        if (!data) {
            if (cut) return true;
            broken_ = event.data;
            return false;
        }
        const std::string type = text_member(*data, "type");
        if (type == "error" || member(*data, "error")) {
            error_ = event.data;
            return false;
        }
        if (type == "message_start") {
            if (const Json* message = member(*data, "message")) read_usage(*message, usage_, raw_);
        } else if (type == "content_block_start") {
            if (const Json* block = member(*data, "content_block")) read_block(*block);
        } else if (type == "content_block_delta") {
            if (const Json* delta = member(*data, "delta")) read_block(*delta);
        } else if (type == "message_delta") {
            read_usage(*data, usage_, raw_);
            if (const Json* delta = member(*data, "delta")) {
                const std::string reason = text_member(*delta, "stop_reason");
                if (!reason.empty()) reason_ = reason;
            }
        }
        return type != "message_stop";
    }

    void finish_stream(bool, TryResult& result) override {
        result.text = std::move(text_);
        result.reasoning = std::move(reasoning_);
        result.usage = std::move(usage_);
        if (!conclude_broken_stream(error_, broken_, result)) conclude_anthropic(reason_, result);
    }

    void finish_document(const std::string& body, TryResult& result) override {
        const auto message = parse_object(body);
        if (message) read_usage(*message, usage_, raw_);
        result.usage = std::move(usage_);
        if (message && (text_member(*message, "type") == "error" || member(*message, "error"))) {
            read_error_body(result.http_status, body, result);
            return;
        }
        const Json* content = message ? member(*message, "content") : nullptr;
        if (!content || !content->is_array()) {
            result.outcome = LlmOutcome::kMalformed;
            result.error = "the answer is not a message with content: " + one_line(body);
            return;
        }
        for (const auto& block : *content) read_block(block);
        result.text = std::move(text_);
        result.reasoning = std::move(reasoning_);
        conclude_anthropic(text_member(*message, "stop_reason"), result);
    }

  private:
    /// A block or a piece of one: text and thinking are told apart by their members.
    void read_block(const Json& block) {
        text_ += text_member(block, "text");
        reasoning_ += text_member(block, "thinking");
    }

    std::string text_;
    std::string reasoning_;
    std::string reason_;
    protocol::Usage usage_;
    Json raw_ = Json::object();
    std::optional<std::string> error_;
    std::optional<std::string> broken_;
};

class AnthropicDialect : public Dialect {
  public:
    HttpRequest write_request(const ModelOptions& model, const Request& request,
                              double) const override {
        HttpRequest http;
        http.url = join_url(model.url, "/messages");
        http.headers = {"Content-Type: application/json",
                        std::string("anthropic-version: ") + kVersion};
        if (!model.api_key.empty()) {
            http.headers.push_back("x-api-key: " + model.api_key.reveal());
        }
        http.body = anthropic_request_body(model, request);
        return http;
    }

    std::unique_ptr<ReplyReader> make_reader(const ModelOptions&) const override {
        return make_anthropic_reader();
    }
};

}  // namespace

std::string anthropic_request_body(const ModelOptions& model, const Request& request) {
    Json messages = Json::array();
    Json system = Json::array();
    for (const auto& message : request.messages) {
        if (message.speaker == "system") {
            system.push_back({{"type", "text"}, {"text", message.text}});
        } else {
            messages.push_back({{"role", message.speaker}, {"content", message.text}});
        }
    }
    // Everything up to the mark is read from the provider's cache the next time.
    if (model.cache_prompt && !system.empty()) {
        system.back()["cache_control"] = {{"type", "ephemeral"}};
    }
    Json body = {{"model", model.name},
                 {"max_tokens", model.max_tokens},
                 {"messages", std::move(messages)},
                 {"temperature", model.temperature},
                 {"stream", model.stream}};
    if (!system.empty()) body["system"] = std::move(system);
    if (model.thinking_tokens > 0) {
        body["thinking"] = {{"type", "enabled"}, {"budget_tokens", model.thinking_tokens}};
    }
    return dump(body);
}

std::unique_ptr<ReplyReader> make_anthropic_reader() { return std::make_unique<AnthropicReader>(); }

std::shared_ptr<Provider> make_anthropic_provider(Clock& clock) {
    return make_http_provider(std::make_unique<AnthropicDialect>(), clock);
}

}  // namespace accelopt::llm
