#pragma once

#include <string>
#include <string_view>

namespace accelopt::report {

/// Returns the unified diff that turns `before` into `after`, with `context` unchanged lines around
/// each change; "" when they are equal. Shortest edit script (Myers, "An O(ND) Difference
/// Algorithm", 1986); texts that differ in more than some thousand lines are shown as replaced.
std::string unified_diff(std::string_view before, std::string_view after,
                         const std::string& before_name, const std::string& after_name,
                         int context = 3);

}  // namespace accelopt::report
