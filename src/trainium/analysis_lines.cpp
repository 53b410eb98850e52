#include "trainium/analysis_lines.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace accelopt::trainium {
namespace {

/// What happened at one place.
struct PlaceSum {
    std::int64_t instructions = 0;
    double path_ns = 0;
    double busy_ns[kUnits] = {};
    std::int64_t dma_bytes = 0;

    double weight() const {
        double most = path_ns;
        for (const double ns : busy_ns) most = std::max(most, ns);
        return most;
    }
};

std::vector<PlaceSum> sums_of(const Stream& stream, const Timeline& timeline,
                              const std::vector<PathStep>& path, const Places& places,
                              const Machine& machine) {
    std::vector<PlaceSum> sums(static_cast<std::size_t>(places.size()));
    for (std::size_t k = 0; k < timeline.spans.size(); ++k) {
        PlaceSum& sum = sums[places.of(static_cast<std::int32_t>(k))];
        const InstructionSpan& span = timeline.spans[k];
        const auto work_ns = static_cast<double>(span.work_ns);
        ++sum.instructions;
        sum.busy_ns[static_cast<int>(span.unit)] +=
            span.unit == Unit::kDma ? work_ns / machine.dma_queues : work_ns;
        if (is_dma(stream.instructions[k].op)) sum.dma_bytes += stream.instructions[k].bytes;
    }
    for (const PathStep& step : path) sums[places.of(step.instruction)].path_ns += step.ns;
    return sums;
}

void add(protocol::LineProfile& line, const PlaceSum& sum) {
    line.instructions += sum.instructions;
    line.critical_ms += sum.path_ns / 1e6;
    line.tensor_ms += sum.busy_ns[static_cast<int>(Unit::kPe)] / 1e6;
    line.scalar_ms += sum.busy_ns[static_cast<int>(Unit::kAct)] / 1e6;
    line.vector_ms += sum.busy_ns[static_cast<int>(Unit::kDve)] / 1e6;
    line.gpsimd_ms += sum.busy_ns[static_cast<int>(Unit::kPool)] / 1e6;
    line.dma_ms += sum.busy_ns[static_cast<int>(Unit::kDma)] / 1e6;
    line.dma_bytes += sum.dma_bytes;
}

double most_busy_ms(const protocol::LineProfile& line) {
    return std::max({line.tensor_ms, line.scalar_ms, line.vector_ms, line.gpsimd_ms, line.dma_ms});
}

}  // namespace

std::vector<protocol::LineProfile> line_profiles(const Stream& stream, const Timeline& timeline,
                                                 const std::vector<PathStep>& path,
                                                 const Places& places, const Machine& machine) {
    const auto sums = sums_of(stream, timeline, path, places, machine);
    struct Line {
        protocol::LineProfile profile;
        double heaviest = -1;  ///< of the operation that names the line
    };
    // A place of the compiler's is a line by itself.
    std::map<std::tuple<std::int32_t, std::string>, Line> lines;
    for (std::int32_t p = 0; p < places.size(); ++p) {
        const Place& place = places[p];
        Line& line = lines[{place.line, place.made_by_compiler ? place.operation : ""}];
        line.profile.line = place.line;
        add(line.profile, sums[p]);
        if (sums[p].weight() > line.heaviest) {
            line.heaviest = sums[p].weight();
            line.profile.operation = place.operation;
        }
    }
    std::vector<protocol::LineProfile> sorted;
    for (auto& [key, line] : lines) sorted.push_back(std::move(line.profile));
    std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
        if (a.critical_ms != b.critical_ms) return a.critical_ms > b.critical_ms;
        return most_busy_ms(a) > most_busy_ms(b);
    });
    return sorted;
}

}  // namespace accelopt::trainium
