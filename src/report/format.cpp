#include "report/format.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace accelopt::report {
namespace {

bool known(const std::optional<double>& value) { return value && std::isfinite(*value); }

}  // namespace

std::string format_ms(std::optional<double> milliseconds) {
    return known(milliseconds) ? fmt::format("{:.3f}", *milliseconds) : kUnknown;
}

std::string format_speedup(std::optional<double> speedup) {
    return known(speedup) ? fmt::format("{:.2f}x", *speedup) : kUnknown;
}

std::string format_percent(std::optional<double> fraction) {
    return known(fraction) ? fmt::format("{:.1f}", 100 * *fraction) : kUnknown;
}

std::string format_usd(std::optional<double> usd) {
    return known(usd) ? fmt::format("{:.4f}", *usd) : kUnknown;
}

std::string format_bytes(std::optional<std::int64_t> bytes) {
    if (!bytes) return kUnknown;
    if (std::llabs(*bytes) < 1024) return fmt::format("{} B", *bytes);
    static constexpr std::array<const char*, 4> kUnits = {"KiB", "MiB", "GiB", "TiB"};
    double value = static_cast<double>(*bytes) / 1024;
    std::size_t unit = 0;
    while (std::fabs(value) >= 1024 && unit + 1 < kUnits.size()) {
        value /= 1024;
        ++unit;
    }
    return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string format_count(std::optional<double> count) {
    if (!known(count)) return kUnknown;
    static constexpr std::array<const char*, 5> kPrefixes = {"", " k", " M", " G", " T"};
    double value = *count;
    std::size_t prefix = 0;
    while (std::fabs(value) >= 1000 && prefix + 1 < kPrefixes.size()) {
        value /= 1000;
        ++prefix;
    }
    if (prefix == 0) return fmt::format("{:g}", value);
    return fmt::format("{:.2f}{}", value, kPrefixes[prefix]);
}

std::string format_integer(std::optional<std::int64_t> value) {
    return value ? fmt::format("{}", *value) : kUnknown;
}

}  // namespace accelopt::report
