#pragma once

#include <string>
#include <vector>

#include "core/rng.h"
#include "protocol/profile.h"

namespace accelopt::agents {

/// One "name: value" line for every figure that the profile has; absent figures have no line.
std::vector<std::string> profile_lines(const protocol::Profile& profile);

/// The lines as a planner is shown them: in an order drawn from `stream`, since models weigh what
/// comes first (AccelOpt shuffles once per candidate: papers.md section 1).
std::string shuffled_profile(const protocol::Profile& profile, RandomStream stream);

}  // namespace accelopt::agents
