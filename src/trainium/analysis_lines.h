#pragma once

#include <vector>

#include "protocol/profile_detail.h"
#include "trainium/analysis_critical_path.h"
#include "trainium/analysis_places.h"
#include "trainium/machine.h"
#include "trainium/timeline.h"

namespace accelopt::trainium {

/// Sums time and traffic per source line, the line with most of the critical path first. What the
/// compiler added is a row of its own. The start-up time is no line's.
std::vector<protocol::LineProfile> line_profiles(const Stream& stream, const Timeline& timeline,
                                                 const std::vector<PathStep>& path,
                                                 const Places& places, const Machine& machine);

}  // namespace accelopt::trainium
