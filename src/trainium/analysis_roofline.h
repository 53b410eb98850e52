#pragma once

#include <optional>

#include "protocol/profile_detail.h"
#include "trainium/machine.h"
#include "trainium/stream.h"

namespace accelopt::trainium {

/// Places a stream under the roofs of its machine. Work is what the kernel asks for: products
/// (2 k m n each, at the peak of their dtype) or elementwise operations (one per element),
/// whichever keeps its engines longer; transposes, broadcasts and copies are not work. Products in
/// fp32 have the peak `peak_matmul_flops`; with a two-byte dtype that of TensorE in one pass.
/// nullopt for a stream without either.
std::optional<protocol::Roofline> roofline(const Stream& stream, double latency_ns,
                                           const Machine& machine);

}  // namespace accelopt::trainium
