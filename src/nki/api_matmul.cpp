#include <fmt/format.h>

#include "nki/api.h"
#include "nki/evaluator.h"
#include "nki/failure.h"

namespace accelopt::nki::interp::api {
namespace {

/// Copies a transposed tile from PSUM to SBUF, as nl.matmul and nl.transpose do.
OpRequest copy_back(ApiCall& call, const Ref<Tile>& source, DType dtype) {
    OpRequest request = call.host().request_here(Opcode::kCopy);
    request.implicit = true;
    request.shape = source->shape();
    request.dtype = dtype;
    request.add_source(source);
    return request;
}

/// The request of stationary[K, M]^T moving[K, N].
OpRequest product(ApiCall& call, Ref<Tile> stationary, Ref<Tile> moving) {
    for (Ref<Tile>* operand : {&stationary, &moving}) {
        Builder& builder = call.host().builder();
        if ((*operand)->buffer != Buffer::kPsum || !builder.is_floating(**operand)) continue;
        *operand = builder.emit_fresh(copy_back(call, *operand, (*operand)->dtype), "");
    }
    check_matmul_shape(*stationary, *moving);
    OpRequest request = call.request(Opcode::kMatmul);
    request.engine = Engine::kTensor;
    request.buffer = Buffer::kPsum;
    request.dtype = DType::kFloat32;
    request.add_source(stationary);
    request.add_source(moving);
    request.shape = moving->shape();
    request.shape[0] = free_count(*stationary);
    return request;
}

OpRequest transposition(ApiCall& call, const Ref<Tile>& source, Engine engine = Engine::kTensor) {
    check_transpose_shape(*source, engine);
    OpRequest request = call.request(Opcode::kTranspose);
    request.engine = engine;
    request.buffer = Buffer::kPsum;
    request.dtype = source->dtype;
    request.shape = {free_count(*source), source->shape()[0]};
    request.add_source(source);
    return request;
}

/// A mask of a [P, F] tile for its transpose.
MaskExpr turned_mask(MaskExpr mask) {
    for (AffineExpr& term : mask.terms) {
        if (term.rank == 1) {
            term.axes[1] = term.axes[0];
            term.axes[0] = {};
            term.rank = 2;
        }
        std::swap(term.axes[0], term.axes[1]);
    }
    return mask;
}

/// The part of the PE array that a product is to run on (nisa.nc_matmul, PE tiling). Where it runs
/// changes no value.
void check_pe_tile(ApiCall& call, const Tile& stationary) {
    const int position = call.at("tile_position");
    const int size = call.at("tile_size");
    const auto numbers = [&](int k) {
        return call.has(k) ? call.shape(k) : std::vector<std::int64_t>{};
    };
    const std::vector<std::int64_t> at = numbers(position);
    const std::vector<std::int64_t> of = numbers(size);
    if (at.empty() && of.empty()) return;
    if (at.size() != 2 || of.size() != 2)
        rejected("value_error", "tile_position and tile_size are given together, as (row, column)")
            .raise();
    constexpr std::int64_t kUnit = 32;
    constexpr std::int64_t kArray = 128;
    for (int d = 0; d < 2; ++d) {
        const auto k = static_cast<std::size_t>(d);
        if (at[k] % kUnit != 0 || of[k] % kUnit != 0 || at[k] < 0 || of[k] <= 0)
            call.bad_argument(size, "multiples of 32");
        if (at[k] + of[k] > kArray)
            rejected("size_of_dimension_exceed_arch_limit",
                     "the PE tile leaves the 128 x 128 array")
                .limit(kArray)
                .raise();
    }
    if (of[0] == kUnit && of[1] == kUnit && call.host().core_version() < 3)
        rejected("value_error", "a PE tile of 32 x 32 needs NeuronCore-v3").raise();
    if (of[0] < stationary.shape()[0] || of[1] < free_count(stationary))
        rejected("value_error", "tile_size is smaller than the stationary operand")
            .shape(stationary.shape())
            .shape(of)
            .raise();
}

}  // namespace

Value nc_matmul(ApiCall& call) {
    const Ref<Tile> stationary = call.tile(0);
    const Ref<Tile> moving = call.tile(1);
    check_pe_tile(call, *stationary);
    for (const Ref<Tile>& operand : {stationary, moving})
        if (!is_float(operand->dtype))
            rejected("type_error", fmt::format("nisa.nc_matmul multiplies floats, not {}",
                                               to_string(operand->dtype)))
                .shape(operand->shape())
                .remedy("cast the operands with nl.copy(..., dtype=nl.bfloat16)")
                .raise();
    OpRequest request = product(call, stationary, moving);
    request.stationary_onezero = call.flag(call.at("is_stationary_onezero"), false);
    request.moving_onezero = call.flag(call.at("is_moving_onezero"), false);
    const bool transpose = call.flag(call.at("is_transpose"), false);
    // is_transpose is a hint: only with a known identity is the product a transpose.
    if (transpose && !request.masked && call.host().builder().is_identity(*moving) &&
        moving->dims[0].count == stationary->shape()[0]) {
        OpRequest turned = transposition(call, stationary);
        turned.moving_onezero = request.moving_onezero;
        turned.add_source(moving);
        return call.pending(std::move(turned));
    }
    return call.pending(std::move(request));
}

Value matmul(ApiCall& call) {
    Evaluator& host = call.host();
    Ref<Tile> x = call.tile(0);
    const Ref<Tile> y = call.tile(1);
    if (!call.flag(call.at("transpose_x"), false)) {
        if (x->rank > 2)
            rejected("exceed_max_supported_dimension", "nl.matmul takes operands of two dimensions")
                .shape(x->shape())
                .limit(2)
                .raise();
        if (free_count(*x) != y->shape()[0])
            rejected(
                "num_partition_mismatch",
                fmt::format("the contraction dimensions differ: x has {} columns, y has {} rows",
                            free_count(*x), y->shape()[0]))
                .shape(x->shape())
                .shape(y->shape())
                .raise();
        OpRequest turned = transposition(call, x);
        turned.implicit = true;
        turned.moving_onezero = true;
        turned.masked = false;  // the mask is about the operands of the product
        turned.mask = {};
        host.builder().forbid_when_allocated(
            "transpose_on_tensor_engine_not_allowed_in_allocated_kernel",
            "nl.matmul transposes x with an identity that cannot be allocated directly",
            "pass x transposed, with transpose_x=True", turned);
        const Ref<Tile> in_psum = host.builder().emit_fresh(turned, "");
        x = host.builder().emit_fresh(copy_back(call, in_psum, x->dtype), "");
    }
    return call.pending(product(call, x, y));
}

Value nc_transpose(ApiCall& call) {
    const Ref<Tile> source = call.tile(0);
    OpRequest request = transposition(call, source, call.request(Opcode::kTranspose).engine);
    if (request.engine == Engine::kScalar || request.engine == Engine::kGpSimd)
        call.bad_argument(call.at("engine"), "nisa.tensor_engine or nisa.vector_engine");
    if (request.engine == Engine::kVector) {
        request.buffer = Buffer::kSbuf;
    } else {
        call.host().builder().forbid_when_allocated(
            "transpose_on_tensor_engine_not_allowed_in_allocated_kernel",
            "nisa.nc_transpose on the Tensor Engine needs an identity that cannot be allocated "
            "directly",
            "use nisa.nc_matmul with an identity of your own", request);
    }
    request.moving_onezero = true;
    request.dtype = call.dtype(call.at("dtype"), source->dtype);
    return call.pending(std::move(request));
}

Value transpose(ApiCall& call) {
    const Ref<Tile> source = call.tile(0);
    if (source->rank > 2)
        rejected("exceed_max_supported_dimension",
                 fmt::format("nl.transpose takes a tile of two dimensions, got {}",
                             shape_text(source->shape())))
            .shape(source->shape())
            .limit(2)
            .raise();
    OpRequest turned = transposition(call, source);
    turned.moving_onezero = true;
    const Ref<Tile> in_psum = call.host().builder().emit_fresh(turned, "");
    OpRequest back = copy_back(call, in_psum, call.dtype(call.at("dtype"), source->dtype));
    back.mask = turned_mask(turned.mask);
    back.masked = turned.masked;
    return call.pending(std::move(back));
}

}  // namespace accelopt::nki::interp::api
