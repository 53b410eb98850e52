#pragma once

#include <cstdint>

#include "nki/program.h"

namespace accelopt::trainium::execution {

/// True for the operations that work on the bits of integers.
bool is_bitwise(nki::AluOp op);

/// out[i] = a[i] op b[i] on integers; a scalar operand is one element. Shifts and bitwise
/// operations work on 32 bits: a right shift keeps the sign of negative values, counts outside
/// 0..31 give 0 (or -1 for a negative value shifted right).
void integer_binary(nki::AluOp op, const std::int64_t* a, bool a_scalar, const std::int64_t* b,
                    bool b_scalar, std::int64_t* out, std::int64_t n);

/// out[i] = function(in[i]) on integers; functions that have no integer form go through float32.
void integer_unary(nki::ActFunction function, const std::int64_t* in, std::int64_t* out,
                   std::int64_t n);

}  // namespace accelopt::trainium::execution
