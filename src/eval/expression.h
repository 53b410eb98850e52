#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/result.h"

namespace accelopt::eval {

/// The sizes of a problem at one shape, by name, in file order.
using Sizes = std::vector<std::pair<std::string, std::int64_t>>;

/// Evaluates an arithmetic expression over the names in `sizes`: integers, decimal numbers,
/// + - * / // ** with Python's precedence, parentheses and ceil_div(a, b). Integers stay exact;
/// overflow, division by zero, an unknown name and anything else are an error sentence that names
/// the column. `/` and decimal numbers give a floating-point result.
Result<double, std::string> evaluate_figure(std::string_view text, const Sizes& sizes);

/// Same, but the result must be an integer that never passed through floating point.
Result<std::int64_t, std::string> evaluate_size(std::string_view text, const Sizes& sizes);

}  // namespace accelopt::eval
