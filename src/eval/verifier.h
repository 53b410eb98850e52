#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "eval/reference/expected.h"

namespace accelopt::eval {

/// What a rule says about one output on one input set.
struct OutputVerdict {
    bool ok = false;
    std::string reason;            ///< "", "nonfinite", "unwritten_output", "tail" or "value"
    std::string message;           ///< a sentence with figures, "" when ok
    std::optional<double> rel_l2;  ///< ||out - ref|| / ||ref||; nullopt when undefined
    /// Rule conditioned: E = max |out - ref| / (2^-24 S) over the finite elements.
    std::optional<double> max_conditioned;
    std::int64_t failing = 0;  ///< elements beyond the bound
    double worst_share = 0;    ///< max |out - ref| / S
};

/// The published rule of NKIBench (AccelOpt, eval_numpy.py): ||out - ref||2 < tolerance ||ref||2
/// with float64 norms, or both zero. Checked before it, in this order: the counts agree, every
/// value is finite, every element was stored.
OutputVerdict verify_published(std::span<const float> output, std::span<const float> reference,
                               std::int64_t unwritten_elements, double tolerance);

/// The conditioned rule: every element was stored, is finite where the
/// reference is finite and equal to it where it is not, and is within `constant` 2^-24 S of it
/// otherwise (S is raised by 2^-102, so that underflow is no error). `shape` is the reference's,
/// for messages and for the reason `tail`: all failing elements lie in the last 128 indices, or the
/// last part of 128, of one dimension.
OutputVerdict verify_conditioned(std::span<const float> output, const ExpectedOutput& expected,
                                 const std::vector<std::int64_t>& shape,
                                 std::int64_t unwritten_elements, double constant);

}  // namespace accelopt::eval
