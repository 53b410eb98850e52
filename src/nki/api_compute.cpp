#include <fmt/format.h>

#include <algorithm>

#include "nki/api.h"
#include "nki/evaluator.h"
#include "nki/failure.h"
#include "nki/iteration_space.h"
#include "nki/reductions.h"

namespace accelopt::nki::interp::api {

std::uint8_t reduce_axes(const ApiCall& call, int k, const Tile& tile, bool instruction) {
    std::vector<std::int64_t> axes;
    if (call[k].is_integer()) {
        axes.push_back(call.integer(k));
    } else {
        axes = call.shape(k);
    }
    const int rank = std::max(tile.rank, 2);
    std::uint32_t bits = 0;
    for (std::int64_t axis : axes) {
        if (axis < 0) axis += rank;
        if (axis == 0)
            rejected("reduce_axis", "a reduction along the partition dimension is not supported")
                .shape(tile.shape())
                .remedy("transpose first, or multiply by a vector of ones with nc_matmul")
                .raise();
        if (axis < 0 || axis >= rank) call.bad_argument(k, "the free axes of the tile");
        bits |= 1U << axis;
    }
    std::uint32_t last = 0;
    for (int d = rank - 1; d >= 1 && (bits >> d & 1U) != 0; --d) last |= 1U << d;
    if (bits == 0 || (instruction && bits != last))
        rejected("reduce_axis", "the reduced axes must be the last ones of the tile, without gaps")
            .shape(tile.shape())
            .raise();
    return static_cast<std::uint8_t>(bits);
}

std::vector<std::int64_t> reduced_shape(const Tile& tile, std::uint8_t axes, bool keepdims) {
    std::vector<std::int64_t> shape;
    const std::vector<std::int64_t> full = tile.shape();
    for (std::size_t d = 0; d < full.size(); ++d) {
        if ((axes >> d & 1U) == 0) {
            shape.push_back(full[d]);
        } else if (keepdims) {
            shape.push_back(1);
        }
    }
    if (shape.size() == 1) shape.push_back(1);
    return shape;
}

std::int64_t reduced_count(ApiCall& call, const Tile& tile, std::uint8_t axes) {
    const OpRequest request = call.request(Opcode::kReduce);
    std::vector<std::int64_t> shape = tile.shape();
    if (request.masked) {
        IterationSpace space(shape);
        if (!space.add_mask(request.mask) || !space.apply_mask() || !space.mask().empty())
            rejected("unsupported_expression_in_mask",
                     "the mask of a mean must leave the same number of elements everywhere")
                .shape(shape)
                .remedy("mask whole rows or columns, or use nl.sum")
                .raise();
        for (std::size_t d = 0; d < shape.size(); ++d) shape[d] = space.count(static_cast<int>(d));
    }
    std::int64_t count = 1;
    for (std::size_t d = 1; d < shape.size(); ++d)
        if ((axes >> d & 1U) != 0) count *= shape[d];
    return count;
}

namespace {

OpRequest reduce_request(ApiCall& call, const Ref<Tile>& source, AluOp op, int axis,
                         bool instruction = false) {
    OpRequest request = call.request(Opcode::kReduce);
    request.op0 = op;
    request.axes = reduce_axes(call, axis, *source, instruction);
    const int keepdims = call.at("keepdims");
    request.shape = reduced_shape(*source, request.axes, call.flag(keepdims, false));
    request.dtype = call.dtype(call.at("dtype"), source->dtype);
    request.add_source(source);
    return request;
}

}  // namespace

namespace {

/// True for the functions that only the Scalar Engine's activation instruction computes.
bool needs_activation(ActFunction function) {
    switch (function) {
        case ActFunction::kCopy:
        case ActFunction::kFloor:
        case ActFunction::kCeil:
        case ActFunction::kTrunc:
        case ActFunction::kInvert:
        case ActFunction::kLogicalNot:
        case ActFunction::kReciprocal:
        case ActFunction::kAbs:
            return false;
        default:
            return true;
    }
}

}  // namespace

Value unary(ApiCall& call) {
    const Ref<Tile> source = call.tile(0);
    OpRequest request = call.request(Opcode::kActivation);
    request.function = *call.entry().act;
    request.scale.immediate = 1.0;
    request.shape = source->shape();
    const bool logical = request.function == ActFunction::kLogicalNot;
    if (request.function == ActFunction::kInvert && is_float(source->dtype))
        call.bad_argument(0, "a tile of integers");
    request.dtype = call.dtype(call.at("dtype"), logical ? DType::kBool : source->dtype);
    if (needs_activation(request.function))
        call.host().builder().forbid_when_allocated(
            "bias_tensor_must_be_specified_in_allocation",
            fmt::format("{} has no bias, which a kernel with direct allocation must give",
                        call.entry().name),
            "use nisa.activation with a bias tile", request);
    request.add_source(source);
    return call.pending(std::move(request));
}

Value negative(ApiCall& call) {
    const Ref<Tile> source = call.tile(0);
    OpRequest request = call.request(Opcode::kTensorScalar);
    request.op0 = AluOp::kMultiply;
    request.operand0.immediate = -1.0;
    request.shape = source->shape();
    request.dtype = call.dtype(call.at("dtype"), source->dtype);
    request.add_source(source);
    return call.pending(std::move(request));
}

Value reciprocal(ApiCall& call) {
    const Ref<Tile> source = call.tile(0);
    OpRequest request = call.request(Opcode::kReciprocal);
    request.shape = source->shape();
    request.dtype = call.dtype(call.at("dtype"), source->dtype);
    request.add_source(source);
    return call.pending(std::move(request));
}

Value binary(ApiCall& call) {
    for (int k = 0; k < 2; ++k)
        if (!call.is_tile(k) && !call[k].is_number()) call.bad_argument(k, "a tile or a number");
    if (!call.is_tile(0) && !call.is_tile(1)) call.bad_argument(0, "a tile");
    std::optional<DType> dtype;
    if (call.has(call.at("dtype"))) dtype = call.dtype(call.at("dtype"));
    return call.host().binary_tiles(call.entry().alu, call[0], call[1],
                                    call.request(Opcode::kTensorTensor), dtype);
}

Value reduction(ApiCall& call) {
    const Ref<Tile> source = call.tile(0);
    return call.pending(reduce_request(call, source, call.entry().alu, 1));
}

Value all(ApiCall& call) {
    const Ref<Tile> source = call.tile(0);
    OpRequest request = call.request(Opcode::kReduce);
    request.op0 = AluOp::kLogicalAnd;
    request.axes = reduce_axes(call, 1, *source);
    request.shape = reduced_shape(*source, request.axes, false);
    request.dtype = call.dtype(call.at("dtype"), DType::kBool);
    request.add_source(source);
    return call.pending(std::move(request));
}

Value loop_reduce(ApiCall& call) {
    const Ref<Tile> source = call.tile(0);
    OpRequest request = call.request(Opcode::kTensorTensor);
    request.op0 = call.alu(1);
    request.shape = source->shape();
    if (request.shape.size() == 1) request.shape.push_back(1);
    request.dtype = call.dtype(call.at("dtype"), source->dtype);
    request.loop_reduce = true;
    request.first_iteration = true;
    LoopTracker& loops = call.host().builder().loops();
    int outermost = loops.depth() + 1;
    std::vector<Value> indices;
    if (call[2].is(Kind::kTuple) || call[2].is(Kind::kList)) {
        indices = call[2].as<Sequence>().items;
    } else {
        indices.push_back(call[2]);
    }
    for (const Value& index : indices) {
        if (!index.is_integer()) call.bad_argument(2, "loop variables");
        const int depth = index.loop();
        if (depth == 0 || depth > loops.depth()) {
            if (index.integer() != 0) request.first_iteration = false;
            continue;
        }
        outermost = std::min(outermost, depth);
        if (loops.iteration(depth) != 0) request.first_iteration = false;
    }
    request.outer_context = loops.context_outside(outermost);
    request.add_source(source);
    return call.pending(std::move(request));
}

Value static_cast_(ApiCall& call) {
    const Ref<Tile> source = call.tile(0);
    OpRequest request = call.request(Opcode::kCopy);
    request.shape = source->shape();
    request.dtype = call.dtype(1);
    request.add_source(source);
    return call.pending(std::move(request));
}

Value tensor_reduce(ApiCall& call) {
    const Ref<Tile> source = call.tile(1);
    OpRequest request = reduce_request(call, source, call.alu(0), 2, true);
    switch (request.op0) {
        case AluOp::kAdd:
        case AluOp::kSubtract:
        case AluOp::kMultiply:
        case AluOp::kMax:
        case AluOp::kMin:
        case AluOp::kLogicalAnd:
        case AluOp::kLogicalOr:
        case AluOp::kLogicalXor:
            break;
        case AluOp::kBitwiseAnd:
        case AluOp::kBitwiseOr:
        case AluOp::kBitwiseXor:
            if (is_float(source->dtype) || is_float(request.dtype))
                call.bad_argument(1, "a tile of integers");
            break;
        default:
            call.bad_argument(0, "an operator that reduces");
    }
    request.negate = call.flag(call.at("negate"), false);
    if (request.negate && is_bitwise(request.op0))
        call.bad_argument(call.at("negate"), "False for a bitwise operator");
    return call.pending(std::move(request));
}

}  // namespace accelopt::nki::interp::api
