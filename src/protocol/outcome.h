#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace accelopt::protocol {

/// How an evaluation ended (design.md, Frozen names). No default ever means success.
enum class Outcome {
    kOk,
    kSyntaxError,
    kUnsupported,
    kRejected,
    kIncorrect,
    kImplausible,
    kResourceLimit,
    kTimeout,
    kCrashed,
    kCompileError,
    kRuntimeError,
    kEvaluatorError
};

/// Returns the stored spelling, e.g. "resource_limit".
std::string_view to_string(Outcome outcome);
/// Parses the stored spelling; nullopt for an unknown one.
std::optional<Outcome> parse_outcome(std::string_view text);

/// What became of one sample (one implementation of a plan).
enum class SampleStatus {
    kEvaluated,         ///< an evaluation was made; its outcome says more
    kExtractionFailed,  ///< the reply held no usable kernel
    kNoChange,          ///< the kernel equals its parent up to layout and comments
    kDuplicate,         ///< equals an earlier sample of this problem in unit order
    kLlmFailed          ///< the call itself failed; see llm outcome
};

std::string_view to_string(SampleStatus status);
std::optional<SampleStatus> parse_sample_status(std::string_view text);

/// How one logical LLM call ended.
enum class LlmOutcome {
    kOk,
    kTruncatedStream,
    kLength,
    kReasoningExhausted,
    kRefused,
    kFiltered,
    kMalformed,
    kEmpty,
    kRateLimited,
    kQuotaExhausted,
    kOverloaded,
    kServerError,
    kContextOverflow,
    kAuth,
    kTimeout,
    kCancelled,
    kBudget
};

std::string_view to_string(LlmOutcome outcome);
std::optional<LlmOutcome> parse_llm_outcome(std::string_view text);

}  // namespace accelopt::protocol
