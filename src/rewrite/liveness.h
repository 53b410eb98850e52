#pragma once

#include <cstdint>

#include "rewrite/kernel.h"

namespace accelopt::rewrite {

/// Bytes per partition that the tiles of a loop body need at once, with a second buffer for every
/// tile that a DMA touches; arrays kept from outside the loop are counted whole.
std::int64_t live_bytes(Kernel& kernel, nki::Stmt& loop);

/// Dimensions of an array that every access fixes to a variable of one loop around all accesses:
/// only one block along them is live at a time.
std::set<std::size_t> own_dimensions(Kernel& kernel, const std::string& name);

/// Bytes per partition of a whole on-chip array, blocks included; 0 when unknown or off chip.
std::int64_t array_bytes(const Kernel& kernel, const std::string& name);

}  // namespace accelopt::rewrite
