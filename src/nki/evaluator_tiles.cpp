#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "nki/evaluator.h"
#include "nki/failure.h"

namespace accelopt::nki::interp {
namespace {

using Shape = std::vector<std::int64_t>;

std::int64_t free_count(const Shape& shape) {
    std::int64_t n = 1;
    for (std::size_t d = 1; d < shape.size(); ++d) n *= shape[d];
    return n;
}

/// numpy broadcasting of the free dims; the partition counts are equal. Empty when impossible.
Shape broadcast_shapes(const Shape& a, const Shape& b) {
    const Shape& longer = a.size() >= b.size() ? a : b;
    const Shape& shorter = a.size() >= b.size() ? b : a;
    Shape result = longer;
    const std::size_t shift = longer.size() - shorter.size();
    for (std::size_t d = 1; d < shorter.size(); ++d) {
        std::int64_t& n = result[d + shift];
        if (shorter[d] == n || shorter[d] == 1) continue;
        if (n != 1) return {};
        n = shorter[d];
    }
    return result;
}

bool is_comparison(AluOp op) {
    return op == AluOp::kEqual || op == AluOp::kNotEqual || op == AluOp::kLess ||
           op == AluOp::kLessEqual || op == AluOp::kGreater || op == AluOp::kGreaterEqual ||
           op == AluOp::kLogicalAnd || op == AluOp::kLogicalOr || op == AluOp::kLogicalXor;
}

/// Bitwise operations work on integers only.
void check_bits(AluOp op, DType result, std::initializer_list<DType> operands) {
    if (!is_bitwise(op)) return;
    for (const DType dtype : operands)
        if (is_float(dtype))
            rejected("type_error",
                     fmt::format("{} needs integers, not {}", to_string(op), to_string(dtype)))
                .raise();
    if (is_float(result))
        rejected("type_error", fmt::format("{} cannot give {}", to_string(op), to_string(result)))
            .remedy("pass dtype=, or operands of one integer dtype")
            .raise();
}

bool is_commutative(AluOp op) {
    return op == AluOp::kAdd || op == AluOp::kMultiply || op == AluOp::kMax || op == AluOp::kMin ||
           op == AluOp::kEqual || op == AluOp::kNotEqual;
}

/// True when the result of a loop_reduce over a tile filled with `fill` does not depend on it.
bool is_neutral(AluOp op, double fill) {
    switch (op) {
        case AluOp::kAdd:
            return fill == 0;
        case AluOp::kMultiply:
            return fill == 1;
        case AluOp::kMax:
            return fill <= -std::numeric_limits<float>::max();
        case AluOp::kMin:
            return fill >= std::numeric_limits<float>::max();
        default:
            return false;
    }
}

/// What iterations may do to one tile in any order: `op` when it is associative and commutative,
/// kAdd for a subtraction and kMultiply for a division by what an iteration contributes ("+=, -=,
/// /=,
/// *= operators now work consistently across loop types", NKI release notes of SDK 2.23); else
/// kNone.
AluOp combining(AluOp op) {
    switch (op) {
        case AluOp::kSubtract:
            return AluOp::kAdd;
        case AluOp::kDivide:
            return AluOp::kMultiply;
        case AluOp::kAdd:
        case AluOp::kMultiply:
        case AluOp::kMax:
        case AluOp::kMin:
        case AluOp::kAbsMax:
        case AluOp::kBitwiseAnd:
        case AluOp::kBitwiseOr:
        case AluOp::kBitwiseXor:
        case AluOp::kLogicalAnd:
        case AluOp::kLogicalOr:
        case AluOp::kLogicalXor:
            return op;
        default:
            return AluOp::kNone;
    }
}

/// True when the result of `request` has the dtype of its source: rounding to it changes nothing.
bool keeps_dtype(const OpRequest& request) {
    const bool moves = request.opcode == Opcode::kLoad || request.opcode == Opcode::kCopy ||
                       request.opcode == Opcode::kTranspose;
    return moves && request.src[0]->dtype == request.dtype;
}

/// True when `request` can write its result straight into `destination`. In a kernel with direct
/// allocation (`allocated`) there is no tile in between that could have the dtype of the result.
bool retargetable(const OpRequest& request, const Tile& destination, bool allocated) {
    const Shape shape = destination.shape();
    if (shape[0] != request.shape[0] || free_count(shape) != free_count(request.shape))
        return false;
    if (request.dtype != destination.dtype && request.dtype != DType::kFloat32 && !allocated &&
        !keeps_dtype(request))
        return false;
    switch (request.opcode) {
        case Opcode::kMatmul:
            return destination.buffer == Buffer::kPsum;
        case Opcode::kTranspose:
            return destination.buffer == Buffer::kPsum || request.buffer == Buffer::kSbuf;
        case Opcode::kLoad:
            return destination.buffer == Buffer::kSbuf;
        default:
            return true;
    }
}

}  // namespace

OpRequest Evaluator::request_here(Opcode opcode) const {
    OpRequest request;
    request.opcode = opcode;
    request.api = api_ >= 0 ? api_ids_[api_] : operator_api_;
    request.site = site_;
    request.line = line_;
    request.column = column_;
    return request;
}

Value Evaluator::pending(OpRequest request) {
    if (request.shape.size() == 1) request.shape.resize(2, 1);  // a column is [P, 1]
    const Ref<Pending> made = heap_.make<Pending>();
    made->request = std::move(request);
    return Value::object(Kind::kPending, made);
}

/// Turns a loop_reduce into what it does in this iteration: start, or combine with what is there.
OpRequest Evaluator::resolve_loop_reduce(const OpRequest& request, const Ref<Tile>& destination) {
    OpRequest resolved = request;
    const Ref<Tile> source = request.src[0];
    resolved.sources = 0;
    resolved.src = {};
    resolved.loop_reduce = false;
    resolved.combines = combining(request.op0);
    const std::optional<double> fill =
        destination ? builder_.fill(destination->tensor) : std::nullopt;
    if (request.first_iteration && (!fill || is_neutral(request.op0, *fill))) {
        resolved.opcode = Opcode::kCopy;
        resolved.op0 = AluOp::kNone;
        resolved.add_source(source);
        return resolved;
    }
    if (!destination)
        rejected("value_error", "nl.loop_reduce must start in the first iteration of its loops")
            .remedy("assign the result to the same tile in every iteration")
            .raise();
    resolved.opcode = Opcode::kTensorTensor;
    resolved.add_source(destination);
    resolved.add_source(source);
    return resolved;
}

Ref<Tile> Evaluator::materialise(const Value& value, const std::string& name) {
    if (value.is(Kind::kTile)) return value.ref<Tile>();
    if (!value.is(Kind::kPending))
        rejected("type_error", fmt::format("expected a tile, got '{}'", kind_name(value.kind())))
            .raise();
    Pending& pending = value.as<Pending>();
    if (!pending.done) {
        const OpRequest& request = pending.request;
        pending.done = request.loop_reduce
                           ? builder_.emit_fresh(resolve_loop_reduce(request, {}), name)
                           : builder_.emit_fresh(request, name);
        pending.request.release();
    }
    return pending.done;
}

Value Evaluator::kept(Value value, const std::string& name) {
    if (!value.is(Kind::kPending)) return value;
    return Value::tile(materialise(value, name));
}

void Evaluator::store_into(const Ref<Tile>& destination, const Value& value) {
    if (value.is_number()) {
        OpRequest request = request_here(Opcode::kMemset);
        request.operand0.immediate = value.number();
        request.shape = destination->shape();
        request.dtype = destination->dtype;
        builder_.emit(request, destination);
        return;
    }
    if (value.is(Kind::kPending) && !value.as<Pending>().done) {
        Pending& pending = value.as<Pending>();
        if (destination->buffer == Buffer::kHbm) {
            rejected("unsupported_memory",
                     fmt::format("the result of an operation cannot be written "
                                 "to '{}', which is in hbm",
                                 builder_.describe(*destination)))
                .shape(destination->shape())
                .remedy("write it to HBM with nl.store")
                .raise();
        }
        if (retargetable(pending.request, *destination, builder_.allocated())) {
            const OpRequest request = pending.request.loop_reduce
                                          ? resolve_loop_reduce(pending.request, destination)
                                          : std::move(pending.request);
            pending.done = destination;
            pending.request.release();
            builder_.emit(request, destination);
            return;
        }
    }
    OpRequest copy = request_here(Opcode::kCopy);
    if (value.is(Kind::kPending) && !value.as<Pending>().done) {
        // What the mask leaves out is neither computed nor copied; an affine_select fills it.
        const OpRequest& made = value.as<Pending>().request;
        copy.mask = made.prefill ? made.prefill_mask : made.mask;
        copy.masked = made.prefill ? made.prefill_masked : made.masked;
    }
    const Ref<Tile> source = materialise(value);
    if (source->tensor == destination->tensor && source->base == destination->base &&
        source->shape() == destination->shape() && source->broadcast_partitions == 0)
        return;
    builder_.copy(source, destination, copy);
}

void Evaluator::accumulate_into(const Ref<Tile>& destination, Op op, const Value& value) {
    OpRequest request = request_here(Opcode::kTensorTensor);
    switch (op) {
        case Op::kAdd:
            request.op0 = AluOp::kAdd;
            break;
        case Op::kSubtract:
            request.op0 = AluOp::kSubtract;
            break;
        case Op::kMultiply:
            request.op0 = AluOp::kMultiply;
            break;
        case Op::kDivide:
            request.op0 = AluOp::kDivide;
            break;
        case Op::kBitAnd:
            request.op0 = AluOp::kBitwiseAnd;
            break;
        case Op::kBitOr:
            request.op0 = AluOp::kBitwiseOr;
            break;
        case Op::kBitXor:
            request.op0 = AluOp::kBitwiseXor;
            break;
        default:
            unsupported("python_feature", fmt::format("{}= on a tile", op_text(op))).raise();
    }
    if (value.is(Kind::kPending) && !value.as<Pending>().done && op == Op::kAdd) {
        Pending& pending = value.as<Pending>();
        if (pending.request.opcode == Opcode::kMatmul && destination->buffer == Buffer::kPsum) {
            OpRequest matmul = std::move(pending.request);
            matmul.accumulate = true;
            pending.request = OpRequest{};
            pending.done = destination;
            builder_.emit(matmul, destination);
            return;
        }
    }
    request.combines = combining(request.op0);
    request.shape = destination->shape();
    request.dtype = destination->dtype;
    request.add_source(destination);
    if (value.is_number()) {
        request.opcode = Opcode::kTensorScalar;
        request.operand0.immediate = value.number();
        builder_.emit(request, destination);
        return;
    }
    Ref<Tile> source = materialise(value);
    if (source->shape()[0] == 1 && request.shape[0] > 1) {
        Shape wide = source->shape();
        wide[0] = request.shape[0];
        source = interp::broadcast_to(heap_, source, wide);
    }
    source = builder_.settle(source, request);
    if (free_count(source->shape()) == 1 && free_count(request.shape) > 1) {
        request.opcode = Opcode::kTensorScalar;
        request.operand0.tile = source;
    } else {
        request.add_source(source);
    }
    builder_.emit(request, destination);
}

Value Evaluator::binary_tiles(AluOp op, const Value& a, const Value& b, OpRequest request,
                              std::optional<DType> dtype) {
    return pending(binary_request(op, a, b, std::move(request), dtype));
}

OpRequest Evaluator::binary_request(AluOp op, const Value& a, const Value& b, OpRequest request,
                                    std::optional<DType> dtype) {
    request.op0 = op;
    const auto result_dtype = [&](DType natural) {
        if (dtype) return *dtype;
        return is_comparison(op) ? DType::kBool : natural;
    };
    if (a.is_number() || b.is_number()) {
        const Value& number = a.is_number() ? a : b;
        const DType weak = scalar_dtype(number);
        const Ref<Tile> tile = builder_.settle(materialise(a.is_number() ? b : a), request);
        builder_.check_tile(*tile);
        request.opcode = Opcode::kTensorScalar;
        request.operand0.immediate = number.number();
        request.reverse0 = a.is_number() && !is_commutative(op);
        request.shape = tile->shape();
        DType natural = promote(tile->dtype, weak);
        // A Python int among bits has the width of the tile.
        if (is_bitwise(op) && is_float(natural) && !is_float(weak)) natural = tile->dtype;
        request.dtype = result_dtype(natural);
        check_bits(op, request.dtype, {tile->dtype, weak});
        request.add_source(tile);
        return request;
    }
    Ref<Tile> x = materialise(a);
    Ref<Tile> y = materialise(b);
    builder_.check_tile(*x);
    builder_.check_tile(*y);
    const std::int64_t px = x->shape()[0];
    const std::int64_t py = y->shape()[0];
    if (px != py) {  // one partition stands for all of them
        Ref<Tile>& narrow = px < py ? x : y;
        Shape wide = narrow->shape();
        if (wide[0] == 1 && narrow->buffer != Buffer::kHbm) {
            wide[0] = std::max(px, py);
            narrow = interp::broadcast_to(heap_, narrow, wide);
        }
    }
    x = builder_.settle(x, request);
    y = builder_.settle(y, request);
    const Shape sx = x->shape();
    const Shape sy = y->shape();
    const std::int64_t nx = free_count(sx);
    const std::int64_t ny = free_count(sy);
    request.dtype = result_dtype(promote(x->dtype, y->dtype));
    check_bits(op, request.dtype, {x->dtype, y->dtype});
    if (nx != ny && std::min(nx, ny) == 1) {
        const bool reversed = nx < ny;
        request.opcode = Opcode::kTensorScalar;
        request.add_source(reversed ? y : x);
        request.operand0.tile = reversed ? x : y;
        request.reverse0 = reversed && !is_commutative(op);
        request.shape = reversed ? sy : sx;
        return request;
    }
    request.opcode = Opcode::kTensorTensor;
    request.shape = nx == ny && sx.size() != sy.size() ? sx : broadcast_shapes(sx, sy);
    if (request.shape.empty() && nx == ny) request.shape = sx;
    if (request.shape.empty())
        rejected("shape_mismatch", fmt::format("the shapes {} and {} do not broadcast",
                                               shape_text(sx), shape_text(sy)))
            .shape(sx)
            .shape(sy)
            .raise();
    request.add_source(x);
    request.add_source(y);
    if (request.engine == Engine::kAuto && is_exact_integer(op, request))
        request.engine = Engine::kGpSimd;
    return request;
}

}  // namespace accelopt::nki::interp
