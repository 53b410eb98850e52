#pragma once

#include <cstdint>
#include <vector>

#include "nki/program.h"

namespace accelopt::trainium::execution {

/// Returns the order in which execute() runs the operations of a program: indices, or nothing for
/// program order. A kernel may hold far more on chip than fits (the compiler spills it), for
/// example all scores of an attention; its values then need as much memory as the whole of its
/// intermediate results. Where the arrays alive at once would exceed inputs plus outputs, the
/// operations run on demand instead: each store to an output right after what it depends on, in
/// program order among those. Dependencies (read after write, write after read, write after write)
/// are those of boxes of elements, so all values, and their bits, are the same; operations that no
/// output depends on are left out.
std::vector<std::int32_t> plan_execution(const nki::Program& program);

/// Returns the on-demand order whether it saves memory or not; nothing when the program stores to
/// no output or is beyond the bounds of the search for dependencies.
std::vector<std::int32_t> demand_order(const nki::Program& program);

}  // namespace accelopt::trainium::execution
