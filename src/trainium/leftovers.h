#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "nki/program.h"
#include "trainium/operands.h"
#include "trainium/written_map.h"

namespace accelopt::trainium::execution {

/// Returns the elements of its destination (offsets) that an operation on chip computes from
/// elements that nothing has written: nothing but leftovers, harmless as long as they are never
/// stored. Kernels load the last tile with a mask, compute on whole tiles and store with the mask
/// (the published RMSNorm tutorial, run with 250 rows). nullopt when the operation may carry
/// leftovers anywhere (DMAs, transposes, sums over partitions): its reads must be complete.
/// `map_of` gives the map of what an access reads, nullptr where everything holds values.
std::optional<std::vector<std::int64_t>> elements_from_leftovers(
    const nki::Operation& operation, const Resolved& resolved, const nki::Program& program,
    const std::function<const WrittenMap*(const Access&)>& map_of);

}  // namespace accelopt::trainium::execution
