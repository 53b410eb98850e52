#include <fmt/format.h>

#include "nki/api.h"
#include "nki/evaluator.h"
#include "nki/failure.h"
#include "nki/reductions.h"

/// Functions of nki.language that the compiler makes of several instructions. All intermediate
/// tiles are float32; only the result is rounded.
namespace accelopt::nki::interp::api {
namespace {

/// A request of this call without its mask: for steps on reduced shapes.
OpRequest step(ApiCall& call, Opcode opcode, std::vector<std::int64_t> shape) {
    OpRequest request = call.host().request_here(opcode);
    request.shape = std::move(shape);
    request.dtype = DType::kFloat32;
    return request;
}

Ref<Tile> fresh(ApiCall& call, const OpRequest& request) {
    return call.host().builder().emit_fresh(request, "");
}

/// tile * factor, in float32.
Ref<Tile> scaled(ApiCall& call, const Ref<Tile>& tile, double factor) {
    OpRequest request = step(call, Opcode::kTensorScalar, tile->shape());
    request.op0 = AluOp::kMultiply;
    request.operand0.immediate = factor;
    request.add_source(tile);
    return fresh(call, request);
}

/// a op b elementwise with broadcasting, under the mask of the call.
OpRequest combined(ApiCall& call, AluOp op, const Ref<Tile>& a, const Ref<Tile>& b) {
    return call.host().binary_request(op, Value::tile(a), Value::tile(b),
                                      call.request(Opcode::kTensorTensor), DType::kFloat32);
}

OpRequest reduced(ApiCall& call, const Ref<Tile>& tile, AluOp op, std::uint8_t axes) {
    OpRequest request = call.request(Opcode::kReduce);
    request.op0 = op;
    request.axes = axes;
    request.shape = reduced_shape(*tile, axes, true);
    request.dtype = DType::kFloat32;
    request.add_source(tile);
    return request;
}

/// The mean with the reduced axes kept, in float32.
Ref<Tile> mean_of(ApiCall& call, const Ref<Tile>& tile, std::uint8_t axes) {
    const Ref<Tile> sum = fresh(call, reduced(call, tile, AluOp::kAdd, axes));
    return scaled(call, sum, 1.0 / static_cast<double>(reduced_count(call, *tile, axes)));
}

Value cast(ApiCall& call, OpRequest request, DType dtype) {
    request.dtype = dtype;
    return call.pending(std::move(request));
}

/// dtype, else compute_dtype, else that of the input: both set the dtype of the result.
DType result_dtype(const ApiCall& call, DType otherwise) {
    return call.dtype(call.at("dtype"), call.dtype(call.at("compute_dtype"), otherwise));
}

}  // namespace

Value mean(ApiCall& call) {
    const Ref<Tile> source = call.tile(0);
    const std::uint8_t axes = reduce_axes(call, 1, *source);
    OpRequest sum = reduced(call, source, AluOp::kAdd, axes);
    sum.shape = reduced_shape(*source, axes, call.flag(call.at("keepdims"), false));
    OpRequest scaling = step(call, Opcode::kTensorScalar, sum.shape);
    scaling.op0 = AluOp::kMultiply;
    scaling.operand0.immediate = 1.0 / static_cast<double>(reduced_count(call, *source, axes));
    scaling.add_source(fresh(call, sum));
    const DType natural = is_float(source->dtype) ? source->dtype : DType::kFloat32;
    return cast(call, std::move(scaling), call.dtype(call.at("dtype"), natural));
}

Value var(ApiCall& call) {
    const Ref<Tile> source = call.tile(0);
    const std::uint8_t axes = reduce_axes(call, 1, *source);
    const Ref<Tile> mean = mean_of(call, source, axes);
    const Ref<Tile> centred = fresh(call, combined(call, AluOp::kSubtract, source, mean));
    const Ref<Tile> squares = fresh(call, combined(call, AluOp::kMultiply, centred, centred));
    OpRequest sum = reduced(call, squares, AluOp::kAdd, axes);
    sum.shape = reduced_shape(*source, axes, false);
    OpRequest scaling = step(call, Opcode::kTensorScalar, sum.shape);
    scaling.op0 = AluOp::kMultiply;
    scaling.operand0.immediate = 1.0 / static_cast<double>(reduced_count(call, *source, axes));
    scaling.add_source(fresh(call, sum));
    return cast(call, std::move(scaling), call.dtype(call.at("dtype"), source->dtype));
}

Value softmax(ApiCall& call) {
    const Ref<Tile> source = call.tile(0);
    const std::uint8_t axes = reduce_axes(call, 1, *source);
    const Ref<Tile> top = fresh(call, reduced(call, source, AluOp::kMax, axes));
    const Ref<Tile> below = fresh(call, combined(call, AluOp::kSubtract, source, top));
    OpRequest power = call.request(Opcode::kActivation);
    power.function = ActFunction::kExp;
    power.scale.immediate = 1.0;
    power.shape = below->shape();
    power.add_source(below);
    const Ref<Tile> exponentials = fresh(call, power);
    const Ref<Tile> sum = fresh(call, reduced(call, exponentials, AluOp::kAdd, axes));
    return cast(call, combined(call, AluOp::kDivide, exponentials, sum),
                result_dtype(call, source->dtype));
}

Value rms_norm(ApiCall& call) {
    const Ref<Tile> source = call.tile(0);
    const Ref<Tile> weight = call.tile(1);
    const std::uint8_t axes = reduce_axes(call, 2, *source);
    const double n = call.number(3);
    if (!(n > 0)) call.bad_argument(3, "a number above 0");
    const int k = call.at("epsilon");
    const double epsilon = call.has(k) ? call.number(k) : 1e-6;
    const Ref<Tile> squares = fresh(call, combined(call, AluOp::kMultiply, source, source));
    const Ref<Tile> sum = fresh(call, reduced(call, squares, AluOp::kAdd, axes));
    OpRequest shifted = step(call, Opcode::kTensorScalar, sum->shape());
    shifted.op0 = AluOp::kMultiply;
    shifted.operand0.immediate = 1.0 / n;
    shifted.op1 = AluOp::kAdd;
    shifted.operand1.immediate = epsilon;
    shifted.add_source(sum);
    OpRequest root = step(call, Opcode::kActivation, sum->shape());
    root.function = ActFunction::kRsqrt;
    root.scale.immediate = 1.0;
    root.add_source(fresh(call, shifted));
    const Ref<Tile> factor = fresh(call, root);
    const Ref<Tile> normal = fresh(call, combined(call, AluOp::kMultiply, source, factor));
    return cast(call, combined(call, AluOp::kMultiply, normal, weight),
                result_dtype(call, source->dtype));
}

}  // namespace accelopt::nki::interp::api
