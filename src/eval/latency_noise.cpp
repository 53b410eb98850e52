#include "eval/latency_noise.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace accelopt::eval {

std::optional<MeasuredLatency> summarise_latencies(std::span<const double> latencies_ms,
                                                   int warm_up) {
    const auto skipped = static_cast<std::size_t>(std::max(0, warm_up));
    if (latencies_ms.size() <= skipped) return std::nullopt;
    for (const double latency : latencies_ms) {
        if (!(latency > 0) || !std::isfinite(latency)) return std::nullopt;
    }
    std::vector<double> sorted(latencies_ms.begin() + static_cast<std::ptrdiff_t>(skipped),
                               latencies_ms.end());
    std::sort(sorted.begin(), sorted.end());
    MeasuredLatency measured;
    const std::size_t middle = sorted.size() / 2;
    measured.median_ms =
        sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
    measured.spread = (sorted.back() - sorted.front()) / measured.median_ms;
    measured.count = static_cast<int>(sorted.size());
    return measured;
}

std::string_view to_string(Comparison comparison) {
    switch (comparison) {
        case Comparison::kFaster:
            return "faster";
        case Comparison::kSlower:
            return "slower";
        case Comparison::kTie:
            return "tie";
    }
    return "";
}

Comparison compare_latencies(const MeasuredLatency& candidate, const MeasuredLatency& baseline) {
    const double noise = std::max(candidate.spread, baseline.spread);
    const double gain = baseline.median_ms / candidate.median_ms - 1;
    if (gain > noise) return Comparison::kFaster;
    if (candidate.median_ms / baseline.median_ms - 1 > noise) return Comparison::kSlower;
    return Comparison::kTie;
}

}  // namespace accelopt::eval
