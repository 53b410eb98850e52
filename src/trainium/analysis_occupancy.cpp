#include "trainium/analysis_occupancy.h"

#include <algorithm>

namespace accelopt::trainium {

std::vector<OccupancyStep> occupancy_steps(const Schedule& schedule, const Timeline& timeline,
                                           bool psum) {
    std::vector<OccupancyStep> changes;
    for (std::size_t a = 0; a < schedule.allocations.size(); ++a) {
        const Allocation& allocation = schedule.allocations[a];
        const MemorySpan& span = timeline.memory[a];
        if (allocation.psum != psum || span.given_ns < 0) continue;
        // What is not handed out lies where it does from its first use on.
        const double from_ns =
            allocation.size > 0 ? span.given_ns : timeline.spans[allocation.first_user].issued_ns();
        changes.push_back({from_ns, allocation.occupied});
        if (span.taken_ns >= 0) changes.push_back({span.taken_ns, -allocation.occupied});
    }
    std::sort(changes.begin(), changes.end(),
              [](const auto& a, const auto& b) { return a.at_ns < b.at_ns; });
    std::vector<OccupancyStep> steps;
    std::int64_t used = 0;
    for (const OccupancyStep& change : changes) {
        used += change.used;
        if (steps.empty() || change.at_ns > steps.back().at_ns) {
            steps.push_back({change.at_ns, used});
        } else {
            steps.back().used = used;
        }
    }
    return steps;
}

protocol::Occupancy occupancy(const Schedule& schedule, const Timeline& timeline,
                              const Machine& machine, bool psum, int parts) {
    protocol::Occupancy result;
    result.capacity = psum ? machine.psum_partition_bytes / machine.psum_bank_bytes
                           : machine.sbuf_partition_bytes;
    const auto steps = occupancy_steps(schedule, timeline, psum);
    const double latency_ns = timeline.latency_ns;
    if (latency_ns <= 0 || parts < 1) return result;
    const double part_ns = latency_ns / parts;
    std::vector<double> area(static_cast<std::size_t>(parts), 0.0);
    for (std::size_t s = 0; s < steps.size(); ++s) {
        const auto used = static_cast<double>(steps[s].used);
        if (steps[s].used > result.peak) {
            result.peak = steps[s].used;
            result.peak_at_ms = steps[s].at_ns / 1e6;
        }
        double from_ns = steps[s].at_ns;
        const double to_ns = s + 1 < steps.size() ? steps[s + 1].at_ns : latency_ns;
        while (from_ns < to_ns) {
            const int part = std::min(parts - 1, static_cast<int>(from_ns / part_ns));
            const double edge_ns = part + 1 == parts ? to_ns : part_ns * (part + 1);
            const double until_ns = std::min(to_ns, edge_ns);
            if (until_ns <= from_ns) {  // an edge that rounding puts at its own start
                area[static_cast<std::size_t>(std::min(part + 1, parts - 1))] +=
                    used * (to_ns - from_ns);
                break;
            }
            area[static_cast<std::size_t>(part)] += used * (until_ns - from_ns);
            from_ns = until_ns;
        }
    }
    for (const double a : area) {
        result.mean += a / latency_ns;
        result.series.push_back(a / part_ns);
    }
    return result;
}

}  // namespace accelopt::trainium
