#include "eval/verifier.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cmath>
#include <limits>

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

/// Unit round-off of float32.
constexpr double kUnit = 0x1p-24;
/// Added to S, so that a result below the smallest normal number 2^-126 may be flushed to zero or
/// not; with S = 0 only what underflows is right besides zero.
constexpr double kUnderflow = 0x1p-102;

/// What one pass over an output finds.
struct Comparison {
    double worst = 0;  ///< max |out - ref| / S
    std::int64_t worst_at = -1;
    std::int64_t failing = 0;
    std::int64_t not_finite = 0;  ///< elements that are finite on one side only, or unequal
    std::int64_t not_finite_at = -1;
    double difference = 0;  ///< sums of squares over the finite elements
    double reference = 0;
};

bool same_non_finite(float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); }

void compare_element(std::span<const float> output, const ExpectedOutput& expected, std::size_t i,
                     double limit, Comparison& found) {
    if (!std::isfinite(output[i]) || !std::isfinite(expected.value[i])) {
        if (same_non_finite(output[i], expected.value[i])) return;
        if (found.not_finite++ == 0) found.not_finite_at = static_cast<std::int64_t>(i);
        return;
    }
    const double reference = expected.reference(i);
    const double error = std::abs(static_cast<double>(output[i]) - reference);
    const double share = error / (expected.scale_at(i) + kUnderflow);
    found.difference += error * error;
    found.reference += reference * reference;
    if (!(share <= limit)) ++found.failing;
    if (share > found.worst) {
        found.worst = share;
        found.worst_at = static_cast<std::int64_t>(i);
    }
}

/// One block without branches, so that the compiler may vectorise: true when every element is
/// finite, within `limit`, and below the worst share so far.
bool block_is_unremarkable(const float* output, const float* value, const std::uint16_t* residual,
                           const std::uint16_t* scale, double limit, double& difference,
                           double& reference) {
    std::array<double, kLanes> squares{}, norms{};
    int remarkable = 0;
    for (std::size_t k = 0; k < kLanes; ++k) {
        const float rest = std::bit_cast<float>(static_cast<std::uint32_t>(residual[k]) << 16);
        const float bound = std::bit_cast<float>(static_cast<std::uint32_t>(scale[k]) << 16);
        const double r = static_cast<double>(value[k]) + static_cast<double>(rest);
        const double d = static_cast<double>(output[k]) - r;
        squares[k] = d * d;
        norms[k] = r * r;
        remarkable |= !(std::abs(d) <= limit * (static_cast<double>(bound) + kUnderflow));
    }
    if (remarkable != 0) return false;
    for (std::size_t k = 0; k < kLanes; ++k) {
        difference += squares[k];
        reference += norms[k];
    }
    return true;
}

Comparison compare(std::span<const float> output, const ExpectedOutput& expected, double limit) {
    Comparison found;
    const std::size_t whole = output.size() / kLanes * kLanes;
    for (std::size_t i = 0; i < whole; i += kLanes) {
        // Most blocks hold neither a failure nor a new maximum, and are done in one pass.
        if (block_is_unremarkable(&output[i], &expected.value[i], &expected.residual[i],
                                  &expected.scale[i], std::min(found.worst, limit),
                                  found.difference, found.reference)) {
            continue;
        }
        for (std::size_t k = 0; k < kLanes; ++k) {
            compare_element(output, expected, i + k, limit, found);
        }
    }
    for (std::size_t i = whole; i < output.size(); ++i) {
        compare_element(output, expected, i, limit, found);
    }
    return found;
}

bool element_fails(std::span<const float> output, const ExpectedOutput& expected, std::size_t i,
                   double limit) {
    Comparison one;
    compare_element(output, expected, i, limit, one);
    return one.failing > 0 || one.not_finite > 0;
}

/// Tiles are cut at multiples of the partition count.
constexpr std::int64_t kTile = 128;

/// The dimension in whose last tile (cut short or not) all failing elements lie; -1 if none.
int tail_dimension(std::span<const float> output, const ExpectedOutput& expected,
                   const std::vector<std::int64_t>& shape, double limit) {
    std::vector<std::int64_t> start;
    for (const std::int64_t extent : shape) {
        const std::int64_t last = (extent - 1) / kTile * kTile;
        start.push_back(last > 0 ? last : extent);  // a dimension of one tile has no tail
    }
    std::vector<std::int64_t> index(shape.size(), 0);
    for (std::size_t i = 0; i < output.size(); ++i) {
        if (element_fails(output, expected, i, limit)) {
            bool possible = false;
            for (std::size_t d = 0; d < shape.size(); ++d) {
                if (index[d] < start[d]) start[d] = shape[d];
                possible = possible || start[d] < shape[d];
            }
            if (!possible) return -1;
        }
        for (std::size_t d = shape.size(); d-- > 0 && ++index[d] == shape[d];) index[d] = 0;
    }
    for (std::size_t d = 0; d < shape.size(); ++d) {
        if (start[d] < shape[d]) return static_cast<int>(d);
    }
    return -1;
}

std::string index_text(std::int64_t at, const std::vector<std::int64_t>& shape) {
    std::string text;
    for (std::size_t d = shape.size(); d-- > 0;) {
        text = std::to_string(at % shape[d]) + (text.empty() ? "" : ", ") + text;
        at /= shape[d];
    }
    return "[" + text + "]";
}

void name_failure(std::span<const float> output, const ExpectedOutput& expected,
                  const std::vector<std::int64_t>& shape, double constant, const Comparison& found,
                  OutputVerdict& verdict) {
    if (found.not_finite > 0) {
        const auto at = static_cast<std::size_t>(found.not_finite_at);
        verdict.reason = "nonfinite";
        verdict.message = fmt::format(
            "{} of {} elements differ from the reference in being finite, the first at {}: {} for "
            "{}",
            found.not_finite, output.size(), index_text(found.not_finite_at, shape), output[at],
            expected.value[at]);
        return;
    }
    const auto at = static_cast<std::size_t>(found.worst_at);
    verdict.reason = "value";
    verdict.message = fmt::format(
        "{} of {} elements are off, the worst at {}: {:.9g} for {:.9g}, an error of {:.3g} units "
        "(2^-24 times the sum {:.3g} of absolute terms), allowed {:g}",
        found.failing, output.size(), index_text(found.worst_at, shape), output[at],
        expected.reference(at), found.worst / kUnit, expected.scale_at(at), constant);
    const int tail = tail_dimension(output, expected, shape, constant * kUnit);
    if (tail >= 0) {
        verdict.reason = "tail";
        verdict.message += fmt::format("; all of them in the last tile of dimension {}", tail);
    }
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

OutputVerdict verify_conditioned(std::span<const float> output, const ExpectedOutput& expected,
                                 const std::vector<std::int64_t>& shape,
                                 std::int64_t unwritten_elements, double constant) {
    require(output.size() == expected.value.size() && output.size() == expected.scale.size() &&
                output.size() == expected.residual.size(),
            "verify_conditioned: element counts differ");
    OutputVerdict verdict;
    if (unwritten_elements > 0) {
        verdict.reason = "unwritten_output";
        verdict.message = fmt::format("{} of {} output elements were never stored",
                                      unwritten_elements, output.size());
        return verdict;
    }
    const double limit = constant * kUnit;
    const Comparison found = compare(output, expected, limit);
    verdict.max_conditioned = found.worst / kUnit;
    verdict.worst_share = found.worst;
    verdict.failing = found.failing;
    if (found.reference > 0 && std::isfinite(found.reference)) {
        verdict.rel_l2 = std::sqrt(found.difference / found.reference);
    } else if (found.reference == 0 && found.difference == 0) {
        verdict.rel_l2 = 0;
    }
    // Every bound is written so that NaN fails.
    verdict.ok = found.failing == 0 && found.not_finite == 0 && found.worst <= limit;
    if (!verdict.ok) name_failure(output, expected, shape, constant, found, verdict);
    return verdict;
}

}  // namespace accelopt::eval
