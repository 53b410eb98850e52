#pragma once

#include <functional>

#include "nki/program.h"
#include "trainium/machine.h"

namespace accelopt::eval {

/// Called with the kernel of an evaluation as it was traced, when it is profiled: for what a reply
/// does not carry (a trace file). What it throws ends the evaluation as any failed I/O does.
using KernelObserver = std::function<void(const nki::Program&, const trainium::Machine&)>;

}  // namespace accelopt::eval
