#pragma once

#include <optional>
#include <span>
#include <string_view>

namespace accelopt::eval {

/// Repeated measurements of one kernel's latency, reduced to what a comparison may use.
struct MeasuredLatency {
    double median_ms = 0;
    double spread = 0;  ///< (largest - smallest) / median of the measurements that count
    int count = 0;
};

/// Drops the first `warm_up` measurements (the first runs on a device carry start-up costs of about
/// a millisecond: aws-neuron-sdk issue 994) and takes the median and the relative spread of the
/// rest. nullopt when none is left or one is not a positive finite number: such a series is no
/// measurement and is never ranked.
std::optional<MeasuredLatency> summarise_latencies(std::span<const double> latencies_ms,
                                                   int warm_up);

/// How a kernel compares with a baseline.
enum class Comparison { kFaster, kSlower, kTie };
std::string_view to_string(Comparison comparison);

/// A difference counts only when it exceeds the larger of the two spreads; anything less is a tie.
/// Predicted latencies repeat exactly and need no such rule.
Comparison compare_latencies(const MeasuredLatency& candidate, const MeasuredLatency& baseline);

}  // namespace accelopt::eval
