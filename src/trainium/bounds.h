#pragma once

#include "nki/program.h"
#include "trainium/iteration.h"
#include "trainium/written_map.h"

namespace accelopt::trainium::execution {

/// Throws Error(kInternal) when an access leaves its tile: programs come from the front end, which
/// has checked every index, so this is a broken invariant and not a verdict.
void require_inside(const Access& access, const Space& space, const nki::Tensor& tensor,
                    const nki::Operation& operation);

/// An empty map of what has been written to one tile of a tensor.
WrittenMap map_of(const nki::Tensor& tensor);

}  // namespace accelopt::trainium::execution
