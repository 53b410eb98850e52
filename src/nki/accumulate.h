#pragma once

#include "nki/api.h"

namespace accelopt::nki::interp::api {

/// Reads reduce_op, reduce_res and reduce_cmd: the reduction of the result along the free dims that
/// an instruction makes on the side, in the registers of its engine. `only` is the one operation
/// that the instruction knows.
void add_accumulation(ApiCall& call, OpRequest& request, AluOp only);

}  // namespace accelopt::nki::interp::api
