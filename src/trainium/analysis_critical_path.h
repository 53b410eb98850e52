#pragma once

#include <cstdint>
#include <vector>

#include "protocol/profile_detail.h"
#include "trainium/analysis_places.h"
#include "trainium/timeline.h"

namespace accelopt::trainium {

/// One link of the critical path.
struct PathStep {
    std::int32_t instruction = -1;
    double ns = 0;  ///< from where this link begins to where the next one does
    /// Why the next link waited for this one; kNothing for the last, which ends the run.
    Wait next_waits_for = Wait::kNothing;
};

/// The chain of waits that leads to the last completion of a run, from its start to its end. Walks
/// back from what completed last, through what each instruction waited for last. The times of the
/// links and the start-up time sum to the latency, so that they say where it goes; shortening a
/// link helps at most until another chain becomes the longest.
std::vector<PathStep> critical_path(const Timeline& timeline);

/// Groups the path by line, operation, unit and cause, the longest part first; the start-up time is
/// a part of its own.
std::vector<protocol::CriticalPart> critical_parts(const std::vector<PathStep>& path,
                                                   const Places& places, const Timeline& timeline);

}  // namespace accelopt::trainium
