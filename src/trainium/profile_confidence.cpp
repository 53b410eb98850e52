#include "trainium/profile_confidence.h"

#include <algorithm>
#include <iterator>

namespace accelopt::trainium {
namespace {

// Shares from which a mechanism counts. They only grade a prediction and never change it.
constexpr double kFarStrideShare = 0.20;
constexpr double kDmaMatters = 0.50;  // of the busiest unit's time
constexpr double kTransposedShare = 0.10;
constexpr double kTinyShare = 0.50;
constexpr double kSpillShare = 0.10;
constexpr double kHeavySpillShare = 0.30;
constexpr double kGpSimdShare = 0.20;
constexpr double kBusyShare = 0.50;  // of the latency: the busiest unit

double share(double part, double whole) { return whole > 0 ? part / whole : 0.0; }

}  // namespace

Confidence judge(const Counters& counters, const BusyTimes& busy,
                 const SimulationResult& simulation) {
    Confidence confidence;
    int doubt = 0;  // 0 high, 1 medium, 2 low
    auto note = [&](int weight, std::string reason) {
        doubt = std::max(doubt, weight);
        confidence.reasons.push_back(std::move(reason));
    };
    const double dma_ns = busy.unit_ns[static_cast<int>(Unit::kDma)];
    if (share(busy.dma_single_element_ns, dma_ns) > kTransposedShare)
        note(2,
             "much of the DMA time moves single elements (transposed access), whose price is "
             "not known");
    if (simulation.forced_allocations > 0)
        note(2,
             "on-chip memory is over-subscribed: the schedule gave out more PSUM or SBUF than "
             "there is");
    if (share(busy.tiny_ns, busy.engines_ns()) > kTinyShare)
        note(2,
             "most engine time is in instructions under 16 elements, which the compiler may "
             "vectorise");
    const double spilled =
        static_cast<double>(counters.spill_save_bytes + counters.spill_reload_bytes);
    const double moved = static_cast<double>(counters.hbm_read_bytes + counters.hbm_write_bytes);
    if (share(spilled, moved) > kSpillShare)
        note(share(spilled, moved) > kHeavySpillShare ? 2 : 1,
             "spills are predicted, which the compiler may avoid by fusing loops");
    const double busiest_ns = *std::max_element(std::begin(busy.unit_ns), std::end(busy.unit_ns));
    if (share(busy.dma_far_ns, dma_ns) > kFarStrideShare && dma_ns > kDmaMatters * busiest_ns)
        note(1, "rests on the far-stride DMA rule, fitted on two measured kernels");
    if (share(busy.unit_ns[static_cast<int>(Unit::kPool)], busy.engines_ns()) > kGpSimdShare)
        note(1, "much engine time is on GpSimd, which no measured kernel uses");
    const double used_ns =
        *std::max_element(std::begin(simulation.busy_ns), std::end(simulation.busy_ns));
    if (simulation.latency_ns > 0 && used_ns < kBusyShare * simulation.latency_ns)
        note(2, "no unit is busy for half of the time: latencies decide, of which less is known");
    confidence.level = doubt == 0 ? "high" : doubt == 1 ? "medium" : "low";
    return confidence;
}

std::optional<double> uncertainty(const std::string& level, const Machine& machine) {
    if (level == "high") return machine.uncertainty_high;
    if (level == "medium") return machine.uncertainty_medium;
    if (level == "low") return machine.uncertainty_low;
    return std::nullopt;
}

}  // namespace accelopt::trainium
