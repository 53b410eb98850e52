#include "eval/verifier.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cmath>

#include "core/error.h"

namespace accelopt::eval {

namespace {

/// Independent partial sums, so that the compiler may vectorise; the order is fixed, so that the
/// figure has the same bits everywhere.
constexpr std::size_t kLanes = 16;

struct Norms {
    double difference = 0;
    double reference = 0;
};

Norms squared_norms(std::span<const float> output, std::span<const float> reference) {
    std::array<double, kLanes> difference{}, norm{};
    const std::size_t whole = output.size() / kLanes * kLanes;
    for (std::size_t i = 0; i < whole; i += kLanes) {
        for (std::size_t lane = 0; lane < kLanes; ++lane) {
            const double r = reference[i + lane];
            const double d = static_cast<double>(output[i + lane]) - r;
            difference[lane] += d * d;
            norm[lane] += r * r;
        }
    }
    Norms sums;
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
        sums.difference += difference[lane];
        sums.reference += norm[lane];
    }
    for (std::size_t i = whole; i < output.size(); ++i) {
        const double r = reference[i];
        const double d = static_cast<double>(output[i]) - r;
        sums.difference += d * d;
        sums.reference += r * r;
    }
    return sums;
}

/// Counts NaN and infinities by their exponent bits.
std::int64_t count_nonfinite(std::span<const float> values) {
    constexpr std::uint32_t kExponent = 0x7F800000u;
    std::int64_t count = 0;
    for (const float value : values) {
        count += (std::bit_cast<std::uint32_t>(value) & kExponent) == kExponent;
    }
    return count;
}

}  // namespace

OutputVerdict verify_published(std::span<const float> output, std::span<const float> reference,
                               std::int64_t unwritten_elements, double tolerance) {
    require(output.size() == reference.size(), "verify_published: element counts differ");
    const std::size_t size = output.size();
    if (const std::int64_t bad = count_nonfinite(output); bad > 0) {
        return {false,
                "nonfinite",
                fmt::format("{} of {} output elements are NaN or infinite", bad, size),
                {}};
    }
    if (unwritten_elements > 0) {
        return {false,
                "unwritten_output",
                fmt::format("{} of {} output elements were never stored", unwritten_elements, size),
                {}};
    }
    const Norms squares = squared_norms(output, reference);
    const double difference = std::sqrt(squares.difference);
    const double norm = std::sqrt(squares.reference);
    OutputVerdict verdict;
    if (norm > 0 && std::isfinite(norm)) verdict.rel_l2 = difference / norm;
    const bool both_zero = norm == 0 && difference == 0;
    if (both_zero) verdict.rel_l2 = 0;
    verdict.ok = both_zero || difference < tolerance * norm;
    if (!verdict.ok) {
        verdict.reason = "value";
        verdict.message = fmt::format(
            "relative error {:.3g} in the L2 norm, allowed {:.3g}",
            norm > 0 ? difference / norm : std::numeric_limits<double>::infinity(), tolerance);
    }
    return verdict;
}

}  // namespace accelopt::eval
