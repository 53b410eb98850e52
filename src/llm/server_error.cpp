#include "llm/server_error.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

#include "llm/json_reading.h"

namespace accelopt::llm {
namespace {

using protocol::LlmOutcome;

struct CodeOutcome {
    const char* code;
    LlmOutcome outcome;
};

/// Codes and types of OpenAI-compatible servers, Anthropic and Bedrock (its exception names).
constexpr std::array kCodes = {
    CodeOutcome{"insufficient_quota", LlmOutcome::kQuotaExhausted},
    CodeOutcome{"billing_hard_limit_reached", LlmOutcome::kQuotaExhausted},
    CodeOutcome{"billing_not_active", LlmOutcome::kQuotaExhausted},
    CodeOutcome{"billing_error", LlmOutcome::kQuotaExhausted},
    CodeOutcome{"ServiceQuotaExceededException", LlmOutcome::kQuotaExhausted},
    CodeOutcome{"rate_limit_exceeded", LlmOutcome::kRateLimited},
    CodeOutcome{"rate_limit_error", LlmOutcome::kRateLimited},
    CodeOutcome{"requests", LlmOutcome::kRateLimited},
    CodeOutcome{"tokens", LlmOutcome::kRateLimited},
    CodeOutcome{"ThrottlingException", LlmOutcome::kRateLimited},
    CodeOutcome{"TooManyRequestsException", LlmOutcome::kRateLimited},
    CodeOutcome{"context_length_exceeded", LlmOutcome::kContextOverflow},
    CodeOutcome{"string_above_max_length", LlmOutcome::kContextOverflow},
    CodeOutcome{"request_too_large", LlmOutcome::kContextOverflow},
    CodeOutcome{"content_filter", LlmOutcome::kFiltered},
    CodeOutcome{"content_policy_violation", LlmOutcome::kFiltered},
    CodeOutcome{"invalid_api_key", LlmOutcome::kAuth},
    CodeOutcome{"authentication_error", LlmOutcome::kAuth},
    CodeOutcome{"permission_error", LlmOutcome::kAuth},
    CodeOutcome{"permission_denied", LlmOutcome::kAuth},
    CodeOutcome{"AccessDeniedException", LlmOutcome::kAuth},
    CodeOutcome{"ExpiredTokenException", LlmOutcome::kAuth},
    CodeOutcome{"UnrecognizedClientException", LlmOutcome::kAuth},
    CodeOutcome{"InvalidSignatureException", LlmOutcome::kAuth},
    CodeOutcome{"IncompleteSignature", LlmOutcome::kAuth},
    CodeOutcome{"MissingAuthenticationTokenException", LlmOutcome::kAuth},
    CodeOutcome{"overloaded_error", LlmOutcome::kOverloaded},
    CodeOutcome{"overloaded", LlmOutcome::kOverloaded},
    CodeOutcome{"engine_overloaded", LlmOutcome::kOverloaded},
    CodeOutcome{"service_unavailable", LlmOutcome::kOverloaded},
    CodeOutcome{"ServiceUnavailableException", LlmOutcome::kOverloaded},
    CodeOutcome{"ModelNotReadyException", LlmOutcome::kOverloaded},
    CodeOutcome{"server_error", LlmOutcome::kServerError},
    CodeOutcome{"api_error", LlmOutcome::kServerError},
    CodeOutcome{"internal_error", LlmOutcome::kServerError},
    CodeOutcome{"internal_server_error", LlmOutcome::kServerError},
    CodeOutcome{"InternalServerException", LlmOutcome::kServerError},
    CodeOutcome{"ModelErrorException", LlmOutcome::kServerError},
    CodeOutcome{"timeout", LlmOutcome::kTimeout},
    CodeOutcome{"timeout_error", LlmOutcome::kTimeout},
    CodeOutcome{"ModelTimeoutException", LlmOutcome::kTimeout},
};

std::optional<LlmOutcome> outcome_of_code(const std::string& code) {
    const auto at = std::find_if(kCodes.begin(), kCodes.end(),
                                 [&](const CodeOutcome& entry) { return code == entry.code; });
    if (at == kCodes.end()) return std::nullopt;
    return at->outcome;
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
    static constexpr const char* kPhrases[] = {"context length", "context window", "max_model_len",
                                               "prompt is too long", "input is too long"};
    std::string lower;
    for (const char c : message) {
        lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    return std::any_of(std::begin(kPhrases), std::end(kPhrases),
                       [&](const char* phrase) { return lower.find(phrase) != std::string::npos; });
}

}  // namespace

void classify_error(int http_status, const ServerError& error, TryResult& result) {
    std::optional<LlmOutcome> known = outcome_of_code(error.code);
    if (!known) known = outcome_of_code(error.type);
    // Some gateways answer 200 and put the upstream's status into the error.
    int status = http_status;
    if (status < 400 && error.inner_status != 0) status = error.inner_status;
    if (known) {
        result.outcome = *known;
    } else if (status < 300) {
        result.outcome = LlmOutcome::kServerError;
    } else {
        result.outcome = outcome_of_status(status);
        if (status == 400 && speaks_of_context(error.message)) {
            result.outcome = LlmOutcome::kContextOverflow;
        }
    }
    result.error = "HTTP " + std::to_string(http_status) + ": " + one_line(error.message);
}

void read_error_body(int http_status, std::string_view body, TryResult& result) {
    const auto document = parse_object(body);
    const Json* object = document ? member(*document, "error") : nullptr;
    ServerError error;
    if (object && object->is_object()) {
        error.message = text_member(*object, "message");
        error.code = text_member(*object, "code");
        error.type = text_member(*object, "type");
        const auto number = count_member(*object, "code");
        if (number && *number >= 400 && *number <= 599) {
            error.inner_status = static_cast<int>(*number);
        }
        // A 403 of OpenRouter with reasons is its moderation's, and says nothing about the key.
        const Json* metadata = member(*object, "metadata");
        if (metadata && member(*metadata, "reasons")) error.code = "content_filter";
    } else if (object && object->is_string()) {
        error.message = object->get<std::string>();
    } else if (document) {
        // vLLM and some gateways send the fields without the object around them.
        error.message = text_member(*document, "message");
        error.code = text_member(*document, "code");
        error.type = text_member(*document, "type");
    }
    if (error.message.empty()) error.message = std::string(body);
    classify_error(http_status, error, result);
}

}  // namespace accelopt::llm
