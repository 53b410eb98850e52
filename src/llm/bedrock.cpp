#include "llm/bedrock.h"

#include <utility>

#include "llm/http_provider.h"
#include "llm/json_reading.h"
#include "llm/server_error.h"
#include "llm/sigv4.h"

namespace accelopt::llm {
namespace {

using protocol::LlmOutcome;

/// TokenUsage of the API reference. Whether cached tokens are inside inputTokens follows from the
/// total that the server sends; without one they count as extra.
protocol::Usage read_usage(const Json& reply) {
    protocol::Usage usage;
    const Json* object = member(reply, "usage");
    if (!object || !object->is_object()) return usage;
    usage.raw_json = dump(*object);
    usage.input_tokens = count_member(*object, "inputTokens");
    usage.output_tokens = count_member(*object, "outputTokens");
    usage.cached_input_tokens = count_member(*object, "cacheReadInputTokens");
    usage.cache_write_tokens = count_member(*object, "cacheWriteInputTokens");
    const auto total = count_member(*object, "totalTokens");
    const std::int64_t cached =
        usage.cached_input_tokens.value_or(0) + usage.cache_write_tokens.value_or(0);
    const bool inside = total && usage.input_tokens && usage.output_tokens && cached > 0 &&
                        cached <= *usage.input_tokens &&
                        *total == *usage.input_tokens + *usage.output_tokens;
    if (inside) *usage.input_tokens -= cached;
    return usage;
}

class BedrockReader : public ReplyReader {
  public:
    bool take(std::string_view, std::string_view bytes) override {
        body_ += bytes;
        return true;
    }

    void finish(bool whole, TryResult& result) override {
        if (!whole) {
            result.outcome = LlmOutcome::kTruncatedStream;
            result.error = "the answer broke off";
            return;
        }
        const auto reply = parse_object(body_);
        if (reply) result.usage = read_usage(*reply);
        const Json* output = reply ? member(*reply, "output") : nullptr;
        const Json* message = output ? member(*output, "message") : nullptr;
        const Json* content = message ? member(*message, "content") : nullptr;
        if (!content || !content->is_array()) {
            result.outcome = LlmOutcome::kMalformed;
            result.error = "the answer has no output.message.content: " + one_line(body_);
            return;
        }
        for (const auto& block : *content) {
            result.text += text_member(block, "text");
            const Json* reasoning = member(block, "reasoningContent");
            const Json* text = reasoning ? member(*reasoning, "reasoningText") : nullptr;
            if (text) result.reasoning += text_member(*text, "text");
        }
        conclude_bedrock(text_member(*reply, "stopReason"), result);
    }

  private:
    static void conclude_bedrock(const std::string& reason, TryResult& result) {
        if (reason == "end_turn" || reason == "stop_sequence") {
            conclude(Finish::kStop, reason, result);
        } else if (reason == "max_tokens" || reason == "model_context_window_exceeded") {
            conclude(Finish::kLength, reason, result);
        } else if (reason == "content_filtered" || reason == "guardrail_intervened") {
            conclude(Finish::kFiltered, reason, result);
        } else {
            conclude(reason.empty() ? Finish::kMissing : Finish::kUnknown, reason, result);
        }
    }

    std::string body_;
};

std::string host_of(const std::string& url) {
    const auto begin = url.find("//") + 2;
    return url.substr(begin, url.find('/', begin) - begin);
}

class BedrockDialect : public Dialect {
  public:
    HttpRequest write_request(const ModelOptions& model, const Request& request,
                              double now_unix_s) const override {
        const std::string base = bedrock_address(model);
        SigV4Request to_sign;
        to_sign.method = "POST";
        // A model id may hold a colon: encoded in the address, and encoded again in what is signed.
        to_sign.path = "/model/" + percent_encode(model.name, false) + "/converse";
        to_sign.body = bedrock_request_body(model, request);
        SigV4Scope scope{model.api_key.reveal(), model.secret_key.reveal(), model.region, "bedrock",
                         amz_timestamp(now_unix_s)};
        to_sign.headers = {{"content-type", "application/json"},
                           {"host", host_of(base)},
                           {"x-amz-date", scope.timestamp}};
        if (!model.session_token.empty()) {
            to_sign.headers["x-amz-security-token"] = model.session_token.reveal();
        }
        HttpRequest http;
        http.url = base + to_sign.path;
        for (const auto& [name, value] : to_sign.headers) {
            if (name != "host") http.headers.push_back(name + ": " + value);
        }
        http.headers.push_back("Authorization: " + sigv4_authorization(to_sign, scope));
        http.body = std::move(to_sign.body);
        return http;
    }

    std::unique_ptr<ReplyReader> make_reader(const ModelOptions&) const override {
        return make_bedrock_reader();
    }

    void read_error(const HttpResponse& response, TryResult& result) const override {
        ServerError error;
        const auto document = parse_object(response.body);
        if (document) {
            error.message = text_member(*document, "message");
            if (error.message.empty()) error.message = text_member(*document, "Message");
            error.type = text_member(*document, "__type");
        }
        const auto type = response.headers.find("x-amzn-errortype");
        // "ThrottlingException:http://internal.amazon.com/coral/...": the name comes first.
        if (type != response.headers.end())
            error.code = type->second.substr(0, type->second.find(':'));
        const auto hash = error.type.find('#');
        if (hash != std::string::npos) error.type = error.type.substr(hash + 1);
        if (error.message.empty()) error.message = response.body;
        classify_error(response.status, error, result);
    }
};

}  // namespace

std::string bedrock_address(const ModelOptions& model) {
    std::string base = model.url;
    if (base.empty()) base = "https://bedrock-runtime." + model.region + ".amazonaws.com";
    while (base.back() == '/') base.pop_back();
    return base;
}

std::string bedrock_request_body(const ModelOptions& model, const Request& request) {
    Json messages = Json::array();
    Json system = Json::array();
    for (const auto& message : request.messages) {
        if (message.speaker == "system") {
            system.push_back({{"text", message.text}});
        } else {
            messages.push_back(
                {{"role", message.speaker}, {"content", Json::array({{{"text", message.text}}})}});
        }
    }
    if (model.cache_prompt && !system.empty()) {
        system.push_back({{"cachePoint", {{"type", "default"}}}});
    }
    Json body = {
        {"messages", std::move(messages)},
        {"inferenceConfig", {{"maxTokens", model.max_tokens}, {"temperature", model.temperature}}}};
    if (!system.empty()) body["system"] = std::move(system);
    if (model.thinking_tokens > 0) {
        body["additionalModelRequestFields"] = {
            {"thinking", {{"type", "enabled"}, {"budget_tokens", model.thinking_tokens}}}};
    } else if (model.reasoning) {
        body["additionalModelRequestFields"] = {{"reasoning_effort", *model.reasoning}};
    }
    return dump(body);
}

std::unique_ptr<ReplyReader> make_bedrock_reader() { return std::make_unique<BedrockReader>(); }

std::shared_ptr<Provider> make_bedrock_provider(Clock& clock) {
    return make_http_provider(std::make_unique<BedrockDialect>(), clock);
}

}  // namespace accelopt::llm
