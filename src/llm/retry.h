#pragma once

#include <map>
#include <string>

#include "protocol/outcome.h"

namespace accelopt::llm {

/// What follows a try that ended in one way.
struct RetryRule {
    int max_retries =
        0;  ///< after this outcome, within one call; the model's max_tries is above it
    bool backoff = true;      ///< false: at once
    double token_factor = 1;  ///< of max_tokens for the tries that follow
};

/// Retry policy as data (configs/models/retry.yaml): how long a client waits between the tries of a
/// call, and after which outcomes there is another. The wait has full jitter over
/// min(cap_s, base_s * 2^retries), drawn from the call's own random stream; a server's own wait
/// comes before it.
struct RetryOptions {
    double base_s = 1;
    double cap_s = 60;
    std::map<protocol::LlmOutcome, RetryRule> rules = default_rules();

    /// Returns the rule for an outcome; one that is not listed is never tried again.
    RetryRule rule(protocol::LlmOutcome outcome) const;
    /// What configs/models/retry.yaml says as shipped.
    static std::map<protocol::LlmOutcome, RetryRule> default_rules();
};

/// Loads a retry policy; every mistake is Error(kConfig, ...) with file:line.
RetryOptions load_retry_options(const std::string& path);

}  // namespace accelopt::llm
