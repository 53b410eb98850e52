#include "llm/server_wait.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <ctime>

namespace accelopt::llm {
namespace {

std::string_view trim(std::string_view text) {
    const auto first = text.find_first_not_of(" \t");
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

/// A whole text as a number, zero or more.
std::optional<double> parse_number(std::string_view text) {
    double number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    if (!std::isfinite(number) || number < 0) return std::nullopt;
    return number;
}

bool plausible(const std::tm& date) {
    return date.tm_mon >= 0 && date.tm_mon < 12 && date.tm_mday >= 1 && date.tm_mday <= 31 &&
           date.tm_hour >= 0 && date.tm_hour <= 23 && date.tm_min >= 0 && date.tm_min <= 59 &&
           date.tm_sec >= 0 && date.tm_sec <= 60;
}

/// "2026-11-30T14:05:06Z", with a fraction or an offset in place of the Z.
std::optional<double> parse_rfc3339(std::string_view value) {
    const std::string text(value.substr(0, 64));
    std::tm date{};
    int used = 0;
    if (std::sscanf(text.c_str(), "%4d-%2d-%2dT%2d:%2d:%2d%n", &date.tm_year, &date.tm_mon,
                    &date.tm_mday, &date.tm_hour, &date.tm_min, &date.tm_sec, &used) != 6) {
        return std::nullopt;
    }
    date.tm_year -= 1900;
    date.tm_mon -= 1;
    if (!plausible(date)) return std::nullopt;
    double seconds = static_cast<double>(timegm(&date));
    std::string_view rest = std::string_view(text).substr(static_cast<std::size_t>(used));
    if (!rest.empty() && rest.front() == '.') {
        const auto end = rest.find_first_not_of("0123456789", 1);
        seconds += parse_number("0" + std::string(rest.substr(0, end))).value_or(0);
        rest.remove_prefix(std::min(end, rest.size()));
    }
    if (rest == "Z" || rest == "z") return seconds;
    int hours = 0;
    int minutes = 0;
    const std::string offset(rest);
    if (offset.empty() || std::sscanf(offset.c_str() + 1, "%2d:%2d", &hours, &minutes) != 2) {
        return std::nullopt;
    }
    const double shift = hours * 3600.0 + minutes * 60.0;
    if (offset[0] == '+') return seconds - shift;
    if (offset[0] == '-') return seconds + shift;
    return std::nullopt;
}

/// "1h2m3.5s" or "20ms".
std::optional<double> parse_go_duration(std::string_view text) {
    double total = 0;
    if (text.empty()) return std::nullopt;
    while (!text.empty()) {
        const auto digits = std::min(text.find_first_not_of("0123456789."), text.size());
        const auto number = parse_number(text.substr(0, digits));
        if (!number) return std::nullopt;
        text.remove_prefix(digits);
        const auto letters = std::min(text.find_first_of("0123456789."), text.size());
        const std::string_view unit = text.substr(0, letters);
        text.remove_prefix(letters);
        if (unit == "d")
            total += *number * 86400;
        else if (unit == "h")
            total += *number * 3600;
        else if (unit == "m")
            total += *number * 60;
        else if (unit == "s")
            total += *number;
        else if (unit == "ms")
            total += *number / 1e3;
        else if (unit == "us" || unit == "\xC2\xB5s")
            total += *number / 1e6;
        else if (unit == "ns")
            total += *number / 1e9;
        else
            return std::nullopt;
    }
    return total;
}

const std::string* find(const std::map<std::string, std::string>& headers,
                        const std::string& name) {
    const auto at = headers.find(name);
    return at == headers.end() ? nullptr : &at->second;
}

/// A limit of the server: what is left of it, and when it is whole again.
struct Limit {
    std::optional<double> remaining;
    std::optional<double> reset_s;
};

/// Limits by what they count ("requests", "tokens", ...).
std::map<std::string, Limit> read_limits(const std::map<std::string, std::string>& headers,
                                         double now_unix_s) {
    std::map<std::string, Limit> limits;
    const auto suffix = [](const std::string& name, std::string_view end) {
        return name.size() > end.size() &&
               name.compare(name.size() - end.size(), end.size(), end) == 0;
    };
    static constexpr std::string_view kAnthropic = "anthropic-ratelimit-";
    for (const auto& [name, value] : headers) {
        for (const std::string_view start :
             {std::string_view("x-ratelimit-remaining"), std::string_view("x-ratelimit-reset")}) {
            if (name.rfind(start, 0) != 0) continue;
            Limit& limit = limits["x" + name.substr(start.size())];
            if (start.back() == 'g')
                limit.remaining = parse_number(trim(value));
            else
                limit.reset_s = parse_reset(value, now_unix_s);
        }
        if (name.rfind(kAnthropic, 0) != 0) continue;
        if (suffix(name, "-remaining")) {
            limits[name.substr(0, name.size() - 10)].remaining = parse_number(trim(value));
        } else if (suffix(name, "-reset")) {
            limits[name.substr(0, name.size() - 6)].reset_s = parse_reset(value, now_unix_s);
        }
    }
    return limits;
}

}  // namespace

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
    if (!plausible(date)) return std::nullopt;
    return static_cast<double>(timegm(&date));
}

std::optional<double> parse_retry_after(std::string_view value, double now_unix_s) {
    const std::string_view text = trim(value);
    if (const auto seconds = parse_number(text)) return seconds;
    const auto date = parse_http_date(text);
    if (!date) return std::nullopt;
    return std::max(*date - now_unix_s, 0.0);
}

std::optional<double> parse_reset(std::string_view value, double now_unix_s) {
    static constexpr double kPointInTime = 1e9;  // no limit lasts thirty years
    const std::string_view text = trim(value);
    if (const auto number = parse_number(text)) {
        if (*number < kPointInTime) return number;
        const double seconds = *number > 1e11 ? *number / 1e3 : *number;
        return std::max(seconds - now_unix_s, 0.0);
    }
    if (const auto duration = parse_go_duration(text)) return duration;
    const auto date = parse_rfc3339(text);
    if (!date) return std::nullopt;
    return std::max(*date - now_unix_s, 0.0);
}

ServerWait read_server_wait(const std::map<std::string, std::string>& headers, double now_unix_s) {
    // The server's own clock, where it shows it, takes the skew out of a date.
    if (const auto* date = find(headers, "date")) {
        if (const auto server_now = parse_http_date(*date)) now_unix_s = *server_now;
    }
    ServerWait wait;
    if (const auto* text = find(headers, "retry-after-ms")) {
        if (const auto ms = parse_number(trim(*text))) wait.retry_after_s = *ms / 1000;
    }
    const auto* text = find(headers, "retry-after");
    if (!wait.retry_after_s && text) wait.retry_after_s = parse_retry_after(*text, now_unix_s);
    for (const auto& [name, limit] : read_limits(headers, now_unix_s)) {
        if (limit.remaining && *limit.remaining == 0 && limit.reset_s) {
            wait.used_up_s = std::max(wait.used_up_s.value_or(0), *limit.reset_s);
        }
    }
    if (!wait.retry_after_s) wait.retry_after_s = wait.used_up_s;
    return wait;
}

}  // namespace accelopt::llm
