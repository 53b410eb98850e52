#pragma once

#include "eval/problem.h"
#include "trainium/machine.h"

namespace accelopt::eval {

/// Time of the papers' peak model in ms (AccelOpt, section 4.1 and table 4): the largest of bytes
/// over memory rate, matrix operations over TensorE's fp32 rate, vector operations over VectorE's.
/// A yardstick, not a bound: other engines may help.
double peak_model_ms(const Problem& problem, const trainium::Machine& machine);

/// Time in ms that no honest kernel can undercut (design.md, Bounds): the larger of compulsory
/// bytes over the peak memory rate and the problem's operations spread over all engines, each at
/// its fastest legal dtype and with every operation an instruction can fuse counted.
double lower_bound_ms(const Problem& problem, const trainium::Machine& machine);

}  // namespace accelopt::eval
