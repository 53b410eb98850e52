#pragma once

#include "protocol/profile_detail.h"
#include "trainium/machine.h"
#include "trainium/timeline.h"
#include "trainium/timing_schedule.h"

namespace accelopt::trainium {

/// How full SBUF (bytes per partition) or PSUM (banks) is over a run, averaged in `parts` equal
/// parts of it. Counts what the allocator gave out: tiles from their first to their last use.
protocol::Occupancy occupancy(const Schedule& schedule, const Timeline& timeline,
                              const Machine& machine, bool psum, int parts);

/// One change of how full a memory is.
struct OccupancyStep {
    double at_ns = 0;
    std::int64_t used = 0;  ///< from then on
};
/// All changes in the order of time; what happens in one instant is one step.
std::vector<OccupancyStep> occupancy_steps(const Schedule& schedule, const Timeline& timeline,
                                           bool psum);

}  // namespace accelopt::trainium
