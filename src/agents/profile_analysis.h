#pragma once

#include <string>

#include "protocol/profile.h"

namespace accelopt::agents {

/// What a profile says beyond its figures, for a planner: position under the roofs, the source
/// lines that cost most (with their text), the critical path, tensors that are read more than once
/// or spilled, how full the memories are. A dozen short lines; "" when the profile has no detail.
std::string profile_analysis(const protocol::Profile& profile, const std::string& source);

}  // namespace accelopt::agents
