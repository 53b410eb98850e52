#include "trainium/analysis.h"

#include <algorithm>
#include <cmath>

#include "trainium/analysis_critical_path.h"
#include "trainium/analysis_lines.h"
#include "trainium/analysis_occupancy.h"
#include "trainium/analysis_places.h"
#include "trainium/analysis_roofline.h"
#include "trainium/analysis_traffic.h"

namespace accelopt::trainium {
namespace {

/// Parts of the run that the occupancy is averaged over.
constexpr int kParts = 48;
constexpr int kPartsOfAll = 384;

void round(double& value) {
    if (value == 0 || !std::isfinite(value)) return;
    constexpr int kDigits = 6;
    const double scale = std::pow(10.0, kDigits - 1 - std::floor(std::log10(std::fabs(value))));
    value = std::round(value * scale) / scale;
}
void round(std::optional<double>& value) {
    if (value) round(*value);
}

template <typename T>
int shorten(std::vector<T>& list, int rows) {
    const auto kept = static_cast<std::size_t>(rows);
    if (rows < 0 || list.size() <= kept) return 0;
    const auto left_out = static_cast<int>(list.size() - kept);
    list.resize(kept);
    return left_out;
}

double most_busy_ms(const protocol::LineProfile& line) {
    return std::max({line.tensor_ms, line.scalar_ms, line.vector_ms, line.gpsimd_ms, line.dma_ms});
}

/// Keeps the lines that the critical path is at longest, and on the last third of the rows those
/// that keep an engine busiest beside it: they are what becomes critical next.
int shorten_lines(std::vector<protocol::LineProfile>& lines, int rows) {
    const auto kept = static_cast<std::size_t>(rows);
    if (rows < 0 || lines.size() <= kept) return 0;
    const auto by_path = lines.begin() + (rows - rows / 3);
    std::stable_sort(by_path, lines.end(), [](const auto& a, const auto& b) {
        return most_busy_ms(a) > most_busy_ms(b);
    });
    const int left_out = shorten(lines, rows);
    std::stable_sort(lines.begin(), lines.end(),
                     [](const auto& a, const auto& b) { return a.critical_ms > b.critical_ms; });
    return left_out;
}

void round_all(protocol::ProfileDetail& detail) {
    if (detail.roofline) {
        protocol::Roofline& roof = *detail.roofline;
        round(roof.arithmetic_intensity);
        for (double* value : {&roof.ridge_intensity, &roof.peak_flops, &roof.attainable_flops,
                              &roof.achieved_flops}) {
            round(*value);
        }
    }
    for (protocol::LineProfile& line : detail.lines) {
        for (double* value : {&line.critical_ms, &line.tensor_ms, &line.scalar_ms, &line.vector_ms,
                              &line.gpsimd_ms, &line.dma_ms}) {
            round(*value);
        }
    }
    for (protocol::CriticalPart& part : detail.critical_path) round(part.ms);
    round(detail.critical_left_out_ms);
    for (protocol::TensorTraffic& tensor : detail.tensors) round(tensor.reads_per_byte);
    for (auto* memory : {&detail.sbuf, &detail.psum}) {
        if (!*memory) continue;
        round((*memory)->mean);
        round((*memory)->peak_at_ms);
        for (double& value : (*memory)->series) round(value);
    }
}

}  // namespace

protocol::ProfileDetail analyse(const SimulatedKernel& kernel, const Machine& machine, int rows) {
    const Places places(kernel.program, kernel.stream);
    const auto path = critical_path(kernel.timeline);
    protocol::ProfileDetail detail;
    detail.roofline = roofline(kernel.stream, kernel.timeline.latency_ns, machine);
    detail.lines = line_profiles(kernel.stream, kernel.timeline, path, places, machine);
    detail.lines_left_out = shorten_lines(detail.lines, rows);
    detail.critical_path = critical_parts(path, places, kernel.timeline);
    double all_ms = 0;
    for (const auto& part : detail.critical_path) all_ms += part.ms;
    detail.critical_parts_left_out = shorten(detail.critical_path, rows);
    if (detail.critical_parts_left_out > 0) {
        for (const auto& part : detail.critical_path) all_ms -= part.ms;
        detail.critical_left_out_ms = std::max(0.0, all_ms);
    }
    detail.tensors = tensor_traffic(kernel.program, kernel.stream);
    detail.tensors_left_out = shorten(detail.tensors, rows);
    const int parts = rows < 0 ? kPartsOfAll : kParts;
    detail.sbuf = occupancy(kernel.schedule, kernel.timeline, machine, false, parts);
    detail.psum = occupancy(kernel.schedule, kernel.timeline, machine, true, parts);
    round_all(detail);
    return detail;
}

}  // namespace accelopt::trainium
