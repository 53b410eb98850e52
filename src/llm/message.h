#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/unit.h"
#include "protocol/usage.h"

namespace accelopt::llm {

struct Message {
    std::string speaker;  ///< "system", "user" or "assistant"
    std::string text;
};

/// The structured context that travels beside the prompt, so that the builtin model never parses
/// prompt text.
struct Context {
    std::string source;                             ///< the candidate kernel (planner, executor)
    std::optional<protocol::Profile> profile;       ///< of the candidate (planner)
    std::vector<protocol::Experience> experiences;  ///< memory shown (planner)
    std::string plan;                               ///< executor
    protocol::Experience pair;                      ///< summarizer: slow and fast source, speedup
    std::vector<std::vector<std::int64_t>> input_shapes;  ///< of the kernel's tensor arguments
    std::uint64_t seed = 0;                               ///< of this call's random stream
};

/// One logical call. (unit_id, role, sample) identifies it; N identical prompts are N calls.
struct Request {
    std::string unit_id;
    std::string problem;  ///< for budgets per problem; not part of the question
    protocol::Role role = protocol::Role::kPlanner;
    int sample = 0;
    std::string model;  ///< key of the configuration's `models`
    std::vector<Message> messages;
    Context context;
    std::vector<std::string> trimmed;  ///< what was left out for want of room, as it went

    /// SHA-256 over model key and messages: what a replayed reply must match.
    std::string sha256() const;
};

/// Estimates the tokens of a text, rather too many than too few: kernels and prose have three to
/// four bytes per token with the tokenizers of today's models.
std::int64_t estimate_tokens(std::string_view text);
/// The same for a whole prompt, with what each message costs on top.
std::int64_t estimate_tokens(const std::vector<Message>& messages);

/// The end of one logical call.
struct Reply {
    protocol::LlmOutcome outcome = protocol::LlmOutcome::kOk;
    std::string text;
    std::string reasoning;  ///< kept apart from the answer
    std::string error;      ///< scrubbed
    std::vector<protocol::LedgerRow> tries;
};

}  // namespace accelopt::llm
