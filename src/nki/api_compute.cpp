#include <fmt/format.h>

#include <algorithm>

#include "nki/api.h"
#include "nki/evaluator.h"
#include "nki/failure.h"

namespace accelopt::nki::interp::api {
namespace {

/// The operators that "Supported Math Operators for NKI ISA" lists as legal reductions.
bool is_reduction(AluOp op) {
    switch (op) {
        case AluOp::kAdd:
        case AluOp::kSubtract:
        case AluOp::kMultiply:
        case AluOp::kMax:
        case AluOp::kMin:
        case AluOp::kLogicalAnd:
        case AluOp::kLogicalOr:
        case AluOp::kBitwiseAnd:
        case AluOp::kBitwiseOr:
        case AluOp::kBitwiseXor:
            return true;
        default:
            return false;
    }
}

/// Reads the `axis` argument: the free axes to reduce, which must be the last ones.
std::uint8_t reduce_axes(const ApiCall& call, int k, const Tile& tile) {
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
    if (bits == 0 || bits != last)
        rejected("reduce_axis", "the reduced axes must be the last ones of the tile, without gaps")
            .shape(tile.shape())
            .raise();
    return static_cast<std::uint8_t>(bits);
}

/// Shape of a reduction's result: the kept dims, at least [P, 1].
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

OpRequest reduce_request(ApiCall& call, const Ref<Tile>& source, AluOp op, int axis) {
    OpRequest request = call.request(Opcode::kReduce);
    request.op0 = op;
    request.axes = reduce_axes(call, axis, *source);
    const int keepdims = call.at("keepdims");
    request.shape = reduced_shape(*source, request.axes, call.flag(keepdims, false));
    request.dtype = call.dtype(call.at("dtype"), source->dtype);
    request.add_source(source);
    return request;
}

}  // namespace

Value unary(ApiCall& call) {
    const Ref<Tile> source = call.tile(0);
    OpRequest request = call.request(Opcode::kActivation);
    request.function = *call.entry().act;
    request.scale.immediate = 1.0;
    request.shape = source->shape();
    const bool logical = request.function == ActFunction::kLogicalNot;
    request.dtype = call.dtype(call.at("dtype"), logical ? DType::kBool : source->dtype);
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
    if (is_bitvec(call.entry().alu)) {
        const auto integral = [&](int k) {
            return call.is_tile(k) ? !is_float(call.tile(k)->dtype) : call[k].is_integer();
        };
        for (int k = 0; k < 2; ++k)
            if (!integral(k)) call.bad_argument(k, "a tile or a number of an integer type");
    }
    return call.host().binary_tiles(call.entry().alu, call[0], call[1],
                                    call.request(Opcode::kTensorTensor), dtype);
}

Value reduction(ApiCall& call) {
    const Ref<Tile> source = call.tile(0);
    return call.pending(reduce_request(call, source, call.entry().alu, 1));
}

Value mean(ApiCall& call) {
    const Ref<Tile> source = call.tile(0);
    OpRequest sum = reduce_request(call, source, AluOp::kAdd, 1);
    std::int64_t count = 1;
    for (int d = 1; d < source->rank; ++d)
        if ((sum.axes >> d & 1U) != 0) count *= source->dims[d].count;
    if (sum.masked)
        unsupported("python_feature", "nl.mean with a mask").remedy("use nl.sum").raise();
    // "float32 intermediate and return values are used for integer inputs"
    const DType dtype =
        call.dtype(call.at("dtype"), is_float(source->dtype) ? source->dtype : DType::kFloat32);
    sum.dtype = DType::kFloat32;
    OpRequest scaling = call.request(Opcode::kTensorScalar);
    scaling.op0 = AluOp::kMultiply;
    scaling.operand0.immediate = 1.0 / static_cast<double>(count);
    scaling.shape = sum.shape;
    scaling.dtype = dtype;
    scaling.add_source(call.host().builder().emit_fresh(sum, ""));
    return call.pending(std::move(scaling));
}

namespace {

/// An operand of nl.where: a tile, or a number spread over a [P, 1] tile.
Ref<Tile> spread(ApiCall& call, int k, const Tile& like, DType dtype) {
    if (call.is_tile(k)) {
        const Ref<Tile> tile = call.tile(k);
        std::vector<std::int64_t> shape = tile->shape();
        if (shape[0] != 1 || like.shape()[0] == 1) return tile;
        shape[0] = like.shape()[0];
        Evaluator& host = call.host();
        return host.builder().settle(interp::broadcast_to(host.heap(), tile, shape),
                                     host.request_here(Opcode::kPartitionBroadcast));
    }
    OpRequest request = call.host().request_here(Opcode::kMemset);
    request.operand0.immediate = call.number(k);
    request.shape = {like.shape()[0], 1};
    request.dtype = dtype;
    return call.host().builder().emit_fresh(request, "");
}

}  // namespace

Value where(ApiCall& call) {
    const Ref<Tile> condition = call.tile(0);
    const auto dtype_of = [&](int k) {
        return call.is_tile(k) ? call.tile(k)->dtype : number_dtype(call[k]);
    };
    const DType dtype = promote(dtype_of(1), dtype_of(2));
    const Ref<Tile> x = spread(call, 1, *condition, dtype);
    const Ref<Tile> y = spread(call, 2, *condition, dtype);
    OpRequest request = call.request(Opcode::kSelect);
    request.shape = condition->shape();
    for (const Ref<Tile>& tile : {x, y}) {
        const std::vector<std::int64_t> shape = tile->shape();
        if (shape.size() == request.shape.size())
            for (std::size_t d = 1; d < shape.size(); ++d)
                request.shape[d] = std::max(request.shape[d], shape[d]);
    }
    request.dtype = call.dtype(call.at("dtype"), dtype);
    request.add_source(condition);
    request.add_source(x);
    request.add_source(y);
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
    const AluOp op = call.alu(0);
    if (!is_reduction(op)) call.bad_argument(0, "a reduction operator such as nl.add");
    OpRequest request = reduce_request(call, source, op, 2);
    call.require_operators(request, op, AluOp::kNone);
    request.negate = call.flag(call.at("negate"), false);
    return call.pending(std::move(request));
}

}  // namespace accelopt::nki::interp::api
