#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace accelopt::eval {

/// What the published rule says about one output on one seed.
struct OutputVerdict {
    bool ok = false;
    std::string reason;            ///< "", "nonfinite", "unwritten_output" or "value"
    std::string message;           ///< a sentence with figures, "" when ok
    std::optional<double> rel_l2;  ///< ||out - ref|| / ||ref||; nullopt when undefined
};

/// The published rule of NKIBench (AccelOpt, eval_numpy.py): ||out - ref||2 < tolerance ||ref||2
/// with float64 norms, or both zero. Checked before it, in this order: the counts agree, every
/// value is finite, every element was stored.
OutputVerdict verify_published(std::span<const float> output, std::span<const float> reference,
                               std::int64_t unwritten_elements, double tolerance);

}  // namespace accelopt::eval
