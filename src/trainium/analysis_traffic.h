#pragma once

#include <vector>

#include "nki/program.h"
#include "protocol/profile_detail.h"
#include "trainium/stream.h"

namespace accelopt::trainium {

/// HBM traffic per tensor, the most moved first. Tensors on chip appear when they are spilled, with
/// the kind "spilled"; the identity that transposes of nl.matmul load has no line.
std::vector<protocol::TensorTraffic> tensor_traffic(const nki::Program& program,
                                                    const Stream& stream);

}  // namespace accelopt::trainium
