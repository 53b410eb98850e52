#pragma once

#include <cstdint>

#include "nki/program.h"
#include "trainium/elementwise.h"

namespace accelopt::trainium::execution {

/// target = op over the axes set in `axes` of source, in float32; `target` lies over the source's
/// space with stride 0 along reduced axes. Sums are made in 64 lanes and blocks, so that their
/// error grows far slower than with a running sum. Results without an active element are left.
void run_reduce(nki::AluOp op, bool negate, unsigned axes, const Space& space,
                const Operand& source, const Operand& target);

/// One scan: state = (a op0 state) op1 b along the free dims (row-major), per partition, where
/// dims[0] is the partition dimension; `reverse` swaps the operands of an operation.
struct Scan {
    nki::AluOp op0 = nki::AluOp::kNone;
    nki::AluOp op1 = nki::AluOp::kNone;
    bool reverse0 = false;
    bool reverse1 = false;
    Operand a;
    Operand b;
    Operand initial;  ///< immediate, or one element per partition
};
void run_scan(const Scan& scan, const Space& space, const Operand& target);

}  // namespace accelopt::trainium::execution
