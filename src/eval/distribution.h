#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/reader.h"

namespace accelopt::eval {

/// How one tensor input is drawn (nkibench/README.md lists the kinds). Which members count follows
/// from the kind; `scale` multiplies what is drawn.
struct Distribution {
    std::string kind = "normal";
    int axis = 0;         ///< of the tensor as the reference sees it, counted from 0
    std::int64_t at = 0;  ///< index along `axis`, counted from 0
    double low = 0;
    double high = 1;
    double value = 0;
    double deviation = 1;
    double from = 0;
    double to = 0;
    double background = 1;
    std::string base = "normal";  ///< spikes: what the spike is added to
    double scale = 1;
};

/// Names of all kinds, in the order of the documentation.
const std::vector<std::string>& distribution_kinds();

/// Reads `distribution` and its parameters for a tensor of `shape` from one mapping; parameters of
/// other kinds stay unread, so that the mapping's finish() refuses them. Throws with file:line for
/// an unknown kind, an axis or index outside the tensor, or an empty range.
Distribution read_distribution(const config::Section& section,
                               const std::vector<std::int64_t>& shape);

/// Everything that decides the drawn numbers, as text: part of the key of a cached input.
std::string to_key(const Distribution& distribution);

}  // namespace accelopt::eval
