#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace accelopt::trainium {

/// Mean of the values; 0 of none.
double mean_of(std::span<const double> values);
/// Median of the values, the mean of the middle two when their number is even; 0 of none.
double median_of(std::vector<double> values);

/// Spearman's rank correlation, equal values sharing the mean of their ranks; nullopt for fewer
/// than two pairs or when one side is constant.
std::optional<double> spearman(std::span<const double> a, std::span<const double> b);

/// How many pairs of kernels a prediction puts in the right order.
struct PairOrdering {
    std::int64_t pairs = 0;    ///< that differ by more than the threshold
    std::int64_t ordered = 0;  ///< of these, rightly; a predicted tie is not

    /// Share of pairs ordered rightly; nullopt without pairs.
    std::optional<double> rate() const {
        if (pairs == 0) return std::nullopt;
        return static_cast<double>(ordered) / static_cast<double>(pairs);
    }
};

/// Counts the pairs whose measured values differ by more than `threshold` of the smaller one.
PairOrdering pair_ordering(std::span<const double> measured, std::span<const double> predicted,
                           double threshold = 0.05);

}  // namespace accelopt::trainium
