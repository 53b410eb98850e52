#include "trainium/error_statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error.h"

namespace accelopt::trainium {
namespace {

std::vector<double> ranks(std::span<const double> values) {
    std::vector<std::size_t> order(values.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
    std::vector<double> rank(values.size());
    for (std::size_t first = 0; first < order.size();) {
        std::size_t end = first + 1;
        while (end < order.size() && values[order[end]] == values[order[first]]) ++end;
        const double shared = static_cast<double>(first + end - 1) / 2;
        for (std::size_t i = first; i < end; ++i) rank[order[i]] = shared;
        first = end;
    }
    return rank;
}

}  // namespace

double mean_of(std::span<const double> values) {
    if (values.empty()) return 0;
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double median_of(std::vector<double> values) {
    if (values.empty()) return 0;
    std::sort(values.begin(), values.end());
    const std::size_t half = values.size() / 2;
    return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

std::optional<double> spearman(std::span<const double> a, std::span<const double> b) {
    require(a.size() == b.size(), "spearman: as many values on both sides");
    if (a.size() < 2) return std::nullopt;
    const std::vector<double> ra = ranks(a);
    const std::vector<double> rb = ranks(b);
    const double middle = static_cast<double>(a.size() - 1) / 2;
    double ab = 0;
    double aa = 0;
    double bb = 0;
    for (std::size_t i = 0; i < ra.size(); ++i) {
        ab += (ra[i] - middle) * (rb[i] - middle);
        aa += (ra[i] - middle) * (ra[i] - middle);
        bb += (rb[i] - middle) * (rb[i] - middle);
    }
    if (aa == 0 || bb == 0) return std::nullopt;
    return ab / std::sqrt(aa * bb);
}

PairOrdering pair_ordering(std::span<const double> measured, std::span<const double> predicted,
                           double threshold) {
    require(measured.size() == predicted.size(), "pair_ordering: as many values on both sides");
    PairOrdering result;
    for (std::size_t i = 0; i < measured.size(); ++i) {
        for (std::size_t j = 0; j < i; ++j) {
            const double difference = measured[i] - measured[j];
            if (std::abs(difference) <= threshold * std::min(measured[i], measured[j])) continue;
            ++result.pairs;
            if (difference * (predicted[i] - predicted[j]) > 0) ++result.ordered;
        }
    }
    return result;
}

}  // namespace accelopt::trainium
