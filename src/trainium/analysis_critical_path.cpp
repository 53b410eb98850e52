#include "trainium/analysis_critical_path.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace accelopt::trainium {
namespace {

std::string cause_name(Wait wait) {
    switch (wait) {
        case Wait::kNothing:
            return "end";
        case Wait::kOperand:
            return "operand";
        case Wait::kEngine:
            return "engine";
        case Wait::kQueue:
            return "queue";
        case Wait::kMemory:
            return "memory";
        case Wait::kPort:
            return "port";
        case Wait::kTransfers:
            return "transfers";
        case Wait::kWindow:
            return "window";
    }
    return "";
}

std::int32_t last_to_complete(const Timeline& timeline) {
    std::int32_t last = -1;
    for (std::size_t k = 0; k < timeline.spans.size(); ++k) {
        const InstructionSpan& span = timeline.spans[k];
        if (span.start_ns < 0) continue;
        if (last < 0 || span.done_ns() > timeline.spans[last].done_ns()) {
            last = static_cast<std::int32_t>(k);
        }
    }
    return last;
}

}  // namespace

std::vector<PathStep> critical_path(const Timeline& timeline) {
    std::vector<PathStep> path;
    // Both halves of the start-up time are no instruction's.
    double end_ns = timeline.latency_ns - timeline.startup_ns;
    Wait next_waits_for = Wait::kNothing;
    for (std::int32_t k = last_to_complete(timeline); k >= 0;) {
        const InstructionSpan& span = timeline.spans[k];
        // A transfer may have begun on the queue that matters before its last queue did.
        double start_ns = std::min(span.start_ns, end_ns);
        if (span.waited_for < 0) start_ns = std::min(end_ns, timeline.startup_ns);
        path.push_back({k, end_ns - start_ns, next_waits_for});
        end_ns = start_ns;
        next_waits_for = span.wait;
        k = span.waited_for;
    }
    std::reverse(path.begin(), path.end());
    return path;
}

std::vector<protocol::CriticalPart> critical_parts(const std::vector<PathStep>& path,
                                                   const Places& places, const Timeline& timeline) {
    using Key = std::tuple<std::int32_t, Unit, Wait>;
    struct Sum {
        double ns = 0;
        std::int64_t steps = 0;
    };
    std::map<Key, Sum> sums;
    for (const PathStep& step : path) {
        Sum& sum = sums[{places.of(step.instruction), timeline.spans[step.instruction].unit,
                         step.next_waits_for}];
        sum.ns += step.ns;
        ++sum.steps;
    }
    std::vector<protocol::CriticalPart> parts;
    for (const auto& [key, sum] : sums) {
        const Place& place = places[std::get<0>(key)];
        parts.push_back({place.line, place.operation, std::string(unit_name(std::get<1>(key))),
                         cause_name(std::get<2>(key)), sum.steps, sum.ns / 1e6});
    }
    if (timeline.latency_ns > 0) {
        parts.push_back({0, "start-up", "", "startup", 1, 2 * timeline.startup_ns / 1e6});
    }
    std::stable_sort(parts.begin(), parts.end(),
                     [](const auto& a, const auto& b) { return a.ms > b.ms; });
    return parts;
}

}  // namespace accelopt::trainium
