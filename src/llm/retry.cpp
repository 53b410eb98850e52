#include "llm/retry.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <string>

namespace accelopt::llm {
namespace {

std::string_view trim(std::string_view text) {
    const auto first = text.find_first_not_of(" \t");
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

}  // namespace

RetryRule retry_rule(protocol::LlmOutcome outcome) {
    using protocol::LlmOutcome;
    switch (outcome) {
        case LlmOutcome::kRateLimited:
        case LlmOutcome::kOverloaded:
        case LlmOutcome::kServerError:
        case LlmOutcome::kTimeout:
        case LlmOutcome::kTruncatedStream:
            return RetryRule::kAlways;
        case LlmOutcome::kReasoningExhausted:
        case LlmOutcome::kMalformed:
        case LlmOutcome::kEmpty:
            return RetryRule::kOnce;
        case LlmOutcome::kOk:
        case LlmOutcome::kLength:
        case LlmOutcome::kRefused:
        case LlmOutcome::kFiltered:
        case LlmOutcome::kQuotaExhausted:
        case LlmOutcome::kContextOverflow:
        case LlmOutcome::kAuth:
        case LlmOutcome::kCancelled:
        case LlmOutcome::kBudget:
            return RetryRule::kNever;
    }
    return RetryRule::kNever;
}

std::optional<double> parse_http_date(std::string_view value) {
    static constexpr std::array<std::string_view, 12> kMonths = {
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    const std::string text(trim(value).substr(0, 64));
    std::tm date{};
    char month[4] = {};
    // RFC 9110, 5.6.7, IMF-fixdate; the two obsolete forms are not sent by any server of today.
    if (std::sscanf(text.c_str(), "%*3[A-Za-z], %2d %3[A-Za-z] %4d %2d:%2d:%2d GMT", &date.tm_mday,
                    month, &date.tm_year, &date.tm_hour, &date.tm_min, &date.tm_sec) != 6) {
        return std::nullopt;
    }
    date.tm_year -= 1900;
    date.tm_mon = -1;
    for (std::size_t i = 0; i < kMonths.size(); ++i) {
        if (kMonths[i] == month) date.tm_mon = static_cast<int>(i);
    }
    if (date.tm_mon < 0 || date.tm_mday < 1 || date.tm_mday > 31 || date.tm_hour > 23 ||
        date.tm_min > 59 || date.tm_sec > 60) {
        return std::nullopt;
    }
    return static_cast<double>(timegm(&date));
}

std::optional<double> parse_retry_after(std::string_view value, double now_unix_s) {
    const std::string_view text = trim(value);
    double seconds = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
    if (error == std::errc() && end == text.data() + text.size()) {
        if (!std::isfinite(seconds) || seconds < 0) return std::nullopt;
        return seconds;
    }
    const auto date = parse_http_date(text);
    if (!date) return std::nullopt;
    return *date > now_unix_s ? *date - now_unix_s : 0.0;
}

}  // namespace accelopt::llm
