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

/// The request of stationary[K, M]^T moving[K, N].
OpRequest product(ApiCall& call, const Ref<Tile>& stationary, const Ref<Tile>& moving) {
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
    OpRequest request = call.host().request_here(Opcode::kTranspose);
    request.engine = engine;
    request.buffer = Buffer::kPsum;
    request.dtype = source->dtype;
    request.shape = {free_count(*source), source->shape()[0]};
    request.add_source(source);
    return request;
}

/// Copies a transposed tile from PSUM to SBUF, as nl.matmul and nl.transpose do.
OpRequest copy_back(ApiCall& call, const Ref<Tile>& source, DType dtype) {
    OpRequest request = call.host().request_here(Opcode::kCopy);
    request.implicit = true;
    request.shape = source->shape();
    request.dtype = dtype;
    request.add_source(source);
    return request;
}

}  // namespace

Value nc_matmul(ApiCall& call) {
    const Ref<Tile> stationary = call.tile(0);
    const Ref<Tile> moving = call.tile(1);
    if (call.has(call.at("tile_position")) || call.has(call.at("tile_size")))
        unsupported("unknown_api", "PE tiling (tile_position, tile_size) is not supported").raise();
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
    if (request.engine == Engine::kVector) request.buffer = Buffer::kSbuf;
    if (call.has(call.at("mask")))
        unsupported("unknown_api", "nisa.nc_transpose with a mask is not supported").raise();
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
    return call.pending(copy_back(call, in_psum, call.dtype(call.at("dtype"), source->dtype)));
}

}  // namespace accelopt::nki::interp::api
