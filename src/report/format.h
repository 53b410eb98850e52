#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace accelopt::report {

/// What stands in a cell for a figure that nobody knows. Never 0.
inline constexpr const char* kUnknown = "n/a";

/// "1.333"; unknown when absent or not finite.
std::string format_ms(std::optional<double> milliseconds);
/// "1.25x".
std::string format_speedup(std::optional<double> speedup);
/// A fraction as a percentage without its sign: 0.4 gives "40.0".
std::string format_percent(std::optional<double> fraction);
/// Dollars with four decimals.
std::string format_usd(std::optional<double> usd);
/// "112.0 MiB", "512 B".
std::string format_bytes(std::optional<std::int64_t> bytes);
/// "85.90 G" (decimal prefixes).
std::string format_count(std::optional<double> count);
std::string format_integer(std::optional<std::int64_t> value);

}  // namespace accelopt::report
