#include "eval/reference/expected.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <limits>

namespace accelopt::eval {

std::uint16_t bfloat16_nearest(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    return static_cast<std::uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

std::uint16_t bfloat16_at_least(double value) {
    float rounded = static_cast<float>(value);
    if (static_cast<double>(rounded) < value) {
        rounded = std::nextafter(rounded, std::numeric_limits<float>::infinity());
    }
    const auto bits = std::bit_cast<std::uint32_t>(rounded);
    return static_cast<std::uint16_t>((bits >> 16) + ((bits & 0xFFFF) != 0 ? 1 : 0));
}

float from_bfloat16(std::uint16_t bits) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

double ExpectedOutput::reference(std::size_t i) const {
    const double residue = residual.empty() ? 0 : from_bfloat16(residual[i]);
    return static_cast<double>(value[i]) + residue;
}

double ExpectedOutput::scale_at(std::size_t i) const { return from_bfloat16(scale[i]); }

void store_reference(std::span<const double> reference, std::span<float> value,
                     std::span<std::uint16_t> residual) {
    for (std::size_t i = 0; i < reference.size(); ++i) {
        value[i] = static_cast<float>(reference[i]);
        const double rest = reference[i] - static_cast<double>(value[i]);
        residual[i] = std::isfinite(value[i]) ? bfloat16_nearest(static_cast<float>(rest)) : 0;
    }
}

std::optional<std::string> store_scale(std::span<const double> scale, std::span<const float> value,
                                       std::span<std::uint16_t> stored, std::size_t first) {
    for (std::size_t i = 0; i < scale.size(); ++i) {
        const double s = scale[i];
        const bool matters = std::isfinite(value[i]);
        const bool usable = s >= 0 && s <= std::numeric_limits<float>::max() / 2;
        if (matters && (!usable || (s == 0 && value[i] != 0))) {
            return fmt::format("scale() is {} at element {}, where the output is {}", s, first + i,
                               value[i]);
        }
        stored[i] = matters ? bfloat16_at_least(s) : 0;
    }
    return std::nullopt;
}

}  // namespace accelopt::eval
