#pragma once

#include <optional>
#include <string_view>

#include "protocol/outcome.h"

namespace accelopt::llm {

/// Whether a try that ended this way is followed by another.
enum class RetryRule {
    kNever,
    kOnce,   ///< may have been paid for: at most one more
    kAlways  ///< up to the model's max_tries
};
RetryRule retry_rule(protocol::LlmOutcome outcome);

/// Reads a Retry-After value, seconds or an HTTP date, as seconds from `now_unix_s`; a past date
/// gives 0, anything unreadable nullopt.
std::optional<double> parse_retry_after(std::string_view value, double now_unix_s);

/// Reads an HTTP date ("Mon, 30 Nov 2026 14:05:06 GMT") as seconds since 1970.
std::optional<double> parse_http_date(std::string_view value);

}  // namespace accelopt::llm
