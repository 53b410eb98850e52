#pragma once

#include "nki/program.h"
#include "protocol/profile_detail.h"
#include "trainium/machine.h"
#include "trainium/stream.h"
#include "trainium/timeline.h"
#include "trainium/timing_schedule.h"

namespace accelopt::trainium {

/// A compiled kernel after its simulation; all of it outlives the analysis.
struct SimulatedKernel {
    const nki::Program& program;
    const Stream& stream;
    const Schedule& schedule;
    const Timeline& timeline;
};

/// Finds what a planner needs: roofline position, time per source line, critical path, traffic per
/// tensor, occupancy. Lists have at most `rows` rows (negative: all), so that a reply stays small;
/// numbers are rounded to six digits.
protocol::ProfileDetail analyse(const SimulatedKernel& kernel, const Machine& machine, int rows);

}  // namespace accelopt::trainium
