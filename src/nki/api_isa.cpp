#include <fmt/format.h>

#include "nki/api.h"
#include "nki/evaluator.h"
#include "nki/failure.h"

namespace accelopt::nki::interp::api {
namespace {

std::int64_t free_count(const Tile& tile) {
    const std::vector<std::int64_t> shape = tile.shape();
    std::int64_t n = 1;
    for (std::size_t d = 1; d < shape.size(); ++d) n *= shape[d];
    return n;
}

bool is_reduce_idle(const Value& value) {
    return value.is(Kind::kUnbound) || value.is(Kind::kNone) ||
           (value.is(Kind::kToken) && value.integer() == static_cast<int>(TokenId::kReduceIdle));
}

/// Two operands of one instruction: the same partitions and elements, and not both in PSUM.
void check_pair(const Tile& a, const Tile& b) {
    if (a.shape()[0] != b.shape()[0])
        rejected("num_partition_mismatch",
                 fmt::format("the operands have {} and {} partitions", a.shape()[0], b.shape()[0]))
            .shape(a.shape())
            .shape(b.shape())
            .remedy("call broadcast_to to repeat one partition")
            .raise();
    if (free_count(a) != free_count(b))
        rejected("shape_mismatch", fmt::format("the operands have {} and {} elements per partition",
                                               free_count(a), free_count(b)))
            .shape(a.shape())
            .shape(b.shape())
            .remedy("use nisa.tensor_scalar for a [P, 1] operand, or broadcast_to")
            .raise();
    if (a.buffer == Buffer::kPsum && b.buffer == Buffer::kPsum)
        rejected("unsupported_memory", "the operands cannot both be in psum")
            .shape(a.shape())
            .shape(b.shape())
            .remedy("copy one of them to SBUF")
            .raise();
}

OpRequest activation_request(ApiCall& call) {
    const Ref<Tile> source = call.tile(1);
    OpRequest request = call.request(Opcode::kActivation);
    request.function = call.act(0);
    request.shape = source->shape();
    request.dtype = call.dtype(call.at("dtype"), source->dtype);
    request.scale.immediate = 1.0;
    const int scale = call.at("scale");
    const int bias = call.at("bias");
    if (call.has(scale)) request.scale = call.scalar(scale);
    if (call.has(bias)) {
        if (!call.is_tile(bias))
            rejected("activation_bias_invalid_type",
                     "the bias of an activation must be a [P, 1] tile")
                .remedy("make it with nisa.memset((P, 1), value, dtype=nl.float32)")
                .raise();
        request.bias = call.scalar(bias);
        const DType dtype = request.bias.tile->dtype;
        if (dtype != DType::kFloat32 && dtype != DType::kBFloat16 && dtype != DType::kFloat16)
            rejected("activation_bias_invalid_type",
                     fmt::format("the bias of an activation cannot be {}", to_string(dtype)))
                .shape(request.bias.tile->shape())
                .remedy("use float32, bfloat16 or float16")
                .raise();
    }
    if (request.scale.tile) {
        const Tile& tile = *request.scale.tile;
        if (tile.dtype != DType::kFloat32)
            rejected("activation_scale_invalid_type",
                     fmt::format("the scale of an activation cannot be {}", to_string(tile.dtype)))
                .shape(tile.shape())
                .remedy("use a number or a float32 tile")
                .raise();
        if (free_count(tile) != 1 || tile.shape()[0] != request.shape[0])
            rejected("activation_scale_scalar_or_vector",
                     "the scale of an activation must be a number or a [P, 1] tile")
                .shape(tile.shape())
                .shape(request.shape)
                .raise();
    }
    request.add_source(source);
    return request;
}

void set_reduction(ApiCall& call, OpRequest& request) {
    const int into = call.at("reduce_res");
    request.reduce_into = call.tile(into);
    request.reduce_op = call.alu(call.at("reduce_op"));
    if (request.reduce_op != AluOp::kAdd)
        rejected("value_error", "an activation can only reduce with nl.add on this device")
            .remedy("reduce with nisa.tensor_reduce")
            .raise();
    if (free_count(*request.reduce_into) != 1)
        rejected("shape_mismatch", "reduce_res must be a [P, 1] tile")
            .shape(request.reduce_into->shape())
            .raise();
}

}  // namespace

Value activation(ApiCall& call) {
    OpRequest request = activation_request(call);
    const Value& command = call[call.at("reduce_cmd")];
    const bool reset_reduce = command.is(Kind::kToken) &&
                              command.integer() == static_cast<int>(TokenId::kReduceResetReduce);
    if (!is_reduce_idle(command) && !reset_reduce)
        unsupported("unknown_api", "nisa.activation with this reduce_cmd is not supported")
            .remedy("use nisa.reduce_cmd.reset_reduce")
            .raise();
    if (call.has(call.at("reduce_res"))) {
        set_reduction(call, request);
    } else if (reset_reduce) {
        unsupported("unknown_api", "a reduction kept in registers is not supported")
            .remedy("pass reduce_res")
            .raise();
    }
    return call.pending(std::move(request));
}

Value activation_reduce(ApiCall& call) {
    OpRequest request = activation_request(call);
    set_reduction(call, request);
    return call.pending(std::move(request));
}

Value tensor_scalar(ApiCall& call) {
    const Ref<Tile> source = call.tile(0);
    OpRequest request = call.request(Opcode::kTensorScalar);
    request.op0 = call.alu(1);
    request.operand0 = call.scalar(2);
    request.reverse0 = call.flag(3, false);
    if (call.has(4) != call.has(5))
        rejected("type_error", "op1 and operand1 must be given together").raise();
    if (call.has(4)) {
        request.op1 = call.alu(4);
        request.operand1 = call.scalar(5);
        request.reverse1 = call.flag(6, false);
    }
    request.shape = source->shape();
    request.dtype = call.dtype(call.at("dtype"), source->dtype);
    request.add_source(source);
    call.require_engine(request, {Engine::kVector, Engine::kScalar, Engine::kGpSimd});
    call.require_operators(request, request.op0, request.op1);
    return call.pending(std::move(request));
}

Value tensor_tensor(ApiCall& call) {
    const Ref<Tile> a = call.tile(0);
    const Ref<Tile> b = call.tile(1);
    check_pair(*a, *b);
    OpRequest request = call.request(Opcode::kTensorTensor);
    request.op0 = call.alu(2);
    request.shape = a->shape();
    request.dtype = call.dtype(call.at("dtype"), promote(a->dtype, b->dtype));
    request.add_source(a);
    request.add_source(b);
    call.require_engine(request, {Engine::kVector, Engine::kGpSimd});
    call.require_operators(request, request.op0, AluOp::kNone);
    return call.pending(std::move(request));
}

Value scalar_tensor_tensor(ApiCall& call) {
    const Ref<Tile> a = call.tile(call.at("data"));
    OpRequest request = call.request(Opcode::kScalarTensorTensor);
    request.op0 = call.alu(call.at("op0"));
    request.operand0 = call.scalar(call.at("operand0"));
    request.op1 = call.alu(call.at("op1"));
    const Ref<Tile> b = call.tile(call.at("operand1"));
    check_pair(*a, *b);
    request.reverse0 = call.flag(call.at("reverse0"), false);
    request.reverse1 = call.flag(call.at("reverse1"), false);
    request.shape = a->shape();
    request.dtype = call.dtype(call.at("dtype"), a->dtype);
    request.add_source(a);
    request.add_source(b);
    call.require_operators(request, request.op0, request.op1);
    return call.pending(std::move(request));
}

Value tensor_tensor_scan(ApiCall& call) {
    const Ref<Tile> a = call.tile(0);
    const Ref<Tile> b = call.tile(1);
    check_pair(*a, *b);
    OpRequest request = call.request(Opcode::kScan);
    request.operand0 = call.scalar(2);
    request.op0 = call.alu(3);
    request.op1 = call.alu(4);
    request.reverse0 = call.flag(5, false);
    request.reverse1 = call.flag(6, false);
    request.shape = a->shape();
    request.dtype = call.dtype(call.at("dtype"), promote(a->dtype, b->dtype));
    request.add_source(a);
    request.add_source(b);
    return call.pending(std::move(request));
}

Value affine_select(ApiCall& call) {
    if (!call[0].is(Kind::kMask)) call.bad_argument(0, "a comparison of affine expressions");
    const MaskExpr& predicate = call[0].as<Mask>().expr;
    if (predicate.terms.size() != 1)
        rejected("unsupported_expression_in_mask", "nisa.affine_select takes one comparison")
            .remedy("use nl.where for a predicate joined by &")
            .raise();
    const Ref<Tile> source = call.tile(1);
    if (!is_float(source->dtype) && size_of(source->dtype) > 2)
        rejected("type_error",
                 fmt::format("nisa.affine_select cannot select from {}", to_string(source->dtype)))
            .shape(source->shape())
            .remedy("use a float or an 8-bit or 16-bit integer dtype")
            .raise();
    OpRequest request = call.request(Opcode::kCopy);
    if (request.masked)
        unsupported("unknown_api", "nisa.affine_select with a mask is not supported").raise();
    request.mask = predicate;
    request.masked = true;
    request.prefill = call.number(2);
    request.shape = source->shape();
    request.dtype = call.dtype(call.at("dtype"), source->dtype);
    request.add_source(source);
    return call.pending(std::move(request));
}

}  // namespace accelopt::nki::interp::api
