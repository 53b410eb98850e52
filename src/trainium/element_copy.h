#pragma once

#include "trainium/elementwise.h"

namespace accelopt::trainium::execution {

/// True when elements of `source` can be copied to `target` byte by byte.
bool copies_bytes(const NumberFormat& source, const NumberFormat& target);

/// Copies elements of one format over a space without coupled mask terms: whole runs where both
/// sides are contiguous, in blocks where one side is transposed.
void copy_bytes(int rank, const Extents& count, const Operand& source, const Operand& target);

}  // namespace accelopt::trainium::execution
