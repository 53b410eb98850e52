#include "protocol/outcome.h"

#include <array>
#include <utility>

namespace accelopt::protocol {
namespace {

template <typename E, std::size_t N>
std::string_view spell(const std::array<std::pair<E, std::string_view>, N>& table, E value) {
    for (const auto& [entry, text] : table) {
        if (entry == value) return text;
    }
    return "unknown";
}

template <typename E, std::size_t N>
std::optional<E> find(const std::array<std::pair<E, std::string_view>, N>& table,
                      std::string_view text) {
    for (const auto& [entry, spelling] : table) {
        if (spelling == text) return entry;
    }
    return std::nullopt;
}

constexpr std::array<std::pair<Outcome, std::string_view>, 12> kOutcomes = {{
    {Outcome::kOk, "ok"},
    {Outcome::kSyntaxError, "syntax_error"},
    {Outcome::kUnsupported, "unsupported"},
    {Outcome::kRejected, "rejected"},
    {Outcome::kIncorrect, "incorrect"},
    {Outcome::kImplausible, "implausible"},
    {Outcome::kResourceLimit, "resource_limit"},
    {Outcome::kTimeout, "timeout"},
    {Outcome::kCrashed, "crashed"},
    {Outcome::kCompileError, "compile_error"},
    {Outcome::kRuntimeError, "runtime_error"},
    {Outcome::kEvaluatorError, "evaluator_error"},
}};

constexpr std::array<std::pair<SampleStatus, std::string_view>, 5> kStatuses = {{
    {SampleStatus::kEvaluated, "evaluated"},
    {SampleStatus::kExtractionFailed, "extraction_failed"},
    {SampleStatus::kNoChange, "no_change"},
    {SampleStatus::kDuplicate, "duplicate"},
    {SampleStatus::kLlmFailed, "llm_failed"},
}};

constexpr std::array<std::pair<LlmOutcome, std::string_view>, 17> kLlmOutcomes = {{
    {LlmOutcome::kOk, "ok"},
    {LlmOutcome::kTruncatedStream, "truncated_stream"},
    {LlmOutcome::kLength, "length"},
    {LlmOutcome::kReasoningExhausted, "reasoning_exhausted"},
    {LlmOutcome::kRefused, "refused"},
    {LlmOutcome::kFiltered, "filtered"},
    {LlmOutcome::kMalformed, "malformed"},
    {LlmOutcome::kEmpty, "empty"},
    {LlmOutcome::kRateLimited, "rate_limited"},
    {LlmOutcome::kQuotaExhausted, "quota_exhausted"},
    {LlmOutcome::kOverloaded, "overloaded"},
    {LlmOutcome::kServerError, "server_error"},
    {LlmOutcome::kContextOverflow, "context_overflow"},
    {LlmOutcome::kAuth, "auth"},
    {LlmOutcome::kTimeout, "timeout"},
    {LlmOutcome::kCancelled, "cancelled"},
    {LlmOutcome::kBudget, "budget"},
}};

}  // namespace

std::string_view to_string(Outcome outcome) { return spell(kOutcomes, outcome); }
std::optional<Outcome> parse_outcome(std::string_view text) { return find(kOutcomes, text); }
std::string_view to_string(SampleStatus status) { return spell(kStatuses, status); }
std::optional<SampleStatus> parse_sample_status(std::string_view text) {
    return find(kStatuses, text);
}
std::string_view to_string(LlmOutcome outcome) { return spell(kLlmOutcomes, outcome); }
std::optional<LlmOutcome> parse_llm_outcome(std::string_view text) {
    return find(kLlmOutcomes, text);
}

}  // namespace accelopt::protocol
