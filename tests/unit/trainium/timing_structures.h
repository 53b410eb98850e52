#pragma once

#include "nki/program.h"

/// The tile structures of five published NKIBench baselines (shapes, tiles, order of operations),
/// rebuilt operation by operation, so that the timing model is tested without the front end.
namespace accelopt::trainium::testing {

nki::Program silu_structure();
nki::Program adamw_structure();
nki::Program rope_structure();
nki::Program rmsnorm_matmul_structure();
nki::Program add_rmsnorm_matmul_structure();

}  // namespace accelopt::trainium::testing
