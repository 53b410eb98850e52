#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nki/affine.h"
#include "nki/program.h"
#include "nki/tile.h"

namespace accelopt::nki::interp {

/// A scalar operand before views are made: an immediate, or a [P, 1] tile when `tile` is set.
struct ScalarRequest {
    double immediate = 0;
    Ref<Tile> tile;
};

/// What an instruction does with the accumulation registers of its engine.
enum class ReduceCommand : std::uint8_t { kNone, kIdle, kReset, kReduce, kResetReduce };

/// An operation whose destination is not decided yet. The consumer of an API call's result picks
/// the destination; the builder then makes the views, applies the mask and checks legality.
struct OpRequest {
    Opcode opcode = Opcode::kCopy;
    Engine engine = Engine::kAuto;
    ActFunction function = ActFunction::kCopy;
    AluOp op0 = AluOp::kNone;
    AluOp op1 = AluOp::kNone;
    bool reverse0 = false;
    bool reverse1 = false;
    bool accumulate = false;
    bool negate = false;
    bool stationary_onezero = false;
    bool moving_onezero = false;
    bool implicit = false;
    /// Combines its result with what the destination holds (+=, loop_reduce): iterations of an
    /// affine_range may share a destination that all of them combine by this one operation.
    /// kSubtract counts as kAdd, kDivide as kMultiply; kBypass: a scatter, whose elements the data
    /// choose.
    AluOp combines = AluOp::kNone;
    std::uint8_t axes = 0;  ///< kReduce: bit d = dim d of the source as written is reduced
    std::uint8_t sources = 0;
    std::array<Ref<Tile>, 3> src;
    ScalarRequest scale;
    ScalarRequest bias;
    ScalarRequest operand0;
    ScalarRequest operand1;
    AffineExpr iota;  ///< kIota, and the position of an element where an operation knows it
    std::shared_ptr<Extra> extra;
    MaskExpr mask;
    bool masked = false;

    std::vector<std::int64_t> shape;  ///< of the result, as the kernel sees it
    DType dtype = DType::kFloat32;    ///< of the result
    Buffer buffer = Buffer::kSbuf;    ///< of the result when it is not assigned to a view
    int api = -1;
    int site = -1;
    int line = 0;
    int column = 0;
    bool loop_reduce = false;       ///< decided when the destination is known
    bool first_iteration = false;   ///< loop_reduce: all its loops are at their first iteration
    int outer_context = -1;         ///< loop_reduce: where a fresh result is allocated
    bool allows_dynamic = false;    ///< the function takes operands indexed at run time
    std::optional<double> prefill;  ///< value of the elements that the mask leaves out
    MaskExpr prefill_mask;
    bool prefill_masked = false;
    ReduceCommand reduce_command = ReduceCommand::kNone;
    Ref<Tile> reduce_into;  ///< a [P, 1] tile that gets what the registers hold
    AluOp reduce_op = AluOp::kNone;

    void add_source(const Ref<Tile>& tile) { src[sources++] = tile; }
    /// Lets go of the tiles, once the operation has been executed.
    void release() {
        src = {};
        scale.tile = {};
        bias.tile = {};
        operand0.tile = {};
        operand1.tile = {};
        reduce_into = {};
    }
};

}  // namespace accelopt::nki::interp
