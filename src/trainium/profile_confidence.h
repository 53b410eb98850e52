#pragma once

#include <string>
#include <vector>

#include "trainium/stream_counters.h"
#include "trainium/timing_costs.h"
#include "trainium/timing_simulate.h"

namespace accelopt::trainium {

/// How far a prediction can be trusted, with the reasons why not.
struct Confidence {
    std::string level;  ///< "high", "medium" or "low"
    std::vector<std::string> reasons;
};

/// Judges a prediction by the mechanisms known to mislead the model: transposed DMAs,
/// over-subscribed PSUM, time spent in tiny instructions, heavy predicted spilling, the far-stride
/// DMA rule, and engines that no measured kernel uses.
Confidence judge(const Counters& counters, const BusyTimes& busy,
                 const SimulationResult& simulation);

}  // namespace accelopt::trainium
