#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace accelopt::eval {

/// One output as the float64 reference has it, stored compactly: float32 value, bfloat16 residual
/// (together within 2^-33 of the value) and, rounded up to bfloat16, the scale S of the conditioned
/// rule: the sum of the absolute values of the terms. Under rule `published` the value alone
/// counts, and the other two are empty.
struct ExpectedOutput {
    std::span<const float> value;
    std::span<const std::uint16_t> residual;
    std::span<const std::uint16_t> scale;

    double reference(std::size_t i) const;
    double scale_at(std::size_t i) const;
};

/// bfloat16 by its bits: nearest (ties to even), not below, and back.
std::uint16_t bfloat16_nearest(float value);
std::uint16_t bfloat16_at_least(double value);
float from_bfloat16(std::uint16_t bits);

/// Splits float64 reference values; the residual of a value that float32 cannot hold is 0.
void store_reference(std::span<const double> reference, std::span<float> value,
                     std::span<std::uint16_t> residual);

/// Stores S. Returns a sentence when S is negative or not finite where the reference is finite, or
/// zero where the reference is not; it counts elements from `first`.
std::optional<std::string> store_scale(std::span<const double> scale, std::span<const float> value,
                                       std::span<std::uint16_t> stored, std::size_t first = 0);

}  // namespace accelopt::eval
