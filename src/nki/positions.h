#pragma once

#include <cstdint>
#include <vector>

#include "nki/affine.h"

namespace accelopt::nki::interp::api {

/// The row-major number of every element of a shape, over the whole tile or within its partition.
AffineExpr positions(const std::vector<std::int64_t>& shape, bool within_partition = false);

}  // namespace accelopt::nki::interp::api
