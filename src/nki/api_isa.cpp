#include <fmt/format.h>

#include "nki/accumulate.h"
#include "nki/api.h"
#include "nki/evaluator.h"
#include "nki/failure.h"

namespace accelopt::nki::interp::api {
namespace {

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

/// True for the functions of the table of nisa.activation.
bool is_activation(ActFunction function) {
    switch (function) {
        case ActFunction::kCos:
        case ActFunction::kTan:
        case ActFunction::kFloor:
        case ActFunction::kCeil:
        case ActFunction::kTrunc:
        case ActFunction::kInvert:
        case ActFunction::kLogicalNot:
            return false;
        default:
            return true;
    }
}

void check_reduce_result(const Tile& into, const OpRequest& request) {
    if (free_count(into) == 1 && into.shape()[0] == request.shape[0]) return;
    rejected("shape_mismatch", "reduce_res must be a [P, 1] tile")
        .shape(into.shape())
        .shape(request.shape)
        .raise();
}

OpRequest activation_request(ApiCall& call) {
    const Ref<Tile> source = call.tile(1);
    OpRequest request = call.request(Opcode::kActivation);
    request.function = call.act(0);
    if (!is_activation(request.function))
        call.bad_argument(0, "an activation function of the Scalar Engine");
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
    if (request.bias.tile && request.function == ActFunction::kReciprocal &&
        call.host().core_version() < 3)
        rejected("value_error", "nisa.activation(op=nl.reciprocal) takes no bias on NeuronCore-v2")
            .remedy("add with nisa.tensor_scalar first")
            .raise();
    if (!call.has(bias))
        call.host().builder().forbid_when_allocated(
            "bias_tensor_must_be_specified_in_allocation",
            "an activation must have a bias in a kernel with direct allocation",
            "pass bias=, a [P, 1] tile of zeros", request);
    return request;
}

/// A bitwise operation works on integers only, and on the Vector Engine.
void check_bits(const ApiCall& call, const OpRequest& request) {
    const bool first = is_bitwise(request.op0);
    if (request.op1 != AluOp::kNone && is_bitwise(request.op1) != first)
        rejected("type_error", "the two operators must both be bitwise or both arithmetic").raise();
    if (!first) return;
    if (request.engine == Engine::kGpSimd || request.engine == Engine::kScalar)
        rejected("value_error", "bitwise operations run on the Vector Engine").raise();
    for (int k = 0; k < request.sources; ++k)
        if (is_float(request.src[k]->dtype))
            rejected("type_error",
                     fmt::format("{} with {} needs integers, not {}", call.entry().name,
                                 to_string(request.op0), to_string(request.src[k]->dtype)))
                .shape(request.src[k]->shape())
                .raise();
    if (is_float(request.dtype))
        rejected("type_error",
                 fmt::format("{} cannot give {}", to_string(request.op0), to_string(request.dtype)))
            .raise();
}

/// The engines that an instruction can be asked to run on.
void check_engine(const ApiCall& call, const OpRequest& request,
                  std::initializer_list<Engine> engines) {
    if (request.engine == Engine::kAuto) return;
    for (const Engine engine : engines)
        if (request.engine == engine) return;
    call.bad_argument(call.at("engine"), "an engine that runs this instruction");
}

/// nisa.tensor_scalar on GpSimd is for rsqrt alone; the Scalar Engine has few operators (NKI API
/// Common Fields, "Supported Math Operators for NKI ISA", column "Supported Engine").
void check_scalar_operators(const ApiCall& call, const OpRequest& request) {
    const auto runs = [&](AluOp op) {
        if (op == AluOp::kNone || op == AluOp::kRsqrt) return true;
        return request.engine == Engine::kScalar &&
               (op == AluOp::kAdd || op == AluOp::kMultiply || op == AluOp::kAbsMax);
    };
    if (request.engine != Engine::kScalar && request.engine != Engine::kGpSimd) return;
    if (!runs(request.op0) || !runs(request.op1))
        call.bad_argument(call.at("engine"), "an engine that has these operators");
}

/// An operator and its operand. A few operators take the data alone, whatever the operand.
void set_operator(ApiCall& call, int op, int operand, AluOp& into, ScalarRequest& value) {
    const Value& given = call[op];
    const auto is = [&](ActFunction function) {
        if (given.is(Kind::kApi)) return call.host().api()[given.integer()].act == function;
        return given.is(Kind::kNumpy) && numpy_table()[given.integer()].act == function;
    };
    value = call.scalar(operand);
    if (is(ActFunction::kInvert)) {
        into = AluOp::kBitwiseXor;
        value = {-1.0, {}};
    } else if (is(ActFunction::kLogicalNot)) {
        into = AluOp::kEqual;
        value = {0.0, {}};
    } else if (is(ActFunction::kAbs)) {
        into = AluOp::kAbsMax;
        value = {0.0, {}};
    } else {
        into = call.alu(op);
    }
}

}  // namespace

void add_accumulation(ApiCall& call, OpRequest& request, AluOp only) {
    const int into = call.at("reduce_res");
    const int op = call.at("reduce_op");
    const int command = call.at("reduce_cmd");
    if (call.has(command)) {
        const Value& value = call[command];
        const auto is = [&](TokenId id) {
            return value.is(Kind::kToken) && value.integer() == static_cast<int>(id);
        };
        if (is(TokenId::kReduceReset)) {
            request.reduce_command = ReduceCommand::kReset;
        } else if (is(TokenId::kReduceReduce)) {
            request.reduce_command = ReduceCommand::kReduce;
        } else if (is(TokenId::kReduceResetReduce)) {
            request.reduce_command = ReduceCommand::kResetReduce;
        } else if (!is(TokenId::kReduceIdle)) {
            call.bad_argument(command, "a member of nisa.reduce_cmd");
        }
    }
    request.reduce_op = call.has(op) ? call.alu(op) : only;
    if (request.reduce_op != only)
        rejected("value_error",
                 fmt::format("{} can only reduce with {}", call.entry().name, to_string(only)))
            .remedy("reduce with nisa.tensor_reduce")
            .raise();
    if (!call.has(into)) return;
    if (request.reduce_command == ReduceCommand::kNone)
        request.reduce_command = ReduceCommand::kIdle;
    request.reduce_into = call.tile(into);
    check_reduce_result(*request.reduce_into, request);
}

Value activation(ApiCall& call) {
    OpRequest request = activation_request(call);
    add_accumulation(call, request, AluOp::kAdd);
    return call.pending(std::move(request));
}

Value activation_reduce(ApiCall& call) {
    OpRequest request = activation_request(call);
    request.reduce_op = call.alu(call.at("reduce_op"));
    if (request.reduce_op != AluOp::kAdd)
        rejected("value_error", "an activation can only reduce with add on this device")
            .remedy("reduce with nisa.tensor_reduce")
            .raise();
    request.reduce_command = ReduceCommand::kResetReduce;
    request.reduce_into = call.tile(call.at("reduce_res"));
    check_reduce_result(*request.reduce_into, request);
    return call.pending(std::move(request));
}

Value tensor_scalar(ApiCall& call) {
    const Ref<Tile> source = call.tile(0);
    OpRequest request = call.request(Opcode::kTensorScalar);
    set_operator(call, 1, 2, request.op0, request.operand0);
    request.reverse0 = call.flag(3, false);
    if (call.has(4) != call.has(5))
        rejected("type_error", "op1 and operand1 must be given together").raise();
    if (call.has(4)) {
        set_operator(call, 4, 5, request.op1, request.operand1);
        request.reverse1 = call.flag(6, false);
    }
    request.shape = source->shape();
    request.dtype = call.dtype(call.at("dtype"), source->dtype);
    request.add_source(source);
    check_bits(call, request);
    check_engine(call, request, {Engine::kVector, Engine::kScalar, Engine::kGpSimd});
    check_scalar_operators(call, request);
    return call.pending(std::move(request));
}

Value tensor_scalar_reduce(ApiCall& call) {
    const Ref<Tile> source = call.tile(call.at("data"));
    OpRequest request = call.request(Opcode::kTensorScalar);
    set_operator(call, call.at("op0"), call.at("operand0"), request.op0, request.operand0);
    if (is_bitwise(request.op0)) call.bad_argument(call.at("op0"), "an arithmetic operator");
    if (call.flag(call.at("reverse0"), false))
        unsupported("unknown_api", "reverse0 of nisa.tensor_scalar_reduce is not supported by NKI")
            .raise();
    request.shape = source->shape();
    request.dtype = call.dtype(call.at("dtype"), source->dtype);
    request.add_source(source);
    request.reduce_op = call.alu(call.at("reduce_op"));
    if (request.reduce_op != AluOp::kAdd && request.reduce_op != AluOp::kSubtract &&
        request.reduce_op != AluOp::kMultiply && request.reduce_op != AluOp::kMax &&
        request.reduce_op != AluOp::kMin)
        call.bad_argument(call.at("reduce_op"), "add, subtract, multiply, max or min");
    request.reduce_command = ReduceCommand::kResetReduce;
    request.reduce_into = call.tile(call.at("reduce_res"));
    check_reduce_result(*request.reduce_into, request);
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
    if (request.op0 == AluOp::kRsqrt || request.op0 == AluOp::kAbsMax)
        call.bad_argument(2, "a binary operator");
    check_bits(call, request);
    check_engine(call, request, {Engine::kVector, Engine::kGpSimd});
    if (request.engine == Engine::kAuto &&
        (request.op0 == AluOp::kPower || is_exact_integer(request.op0, request)))
        request.engine = Engine::kGpSimd;
    return call.pending(std::move(request));
}

Value scalar_tensor_tensor(ApiCall& call) {
    const Ref<Tile> a = call.tile(call.at("data"));
    OpRequest request = call.request(Opcode::kScalarTensorTensor);
    set_operator(call, call.at("op0"), call.at("operand0"), request.op0, request.operand0);
    request.op1 = call.alu(call.at("op1"));
    const Ref<Tile> b = call.tile(call.at("operand1"));
    check_pair(*a, *b);
    request.reverse0 = call.flag(call.at("reverse0"), false);
    request.reverse1 = call.flag(call.at("reverse1"), false);
    request.shape = a->shape();
    request.dtype = call.dtype(call.at("dtype"), a->dtype);
    request.add_source(a);
    request.add_source(b);
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
    for (int k = 3; k < 5; ++k)
        if (is_bitwise(call.alu(k))) call.bad_argument(k, "a binary arithmetic operator");
    request.reverse0 = call.flag(5, false);
    request.reverse1 = call.flag(6, false);
    request.shape = a->shape();
    request.dtype = call.dtype(call.at("dtype"), promote(a->dtype, b->dtype));
    request.add_source(a);
    request.add_source(b);
    return call.pending(std::move(request));
}

}  // namespace accelopt::nki::interp::api
