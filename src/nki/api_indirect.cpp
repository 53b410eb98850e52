#include <fmt/format.h>

#include "nki/api.h"
#include "nki/evaluator.h"
#include "nki/failure.h"

/// Movement of data, most of which takes indices that are read from tensors.
namespace accelopt::nki::interp::api {
namespace {

/// Rejects a tile whose first dimension cannot be the partition dimension.
void check_partitions(const ApiCall& call, const std::vector<std::int64_t>& shape) {
    const int limit = call.host().builder().limits().partitions;
    if (shape[0] <= limit) return;
    rejected("num_partition_exceed_arch_limit",
             fmt::format("number of partitions {} of {} exceeds the limit of {}", shape[0],
                         shape_text(shape), limit))
        .shape(shape)
        .limit(limit)
        .remedy("move at most 128 rows at a time; the first index is the partition dimension")
        .raise();
}

/// A mask on the source of a transpose, as one on its result: axis d of which is axis order[d].
void turn_mask(OpRequest& request, const std::vector<int>& order) {
    const auto rank = static_cast<int>(order.size());
    for (AffineExpr& term : request.mask.terms) {
        if (term.rank == 0) continue;
        if (term.rank > rank)
            rejected("unsupported_expression_in_mask", "the mask does not fit the source").raise();
        AffineExpr turned = term;
        turned.rank = rank;
        for (int d = 0; d < rank; ++d) {
            const int from = order[static_cast<std::size_t>(d)] - (rank - term.rank);
            turned.axes[d] = from < 0 ? AffineExpr::Axis{} : term.axes[from];
        }
        term = turned;
    }
}

/// oob_mode: whether indices outside of the tensor are skipped.
std::shared_ptr<Extra> bounds_mode(const ApiCall& call) {
    const int k = call.at("oob_mode");
    if (!call.has(k)) return nullptr;
    const bool token = call[k].is(Kind::kToken);
    const bool skip = token && call[k].integer() == static_cast<int>(TokenId::kOobSkip);
    if (!skip && !(token && call[k].integer() == static_cast<int>(TokenId::kOobError)))
        call.bad_argument(k, "a member of nisa.oob_mode");
    if (!skip) return nullptr;
    auto extra = std::make_shared<Extra>();
    extra->skip_out_of_bounds = true;
    return extra;
}

void expect_sum(const ApiCall& call, int k) {
    if (call.alu(k) != AluOp::kAdd) call.bad_argument(k, "np.add");
}

OpRequest on_chip_copy(ApiCall& call, const Ref<Tile>& source) {
    if (source->buffer == Buffer::kHbm) call.bad_argument(call.at("src"), "a tile in sbuf or psum");
    OpRequest request = call.request(Opcode::kCopy);
    request.allows_dynamic = true;
    request.shape = source->shape();
    request.dtype = call.dtype(call.at("dtype"), source->dtype);
    request.add_source(source);
    return request;
}

/// "HWDGE is only supported for NeuronCore-v3+" (nki.isa.dma_copy).
void check_descriptors(const ApiCall& call) {
    const int mode = call.at("dge_mode");
    if (call.host().core_version() < 3 && call[mode].is(Kind::kToken) &&
        call[mode].integer() == static_cast<int>(TokenId::kDgeHw))
        call.bad_argument(mode, "a mode of NeuronCore-v2, which hwdge is not");
}

}  // namespace

Value load(ApiCall& call) {
    const Ref<Tile> source = call.loose_tile(0, true);
    check_partitions(call, source->shape());
    OpRequest request = call.request(Opcode::kLoad);
    request.allows_dynamic = true;
    request.add_source(source);
    request.shape = source->shape();
    request.dtype = call.dtype(call.at("dtype"), source->dtype);
    return call.pending(std::move(request));
}

Value store(ApiCall& call) {
    const Ref<Tile> destination = call.loose_tile(0, true);
    Evaluator& host = call.host();
    OpRequest request = call.request(Opcode::kStore);
    request.allows_dynamic = true;
    request.shape = destination->shape();
    request.dtype = destination->dtype;
    check_partitions(call, request.shape);
    Ref<Tile> source;
    if (call[1].is_number()) {
        OpRequest value = host.request_here(Opcode::kMemset);
        value.operand0.immediate = call[1].number();
        value.shape = request.shape;
        value.dtype = destination->dtype;
        source = host.builder().emit_fresh(value, "");
    } else {
        source = call.tile(1);
    }
    request.add_source(source);
    host.builder().emit(request, destination);
    return Value::none();
}

Value load_transpose2d(ApiCall& call) {
    const Ref<Tile> source = call.loose_tile(0);
    if (source->buffer != Buffer::kHbm)
        rejected("unsupported_memory", fmt::format("operand '{}' must be in hbm",
                                                   call.host().builder().describe(*source)))
            .shape(source->shape())
            .remedy("transpose on-chip tiles with nisa.nc_transpose")
            .raise();
    if (source->rank != 2)
        rejected("exceed_max_supported_dimension", "nl.load_transpose2d takes two dimensions")
            .shape(source->shape())
            .limit(2)
            .raise();
    OpRequest request = call.request(Opcode::kLoad);
    const Ref<Tile> turned = permute(call.host().heap(), *source, {1, 0});
    request.add_source(turned);
    request.shape = turned->shape();
    check_partitions(call, request.shape);
    turn_mask(request, {1, 0});
    request.dtype = call.dtype(call.at("dtype"), source->dtype);
    return call.pending(std::move(request));
}

Value atomic_rmw(ApiCall& call) {
    const Ref<Tile> destination = call.loose_tile(0, true);
    if (destination->buffer != Buffer::kHbm)
        rejected("unsupported_memory", "the destination of nl.atomic_rmw must be in hbm")
            .shape(destination->shape())
            .raise();
    expect_sum(call, 2);
    OpRequest request = call.request(Opcode::kScatter);
    request.allows_dynamic = true;
    request.op0 = AluOp::kAdd;
    request.shape = destination->shape();
    request.dtype = destination->dtype;
    Ref<Tile> source;
    if (call[1].is_number()) {
        OpRequest value = call.host().request_here(Opcode::kMemset);
        value.operand0.immediate = call[1].number();
        value.shape = request.shape;
        value.dtype = destination->dtype;
        source = call.host().builder().emit_fresh(value, "");
    } else {
        source = call.tile(1);
    }
    request.add_source(source);
    call.host().builder().emit(request, destination);
    return Value::none();
}

Value tensor_copy(ApiCall& call) {
    const int engine = call.at("engine");
    if (call.has(engine) && call[engine].is(Kind::kEngine)) {
        const auto chosen = static_cast<Engine>(call[engine].integer());
        if (chosen == Engine::kTensor || chosen == Engine::kDma)
            call.bad_argument(engine, "the Vector, Scalar or GpSimd Engine");
    }
    return copy(call);
}

Value tensor_copy_dynamic_src(ApiCall& call) {
    const Ref<Tile> source = call.loose_tile(call.at("src"), true);
    return call.pending(on_chip_copy(call, source));
}

Value tensor_copy_dynamic_dst(ApiCall& call) {
    const Ref<Tile> destination = call.loose_tile(call.at("dst"), true);
    OpRequest request = on_chip_copy(call, call.tile(call.at("src")));
    request.shape = destination->shape();
    request.dtype = destination->dtype;
    call.host().builder().emit(request, destination);
    return Value::none();
}

Value dma_copy(ApiCall& call) {
    const Ref<Tile> destination = call.loose_tile(call.at("dst"), true);
    const Ref<Tile> source = call.loose_tile(call.at("src"), true);
    const bool from_hbm = source->buffer == Buffer::kHbm;
    const bool to_hbm = destination->buffer == Buffer::kHbm;
    OpRequest request = call.request(from_hbm == to_hbm ? Opcode::kDmaCopy
                                     : from_hbm         ? Opcode::kLoad
                                                        : Opcode::kStore);
    request.engine = Engine::kDma;
    request.allows_dynamic = true;
    request.extra = bounds_mode(call);
    check_descriptors(call);
    const int update = call.at("dst_rmw_op");
    if (call.has(update)) {
        expect_sum(call, update);
        if (request.extra) call.bad_argument(call.at("oob_mode"), "nisa.oob_mode.error here");
        request.opcode = Opcode::kScatter;
        request.op0 = AluOp::kAdd;
        if (!source->dynamic.empty())
            unsupported("python_feature", "dst_rmw_op with a source indexed by a tensor").raise();
    }
    if (!source->dynamic.empty() && !destination->dynamic.empty())
        unsupported("python_feature", "source and destination both indexed by tensors").raise();
    if (source->broadcast_partitions > 0)
        unsupported("python_feature", "a DMA of a broadcast").remedy("copy it first").raise();
    request.shape = destination->shape();
    request.dtype = destination->dtype;
    request.add_source(source);
    call.host().builder().emit(request, destination);
    return Value::none();
}

Value dma_transpose(ApiCall& call) {
    check_descriptors(call);
    const Ref<Tile> source = call.loose_tile(0);
    Evaluator& host = call.host();
    std::vector<int> order;
    if (source->rank == 2) order = {1, 0};
    if (source->rank == 3) order = {2, 1, 0};
    if (source->rank == 4) order = {3, 1, 2, 0};
    if (order.empty())
        rejected("exceed_max_supported_dimension", "nisa.dma_transpose takes 2 to 4 dimensions")
            .shape(source->shape())
            .limit(4)
            .raise();
    const int axes = call.at("axes");
    if (call.has(axes)) {
        const std::vector<std::int64_t> given = call.shape(axes);
        if (!std::equal(given.begin(), given.end(), order.begin(), order.end()))
            call.bad_argument(axes, "(1, 0), (2, 1, 0) or (3, 1, 2, 0), by the dimensions of src");
    }
    std::vector<std::int64_t> shape;
    const std::vector<std::int64_t> from = source->shape();
    for (const int d : order) shape.push_back(from[static_cast<std::size_t>(d)]);
    check_partitions(call, shape);
    const DType dtype = call.dtype(call.at("dtype"), source->dtype);
    OpRequest request = call.request(Opcode::kLoad);
    request.engine = Engine::kDma;
    request.shape = shape;
    request.dtype = dtype;
    if (source->buffer == Buffer::kHbm) {
        turn_mask(request, order);
        request.add_source(permute(host.heap(), *source, order));
        return call.pending(std::move(request));
    }
    if (request.masked && order.size() > 2)
        unsupported("unknown_api",
                    "nisa.dma_transpose with a mask on more than two dimensions on chip is not "
                    "supported")
            .raise();
    // On chip: one transpose of [first, last] for every index between them.
    request.opcode = Opcode::kTranspose;
    if (order.size() == 2) {
        request.add_source(source);
        return call.pending(std::move(request));
    }
    TensorSpec spec;
    spec.shape = shape;
    spec.dtype = dtype;
    spec.site = request.site;
    spec.line = request.line;
    const Ref<Tile> result = host.builder().whole(host.builder().allocate(std::move(spec)));
    std::vector<std::int64_t> at(order.size(), 0);
    while (true) {
        std::vector<IndexItem> items(order.size());
        for (std::size_t d = 0; d < order.size(); ++d) {
            const bool outer = d == 0 || d + 1 == order.size();
            items[d].kind = outer ? IndexItem::Kind::kSlice : IndexItem::Kind::kInteger;
            items[d].start = at[d];
        }
        OpRequest part = request;
        const Ref<Tile> piece = subscript(host.heap(), *source, items, "src");
        const Ref<Tile> place = subscript(host.heap(), *result, items, "result");
        part.shape = place->shape();
        part.add_source(piece);
        host.builder().emit(part, place);
        std::size_t d = order.size() - 1;
        while (d-- > 1) {
            if (++at[d] < from[d]) break;
            at[d] = 0;
        }
        if (d == 0) break;
    }
    return Value::tile(result);
}

}  // namespace accelopt::nki::interp::api
