#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trainium/machine.h"
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

/// How far two predictions of this confidence may differ by the model's own error, as a fraction;
/// nullopt for a level that is none of the three.
std::optional<double> uncertainty(const std::string& level, const Machine& machine);

}  // namespace accelopt::trainium
