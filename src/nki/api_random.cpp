#include "nki/api.h"
#include "nki/evaluator.h"
#include "nki/failure.h"
#include "nki/positions.h"

namespace accelopt::nki::interp::api {
namespace {

/// What a draw of random numbers depends on: the seed and how many draws came before it.
std::shared_ptr<Extra> draw(ApiCall& call) {
    auto extra = std::make_shared<Extra>();
    extra->seed = call.host().seed();
    extra->draw = call.host().next_draw();
    return extra;
}

OpRequest dropout_request(ApiCall& call, const Ref<Tile>& source) {
    OpRequest request = call.request(Opcode::kDropout);
    request.shape = source->shape();
    request.dtype = call.dtype(call.at("dtype"), source->dtype);
    request.iota = positions(request.shape);
    request.extra = draw(call);
    request.add_source(source);
    return request;
}

}  // namespace

AffineExpr positions(const std::vector<std::int64_t>& shape, bool within_partition) {
    AffineExpr expr;
    expr.rank = static_cast<int>(shape.size());
    if (expr.rank > kMaxIndexDims)
        rejected("exceed_max_supported_dimension", "the tile has too many dimensions")
            .shape(shape)
            .limit(kMaxIndexDims)
            .raise();
    std::int64_t step = 1;
    for (int d = expr.rank - 1; d >= 0; --d) {
        expr.axes[d] = {d == 0 && within_partition ? 0 : step, shape[static_cast<std::size_t>(d)]};
        step = checked_multiply(step, shape[static_cast<std::size_t>(d)]);
    }
    return expr;
}

Value rand(ApiCall& call) {
    OpRequest request = call.request(Opcode::kRandom);
    request.shape = call.shape(0);
    if (request.shape.empty()) call.bad_argument(0, "a shape");
    if (request.shape.size() == 1) request.shape.push_back(1);
    request.dtype = call.dtype(1, DType::kFloat32);
    request.iota = positions(request.shape);
    request.extra = draw(call);
    return call.pending(std::move(request));
}

Value random_seed(ApiCall& call) {
    // A seed that the data hold cannot be followed: it counts as 0.
    std::uint64_t seed = 0;
    if (call.is_tile(0)) {
        if (call.loose_tile(0)->count() != 1) call.bad_argument(0, "one 32-bit value");
    } else {
        seed = static_cast<std::uint64_t>(call.integer(0)) & 0xffffffffULL;
    }
    call.host().reseed(seed);
    return Value::none();
}

Value dropout(ApiCall& call) {
    const Ref<Tile> source = call.tile(0);
    OpRequest request = dropout_request(call, source);
    request.operand1 = call.scalar(1);
    Ref<Tile>& rate = request.operand1.tile;
    if (rate) {
        if (rate->count() != 1) call.bad_argument(1, "a number or a tile of one element");
        Evaluator& host = call.host();
        if (request.shape[0] > 1)
            rate = host.builder().settle(broadcast_to(host.heap(), rate, {request.shape[0], 1}),
                                         host.request_here(Opcode::kPartitionBroadcast));
    }
    return call.pending(std::move(request));
}

Value isa_dropout(ApiCall& call) {
    const Ref<Tile> source = call.tile(0);
    OpRequest request = dropout_request(call, source);
    request.operand1 = call.scalar(1);
    if (request.operand1.tile) {
        const DType dtype = request.operand1.tile->dtype;
        const bool fits = is_float(source->dtype) ? is_float(dtype) : dtype == DType::kFloat32;
        if (!fits) call.bad_argument(1, "a float32 tile, or any float for a tile of floats");
    }
    if (!is_float(source->dtype) && request.dtype != source->dtype)
        call.bad_argument(call.at("dtype"), "the dtype of the data, which are integers");
    return call.pending(std::move(request));
}

}  // namespace accelopt::nki::interp::api
