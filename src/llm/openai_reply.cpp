#include "llm/openai_reply.h"

#include <array>
#include <cctype>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

namespace accelopt::llm {
namespace {

using nlohmann::json;
using protocol::LlmOutcome;

/// Deeper answers are refused while they are read: their tree would cost far more than their text.
constexpr int kMaxDepth = 64;

struct TooDeep {};

std::optional<json> parse_body(std::string_view body) {
    const auto guard = [](int depth, json::parse_event_t, json&) {
        if (depth > kMaxDepth) throw TooDeep{};
        return true;
    };
    try {
        json value = json::parse(body, guard);
        if (value.is_object()) return value;
    } catch (const json::exception&) {
    } catch (const TooDeep&) {
    }
    return std::nullopt;
}

const json* member(const json& object, const char* name) {
    if (!object.is_object()) return nullptr;
    const auto at = object.find(name);
    return at == object.end() || at->is_null() ? nullptr : &*at;
}

std::string text_member(const json& object, const char* name) {
    const json* value = member(object, name);
    return value && value->is_string() ? value->get<std::string>() : std::string();
}

std::optional<std::int64_t> count_member(const json& object, const char* name) {
    const json* value = member(object, name);
    if (!value || !value->is_number()) return std::nullopt;
    const double number = value->get<double>();
    if (!(number >= 0) || number > 1e15 || number != std::floor(number)) return std::nullopt;
    return static_cast<std::int64_t>(number);
}

/// One line of printable text for a ledger row.
std::string one_line(std::string_view text) {
    std::string line;
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        const char shown = byte < 0x20 || byte == 0x7f ? ' ' : c;
        if (shown == ' ' && (line.empty() || line.back() == ' ')) continue;
        line += shown;
    }
    return line;
}

/// Makes disjoint classes of the server's counts, whose sum is the server's total (needs.md N19,
/// N20): cached tokens are inside the prompt; reasoning is inside the completion, unless the total
/// says that it is extra.
protocol::Usage read_usage(const json& reply) {
    protocol::Usage usage;
    const json* object = member(reply, "usage");
    if (!object || !object->is_object()) return usage;
    usage.raw_json = object->dump(-1, ' ', false, json::error_handler_t::replace);
    const auto prompt = count_member(*object, "prompt_tokens");
    const auto completion = count_member(*object, "completion_tokens");
    const auto total = count_member(*object, "total_tokens");
    std::optional<std::int64_t> cached;
    std::optional<std::int64_t> reasoning;
    if (const json* details = member(*object, "prompt_tokens_details")) {
        cached = count_member(*details, "cached_tokens");
    }
    if (const json* details = member(*object, "completion_tokens_details")) {
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

std::optional<LlmOutcome> outcome_of_code(const std::string& code) {
    struct Entry {
        const char* code;
        LlmOutcome outcome;
    };
    static constexpr std::array<Entry, 24> kCodes = {{
        {"insufficient_quota", LlmOutcome::kQuotaExhausted},
        {"billing_hard_limit_reached", LlmOutcome::kQuotaExhausted},
        {"billing_not_active", LlmOutcome::kQuotaExhausted},
        {"rate_limit_exceeded", LlmOutcome::kRateLimited},
        {"rate_limit_error", LlmOutcome::kRateLimited},
        {"requests", LlmOutcome::kRateLimited},
        {"tokens", LlmOutcome::kRateLimited},
        {"context_length_exceeded", LlmOutcome::kContextOverflow},
        {"string_above_max_length", LlmOutcome::kContextOverflow},
        {"content_filter", LlmOutcome::kFiltered},
        {"content_policy_violation", LlmOutcome::kFiltered},
        {"invalid_api_key", LlmOutcome::kAuth},
        {"authentication_error", LlmOutcome::kAuth},
        {"permission_error", LlmOutcome::kAuth},
        {"permission_denied", LlmOutcome::kAuth},
        {"overloaded_error", LlmOutcome::kOverloaded},
        {"overloaded", LlmOutcome::kOverloaded},
        {"engine_overloaded", LlmOutcome::kOverloaded},
        {"service_unavailable", LlmOutcome::kOverloaded},
        {"server_error", LlmOutcome::kServerError},
        {"api_error", LlmOutcome::kServerError},
        {"internal_error", LlmOutcome::kServerError},
        {"internal_server_error", LlmOutcome::kServerError},
        {"timeout", LlmOutcome::kTimeout},
    }};
    for (const auto& entry : kCodes) {
        if (code == entry.code) return entry.outcome;
    }
    return std::nullopt;
}

LlmOutcome outcome_of_status(int status) {
    if (status == 401 || status == 403) return LlmOutcome::kAuth;
    if (status == 402) return LlmOutcome::kQuotaExhausted;
    if (status == 408) return LlmOutcome::kTimeout;
    if (status == 413) return LlmOutcome::kContextOverflow;
    if (status == 429) return LlmOutcome::kRateLimited;
    if (status == 503 || status == 529) return LlmOutcome::kOverloaded;
    if (status >= 500) return LlmOutcome::kServerError;
    return LlmOutcome::kRefused;
}

bool speaks_of_context(const std::string& message) {
    std::string lower;
    for (const char c : message) {
        lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    return lower.find("context length") != std::string::npos ||
           lower.find("context window") != std::string::npos ||
           lower.find("max_model_len") != std::string::npos;
}

/// `error` is the member of that name, or null when the body has none.
void read_error(int status, const json* error, std::string_view body, TryResult& result) {
    std::optional<LlmOutcome> known;
    std::string message;
    if (error && error->is_object()) {
        message = text_member(*error, "message");
        known = outcome_of_code(text_member(*error, "code"));
        if (!known) known = outcome_of_code(text_member(*error, "type"));
        // Some gateways put the upstream's status into `code` and answer 200.
        const auto number = count_member(*error, "code");
        if (!known && status < 400 && number && *number >= 400 && *number <= 599) {
            status = static_cast<int>(*number);
        }
    } else if (error && error->is_string()) {
        message = error->get<std::string>();
    }
    if (message.empty()) message = std::string(body);
    if (known) {
        result.outcome = *known;
    } else if (status < 300) {
        result.outcome = LlmOutcome::kServerError;  // an error of no known kind inside a 200
    } else {
        result.outcome = outcome_of_status(status);
        if (status == 400 && speaks_of_context(message)) {
            result.outcome = LlmOutcome::kContextOverflow;
        }
    }
    result.error = "HTTP " + std::to_string(result.http_status) + ": " + one_line(message);
}

/// The answer's text: a string, or the text parts of a list.
std::string read_content(const json& message) {
    const json* content = member(message, "content");
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

bool blank(const std::string& text) {
    return text.find_first_not_of(" \t\r\n") == std::string::npos;
}

/// Moves a leading <think> block, which servers without a reasoning parser leave in the answer.
void split_inline_reasoning(TryResult& result) {
    static constexpr std::string_view kOpen = "<think>";
    static constexpr std::string_view kClose = "</think>";
    const auto first = result.text.find_first_not_of(" \t\r\n");
    if (first == std::string::npos || result.text.compare(first, kOpen.size(), kOpen) != 0) return;
    const auto start = first + kOpen.size();
    const auto close = result.text.find(kClose, start);
    result.reasoning += result.text.substr(start, close - start);
    result.text =
        close == std::string::npos ? std::string() : result.text.substr(close + kClose.size());
}

void read_choice(const json& choice, TryResult& result) {
    const json* message = member(choice, "message");
    if (!message || !message->is_object()) {
        result.outcome = LlmOutcome::kMalformed;
        result.error = "the answer has no choices[0].message";
        return;
    }
    result.text = read_content(*message);
    result.reasoning = text_member(*message, "reasoning_content");
    if (result.reasoning.empty()) result.reasoning = text_member(*message, "reasoning");
    split_inline_reasoning(result);

    const std::string finish = text_member(choice, "finish_reason");
    const std::string refusal = text_member(*message, "refusal");
    const bool empty = blank(result.text);
    if (!refusal.empty()) {
        result.outcome = LlmOutcome::kRefused;
        result.error = "the model refused: " + one_line(refusal);
    } else if (finish == "stop" || finish == "eos" || finish == "eos_token" ||
               finish == "end_turn" || finish == "stop_sequence") {
        result.outcome = empty ? LlmOutcome::kEmpty : LlmOutcome::kOk;
        if (empty) result.error = "the answer is empty";
    } else if (finish == "length" || finish == "max_tokens") {
        result.outcome = empty ? LlmOutcome::kReasoningExhausted : LlmOutcome::kLength;
        result.error = empty ? "max_tokens was used up before the answer began"
                             : "the answer was cut off at max_tokens";
    } else if (finish == "content_filter") {
        result.outcome = LlmOutcome::kFiltered;
        result.error = "the server's content filter stopped the answer";
    } else if (finish.empty()) {
        result.outcome = LlmOutcome::kTruncatedStream;
        result.error = "the answer has no finish_reason: it may be cut off";
    } else {
        result.outcome = LlmOutcome::kMalformed;
        result.error = "unknown finish_reason: " + one_line(finish);
    }
}

}  // namespace

std::string openai_request_body(const ModelOptions& model, const Request& request) {
    json messages = json::array();
    for (const auto& message : request.messages) {
        messages.push_back({{"role", message.speaker}, {"content", message.text}});
    }
    json body = {{"model", model.name},
                 {"messages", std::move(messages)},
                 {"temperature", model.temperature},
                 {"max_tokens", model.max_tokens},
                 {"stream", false}};
    if (model.reasoning) body["reasoning_effort"] = *model.reasoning;
    return body.dump(-1, ' ', false, json::error_handler_t::replace);
}

void read_openai_reply(int http_status, std::string_view body, TryResult& result) {
    result.http_status = http_status;
    const auto reply = parse_body(body);
    if (reply) result.usage = read_usage(*reply);
    const json* error = reply ? member(*reply, "error") : nullptr;
    if (http_status < 200 || http_status > 299 || error) {
        read_error(http_status, error, body, result);
        return;
    }
    if (!reply) {
        result.outcome = LlmOutcome::kMalformed;
        result.error = "the answer is not a JSON object: " + one_line(body);
        return;
    }
    const json* choices = member(*reply, "choices");
    if (!choices || !choices->is_array() || choices->empty()) {
        result.outcome = LlmOutcome::kMalformed;
        result.error = "the answer has no choices";
        return;
    }
    read_choice(choices->front(), result);
}

}  // namespace accelopt::llm
