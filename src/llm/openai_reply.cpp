#include "llm/openai_reply.h"

#include <optional>
#include <utility>

#include "llm/json_reading.h"
#include "llm/server_error.h"

namespace accelopt::llm {
namespace {

using protocol::LlmOutcome;

/// Makes disjoint classes of the server's counts, whose sum is the server's total (needs.md N19,
/// N20): cached tokens are inside the prompt; reasoning is inside the completion, unless the total
/// says that it is extra.
protocol::Usage read_usage(const Json& reply) {
    protocol::Usage usage;
    const Json* object = member(reply, "usage");
    if (!object || !object->is_object()) return usage;
    usage.raw_json = dump(*object);
    const auto prompt = count_member(*object, "prompt_tokens");
    const auto completion = count_member(*object, "completion_tokens");
    const auto total = count_member(*object, "total_tokens");
    std::optional<std::int64_t> cached;
    std::optional<std::int64_t> reasoning;
    if (const Json* details = member(*object, "prompt_tokens_details")) {
        cached = count_member(*details, "cached_tokens");
    }
    if (const Json* details = member(*object, "completion_tokens_details")) {
        reasoning = count_member(*details, "reasoning_tokens");
    }
    usage.input_tokens = prompt;
    if (prompt && cached && *cached <= *prompt) {
        usage.cached_input_tokens = cached;
        usage.input_tokens = *prompt - *cached;
    }
    usage.output_tokens = completion;
    if (completion && reasoning) {
        const bool extra =
            *reasoning > *completion ||
            (*reasoning > 0 && prompt && total && *total == *prompt + *completion + *reasoning);
        usage.reasoning_tokens = reasoning;
        if (!extra) usage.output_tokens = *completion - *reasoning;
    }
    return usage;
}

/// The text of a message or a delta: a string, or the text parts of a list.
std::string read_content(const Json& message) {
    const Json* content = member(message, "content");
    if (!content) return {};
    if (content->is_string()) return content->get<std::string>();
    std::string text;
    if (content->is_array()) {
        for (const auto& part : *content) {
            if (text_member(part, "type") == "text") text += text_member(part, "text");
        }
    }
    return text;
}

std::string read_reasoning(const Json& message) {
    std::string reasoning = text_member(message, "reasoning_content");
    return reasoning.empty() ? text_member(message, "reasoning") : reasoning;
}

/// Sets the outcome from finish_reason; result.text and result.reasoning are complete.
void conclude_openai(const std::string& finish, const std::string& refusal, TryResult& result) {
    split_inline_reasoning(result);
    if (!refusal.empty()) {
        conclude(Finish::kRefused, refusal, result);
    } else if (finish == "stop" || finish == "eos" || finish == "eos_token" ||
               finish == "end_turn" || finish == "stop_sequence") {
        conclude(Finish::kStop, finish, result);
    } else if (finish == "length" || finish == "max_tokens") {
        conclude(Finish::kLength, finish, result);
    } else if (finish == "content_filter") {
        conclude(Finish::kFiltered, finish, result);
    } else {
        conclude(finish.empty() ? Finish::kMissing : Finish::kUnknown, finish, result);
    }
}

void read_document(const Json& reply, TryResult& result) {
    const Json* choices = member(reply, "choices");
    if (!choices || !choices->is_array() || choices->empty()) {
        result.outcome = LlmOutcome::kMalformed;
        result.error = "the answer has no choices";
        return;
    }
    const Json& choice = choices->front();
    const Json* message = member(choice, "message");
    if (!message || !message->is_object()) {
        result.outcome = LlmOutcome::kMalformed;
        result.error = "the answer has no choices[0].message";
        return;
    }
    result.text = read_content(*message);
    result.reasoning = read_reasoning(*message);
    conclude_openai(text_member(choice, "finish_reason"), text_member(*message, "refusal"), result);
}

class OpenAiReader : public EventOrDocumentReader {
  protected:
    bool read_event(const SseEvent& event, bool cut) override {
        if (event.data == "[DONE]") {
            done_ = true;
            return false;
        }
        const auto chunk = parse_object(event.data);
        if (!chunk) {
            if (cut) return true;
            broken_ = event.data;
            return false;
        }
        if (member(*chunk, "error") || event.name == "error") {
            error_ = event.data;
            return false;
        }
        // Usage comes in a last chunk without choices; some servers repeat a running total.
        auto usage = read_usage(*chunk);
        if (!usage.raw_json.empty()) usage_ = std::move(usage);
        const Json* choices = member(*chunk, "choices");
        if (!choices || !choices->is_array() || choices->empty()) return true;
        const Json& choice = choices->front();
        if (const Json* delta = member(choice, "delta")) {
            text_ += read_content(*delta);
            reasoning_ += read_reasoning(*delta);
            refusal_ += text_member(*delta, "refusal");
        }
        const std::string finish = text_member(choice, "finish_reason");
        if (!finish.empty()) finish_ = finish;
        return true;
    }

    void finish_stream(bool, TryResult& result) override {
        result.text = std::move(text_);
        result.reasoning = std::move(reasoning_);
        result.usage = std::move(usage_);
        if (conclude_broken_stream(error_, broken_, result)) return;
        conclude_openai(finish_, refusal_, result);
        if (finish_.empty() && done_ && refusal_.empty()) {
            result.error = "the stream ended without a finish_reason";
        }
    }

    void finish_document(const std::string& body, TryResult& result) override {
        read_openai_reply(result.http_status, body, result);
    }

  private:
    std::string text_;
    std::string reasoning_;
    std::string refusal_;
    std::string finish_;
    protocol::Usage usage_;
    std::optional<std::string> error_;
    std::optional<std::string> broken_;
    bool done_ = false;
};

}  // namespace

std::string openai_request_body(const ModelOptions& model, const Request& request) {
    Json messages = Json::array();
    for (const auto& message : request.messages) {
        messages.push_back({{"role", message.speaker}, {"content", message.text}});
    }
    Json body = {{"model", model.name},
                 {"messages", std::move(messages)},
                 {"temperature", model.temperature},
                 {model.token_field, model.max_tokens},
                 {"stream", model.stream}};
    if (model.stream) body["stream_options"] = {{"include_usage", true}};
    if (model.reasoning) body["reasoning_effort"] = *model.reasoning;
    return dump(body);
}

void read_openai_reply(int http_status, std::string_view body, TryResult& result) {
    result.http_status = http_status;
    const auto reply = parse_object(body);
    if (reply) result.usage = read_usage(*reply);
    const bool error = reply && member(*reply, "error");
    if (http_status < 200 || http_status > 299 || error) {
        read_error_body(http_status, body, result);
        return;
    }
    if (!reply) {
        result.outcome = LlmOutcome::kMalformed;
        result.error = "the answer is not a JSON object: " + one_line(body);
        return;
    }
    read_document(*reply, result);
}

std::unique_ptr<ReplyReader> make_openai_reader() { return std::make_unique<OpenAiReader>(); }

}  // namespace accelopt::llm
