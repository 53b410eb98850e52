#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace accelopt::llm {

/// What a server's headers say about when to come back; seconds from now.
struct ServerWait {
    std::optional<double> retry_after_s;  ///< Retry-After, or a limit's reset where there is none
    std::optional<double> used_up_s;      ///< until a limit with nothing left is reset
};

/// Reads Retry-After (seconds or a date, measured on the server's own clock where it shows it),
/// retry-after-ms, x-ratelimit-{remaining,reset}-* (OpenAI and others) and
/// anthropic-ratelimit-*-{remaining,reset}. Header names are in lower case.
ServerWait read_server_wait(const std::map<std::string, std::string>& headers, double now_unix_s);

/// Reads a Retry-After value, seconds or an HTTP date, as seconds from `now_unix_s`; a past date
/// gives 0, anything unreadable nullopt.
std::optional<double> parse_retry_after(std::string_view value, double now_unix_s);

/// Reads an HTTP date ("Mon, 30 Nov 2026 14:05:06 GMT") as seconds since 1970.
std::optional<double> parse_http_date(std::string_view value);

/// Reads the time until a limit is reset: "6m0s", "1.5s", "20ms", plain seconds, a point in time
/// in seconds or milliseconds since 1970, or RFC 3339.
std::optional<double> parse_reset(std::string_view value, double now_unix_s);

}  // namespace accelopt::llm
