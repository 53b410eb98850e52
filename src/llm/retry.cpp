#include "llm/retry.h"

#include <vector>

#include "config/reader.h"

namespace accelopt::llm {
namespace {

using protocol::LlmOutcome;

constexpr int kNoLimit = 1'000'000;

/// Outcomes that no policy may try again: the answer is there, or the call is over.
bool may_be_tried_again(LlmOutcome outcome) {
    switch (outcome) {
        case LlmOutcome::kOk:
        case LlmOutcome::kContextOverflow:  // an identical request overflows again (needs.md N24)
        case LlmOutcome::kAuth:
        case LlmOutcome::kQuotaExhausted:
        case LlmOutcome::kCancelled:
        case LlmOutcome::kBudget:
            return false;
        case LlmOutcome::kTruncatedStream:
        case LlmOutcome::kLength:
        case LlmOutcome::kReasoningExhausted:
        case LlmOutcome::kRefused:
        case LlmOutcome::kFiltered:
        case LlmOutcome::kMalformed:
        case LlmOutcome::kEmpty:
        case LlmOutcome::kRateLimited:
        case LlmOutcome::kOverloaded:
        case LlmOutcome::kServerError:
        case LlmOutcome::kTimeout:
            return true;
    }
    return false;
}

RetryRule read_rule(const config::Section& entry) {
    RetryRule rule;
    rule.max_retries = kNoLimit;
    if (entry.has("retries") && entry.get_string("retries") != "max_tries") {
        const auto retries = entry.get_int("retries");
        if (retries < 0 || retries > 1000) entry.fail("retries", "must be 0 to 1000, or max_tries");
        rule.max_retries = static_cast<int>(retries);
    }
    rule.backoff = entry.bool_or("backoff", true);
    rule.token_factor = entry.double_or("token_factor", 1);
    if (!(rule.token_factor >= 1) || rule.token_factor > 16) {
        entry.fail("token_factor", "must be 1 to 16");
    }
    return rule;
}

}  // namespace

std::map<LlmOutcome, RetryRule> RetryOptions::default_rules() {
    const RetryRule always{kNoLimit, true, 1};
    // These may have been paid for: one more, at once.
    const RetryRule once{1, false, 1};
    return {{LlmOutcome::kRateLimited, always},
            {LlmOutcome::kOverloaded, always},
            {LlmOutcome::kServerError, always},
            {LlmOutcome::kTimeout, always},
            {LlmOutcome::kTruncatedStream, always},
            {LlmOutcome::kMalformed, once},
            {LlmOutcome::kEmpty, once},
            // The same cap would be used up by the same reasoning (needs.md N22).
            {LlmOutcome::kReasoningExhausted, {1, false, 2}}};
}

RetryRule RetryOptions::rule(LlmOutcome outcome) const {
    const auto at = rules.find(outcome);
    return at == rules.end() ? RetryRule{} : at->second;
}

RetryOptions load_retry_options(const std::string& path) {
    const config::Section file = config::load_file(path);
    RetryOptions options;
    options.rules.clear();
    options.base_s = file.double_or("base_s", options.base_s);
    options.cap_s = file.double_or("cap_s", options.cap_s);
    if (!(options.base_s > 0)) file.fail("base_s", "must be more than 0");
    if (!(options.cap_s >= options.base_s)) file.fail("cap_s", "must be at least base_s");
    const config::Section outcomes = file.child_or_empty("outcomes");
    for (const auto& name : outcomes.keys()) {
        const auto outcome = protocol::parse_llm_outcome(name);
        if (!outcome) outcomes.fail(name, "is not an outcome of a call");
        const RetryRule rule = read_rule(outcomes.child(name));
        if (rule.max_retries > 0 && !may_be_tried_again(*outcome)) {
            outcomes.fail(name, "is never tried again: another try cannot mend it");
        }
        options.rules[*outcome] = rule;
    }
    file.finish();
    return options;
}

}  // namespace accelopt::llm
