#include <fmt/format.h>

#include <cmath>

#include "nki/api.h"
#include "nki/evaluator.h"
#include "nki/failure.h"

namespace accelopt::nki::interp::api {
namespace {

BufferToken buffer_of(const ApiCall& call) {
    const int k = call.at("buffer");
    if (!call.has(k)) return BufferToken::kSbuf;
    if (!call[k].is(Kind::kBuffer)) call.bad_argument(k, "a buffer such as nl.sbuf");
    return static_cast<BufferToken>(call[k].integer());
}

Buffer memory_of(BufferToken token) {
    if (token == BufferToken::kSbuf) return Buffer::kSbuf;
    return token == BufferToken::kPsum ? Buffer::kPsum : Buffer::kHbm;
}

/// Allocates what ndarray, zeros, ones, full and their _like forms describe.
TensorId allocate(ApiCall& call, std::vector<std::int64_t> shape, int partition_axis, DType dtype,
                  BufferToken token) {
    Evaluator& host = call.host();
    const bool nested = host.call_depth() > 1 || host.builder().loops().depth() > 0;
    if (token == BufferToken::kSharedHbm && nested)
        rejected("shared_hbm_must_in_kernel_level",
                 "an nl.shared_hbm tensor can only be created at the top level of the kernel")
            .shape(shape)
            .remedy("create it in the kernel function, outside of loops")
            .raise();
    TensorSpec spec;
    spec.shape = std::move(shape);
    spec.dtype = dtype;
    spec.buffer = memory_of(token);
    spec.role = spec.buffer == Buffer::kHbm ? TensorRole::kScratch : TensorRole::kOnChip;
    spec.partition_axis = spec.buffer == Buffer::kHbm ? 0 : partition_axis;
    spec.name = call.text(call.at("name"));
    const OpRequest here = host.request_here(Opcode::kMemset);
    spec.site = here.site;
    spec.line = here.line;
    return host.builder().allocate(std::move(spec));
}

struct NewShape {
    std::vector<std::int64_t> shape;
    int partition_axis = 0;
};

NewShape shape_argument(const ApiCall& call) {
    NewShape result;
    result.shape = call.shape(0);
    if (!call[0].is(Kind::kTuple) && !call[0].is(Kind::kList)) return result;
    bool marked = false;
    const std::vector<Value>& items = call[0].as<Sequence>().items;
    for (std::size_t d = 0; d < items.size(); ++d) {
        if (!items[d].partition()) continue;
        if (marked) rejected("value_error", "a shape can have one nl.par_dim only").raise();
        marked = true;
        result.partition_axis = static_cast<int>(d);
    }
    return result;
}

/// Fills every block of a new tensor with one value.
Value fill(ApiCall& call, TensorId id, double value) {
    Evaluator& host = call.host();
    Builder& builder = host.builder();
    const Tensor& tensor = builder.tensor(id);
    if (tensor.buffer == Buffer::kHbm)
        rejected("hbm_tensor_with_init_value_not_supported",
                 "an HBM tensor cannot be created with an initial value")
            .shape(tensor.shape)
            .remedy("create it with nl.ndarray and store to it")
            .raise();
    OpRequest request = host.request_here(Opcode::kMemset);
    request.operand0.immediate = value;
    request.dtype = tensor.dtype;
    // PSUM accumulation starts from zero without an instruction.
    request.implicit = tensor.buffer == Buffer::kPsum && value == 0;
    const std::int64_t blocks = tensor.blocks;
    for (std::int64_t k = 0; k < blocks; ++k) {
        host.tick();
        const Ref<Tile> tile = builder.block(id, k);
        request.shape = tile->shape();
        builder.emit(request, tile);
    }
    builder.set_fill(id, value);
    return Value::tile(builder.whole(id));
}

Value filled(ApiCall& call, double value) {
    const NewShape shape = shape_argument(call);
    const DType dtype = call.dtype(call.at("dtype"), DType::kFloat32);
    return fill(call, allocate(call, shape.shape, shape.partition_axis, dtype, buffer_of(call)),
                value);
}

TensorId allocate_like(ApiCall& call) {
    const Ref<Tile> like = call.loose_tile(0);
    const DType dtype = call.dtype(call.at("dtype"), like->dtype);
    BufferToken token = buffer_of(call);
    return allocate(call, like->shape(), 0, dtype, token);
}

/// Rejects a tile whose first dimension cannot be the partition dimension.
void check_partitions(const ApiCall& call, const Tile& tile) {
    const std::vector<std::int64_t> shape = tile.shape();
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

}  // namespace

Value ndarray(ApiCall& call) {
    const NewShape shape = shape_argument(call);
    const DType dtype = call.dtype(1, DType::kFloat32);
    const TensorId id = allocate(call, shape.shape, shape.partition_axis, dtype, buffer_of(call));
    return Value::tile(call.host().builder().whole(id));
}

Value zeros(ApiCall& call) { return filled(call, 0.0); }
Value ones(ApiCall& call) { return filled(call, 1.0); }
Value full(ApiCall& call) { return filled(call, call.number(1)); }

Value empty_like(ApiCall& call) {
    return Value::tile(call.host().builder().whole(allocate_like(call)));
}

Value zeros_like(ApiCall& call) { return fill(call, allocate_like(call), 0.0); }

namespace {

Value constant(ApiCall& call, std::vector<std::int64_t> shape, DType dtype,
               std::vector<float> values) {
    TensorSpec spec;
    spec.shape = std::move(shape);
    spec.dtype = dtype;
    spec.buffer = Buffer::kHbm;
    spec.role = TensorRole::kConstant;
    spec.name = "constant";
    const OpRequest here = call.host().request_here(Opcode::kLoad);
    spec.site = here.site;
    spec.line = here.line;
    spec.context = 0;
    Builder& builder = call.host().builder();
    const TensorId id = builder.allocate(std::move(spec));
    builder.set_constant(id, std::move(values));
    return Value::tile(builder.whole(id));
}

}  // namespace

Value shared_constant(ApiCall& call) {
    if (!call[0].is(Kind::kArray)) call.bad_argument(0, "a numpy array");
    const HostArray& array = call[0].as<HostArray>();
    std::vector<float> values;
    values.reserve(array.values.size());
    for (const double value : array.values) values.push_back(static_cast<float>(value));
    return constant(call, array.shape, call.dtype(1, array.dtype), std::move(values));
}

Value shared_identity_matrix(ApiCall& call) {
    const std::int64_t n = call.integer(0);
    if (n <= 0 || n > 4096) call.bad_argument(0, "an int between 1 and 4096");
    std::vector<float> values(static_cast<std::size_t>(n * n), 0.0F);
    for (std::int64_t k = 0; k < n; ++k) values[static_cast<std::size_t>(k * n + k)] = 1.0F;
    return constant(call, {n, n}, call.dtype(1, DType::kUInt8), std::move(values));
}

Value load(ApiCall& call) {
    const Ref<Tile> source = call.loose_tile(0);
    check_partitions(call, *source);
    OpRequest request = call.request(Opcode::kLoad);
    request.engine = Engine::kDma;
    request.add_source(source);
    request.shape = source->shape();
    request.dtype = call.dtype(call.at("dtype"), source->dtype);
    return call.pending(std::move(request));
}

Value store(ApiCall& call) {
    const Ref<Tile> destination = call.loose_tile(0);
    Evaluator& host = call.host();
    OpRequest request = call.request(Opcode::kStore);
    request.shape = destination->shape();
    request.dtype = destination->dtype;
    check_partitions(call, *destination);
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

Value copy(ApiCall& call) {
    const Ref<Tile> source = call.loose_tile(0);
    OpRequest request = call.request(Opcode::kCopy);
    if (source->broadcast_partitions > 0 && !request.masked) {
        request.opcode = Opcode::kPartitionBroadcast;
        request.add_source(source->expanded ? source->expanded : source);
        if (source->expanded) request.opcode = Opcode::kCopy;
    } else {
        request.add_source(call.tile(0));
    }
    request.shape = source->shape();
    request.dtype = call.dtype(call.at("dtype"), source->dtype);
    call.require_engine(request, {Engine::kVector, Engine::kScalar, Engine::kGpSimd});
    return call.pending(std::move(request));
}

Value tensor_copy(ApiCall& call) { return copy(call); }

Value dma_copy(ApiCall& call) {
    const Ref<Tile> destination = call.loose_tile(call.at("dst"));
    const Ref<Tile> source = call.tile(call.at("src"));
    if (call.has(call.at("dst_rmw_op")))
        unsupported("unknown_api", "nisa.dma_copy with dst_rmw_op is not supported").raise();
    const bool from_hbm = source->buffer == Buffer::kHbm;
    const bool to_hbm = destination->buffer == Buffer::kHbm;
    OpRequest request = call.request(from_hbm == to_hbm ? Opcode::kDmaCopy
                                     : from_hbm         ? Opcode::kLoad
                                                        : Opcode::kStore);
    request.shape = destination->shape();
    request.dtype = destination->dtype;
    request.add_source(source);
    call.host().builder().emit(request, destination);
    return Value::none();
}

Value broadcast_to(ApiCall& call) {
    const Ref<Tile> source = call.loose_tile(0);
    if (source->buffer == Buffer::kHbm) call.bad_argument(0, "a tile in sbuf or psum");
    return Value::tile(interp::broadcast_to(call.host().heap(), source, call.shape(1)));
}

Value expand_dims(ApiCall& call) {
    const Ref<Tile> source = call.tile(0);
    std::int64_t axis = call.integer(1);
    if (axis < 0) axis += source->rank + 1;
    if (axis < 1 || axis > source->rank) call.bad_argument(1, "a free dimension");
    std::vector<IndexItem> items(static_cast<std::size_t>(source->rank) + 1);
    for (IndexItem& item : items) item.kind = IndexItem::Kind::kSlice;
    items[static_cast<std::size_t>(axis)].kind = IndexItem::Kind::kNewAxis;
    return Value::tile(
        subscript(call.host().heap(), *source, items, call.host().builder().describe(*source)));
}

Value memset(ApiCall& call) {
    OpRequest request = call.request(Opcode::kMemset);
    request.shape = call.shape(0);
    request.operand0.immediate = call.number(1);
    request.dtype = call.dtype(2, DType::kFloat32);
    if (request.shape.empty()) call.bad_argument(0, "a shape");
    call.require_engine(request, {Engine::kVector, Engine::kGpSimd});
    return call.pending(std::move(request));
}

Value iota(ApiCall& call) {
    OpRequest request = call.request(Opcode::kIota);
    if (call[0].is_integer()) {
        request.iota.constant = call[0].integer();
        request.iota.rank = 2;
    } else if (call[0].is(Kind::kAffine)) {
        request.iota = call[0].as<Affine>().expr;
    } else {
        call.bad_argument(0, "an affine expression of nl.arange");
    }
    if (request.iota.rank == 1)
        rejected("1d_arange_not_supported", "nisa.iota of a 1-D arange is not supported")
            .remedy("give the index two dimensions: nl.arange(n)[None, :]")
            .raise();
    request.shape = request.iota.shape();
    request.dtype = call.dtype(1, DType::kInt32);
    return call.pending(std::move(request));
}

Value arange(ApiCall& call) {
    const std::int64_t start = call.has(1) ? call.integer(0) : 0;
    const std::int64_t stop = call.integer(call.has(1) ? 1 : 0);
    return Value::object(Kind::kAffine,
                         call.host().heap().make<Affine>(interp::arange(start, stop)));
}

Value ds(ApiCall& call) {
    if (call[0].is(Kind::kAffine)) call.bad_argument(0, "an int");
    const Ref<Slice> slice = call.host().heap().make<Slice>();
    slice->start = Value::integer(call.integer(0));
    slice->stop = Value::integer(checked_add(call.integer(0), call.integer(1)));
    slice->step = Value::none();
    return Value::object(Kind::kSlice, slice);
}

Value par_dim(ApiCall& call) {
    Value size = Value::integer(call.integer(0));
    size.set_partition();
    return size;
}

Value loop_range(ApiCall& call) {
    const Ref<Range> range = call.host().heap().make<Range>();
    const bool two = call.has(1);
    range->start = two ? call.integer(0) : 0;
    range->stop = call.integer(two ? 1 : 0);
    if (call.has(2)) range->step = call.integer(2);
    if (range->step == 0) rejected("value_error", "the step of a range cannot be zero").raise();
    const std::string_view name = call.entry().name;
    range->kind = name == "nl.affine_range"       ? LoopKind::kAffine
                  : name == "nl.sequential_range" ? LoopKind::kSequential
                                                  : LoopKind::kStatic;
    return Value::object(Kind::kRange, range);
}

// A traced kernel is one instance of its grid.
Value program_id(ApiCall&) { return Value::integer(0); }
Value num_programs(ApiCall&) { return Value::integer(1); }
Value program_ndim(ApiCall&) { return Value::integer(0); }

Value device_print(ApiCall& call) {
    call.tile(1);
    return Value::none();
}

Value decorator(ApiCall& call) {
    // @nki.jit, or @nki.jit(...), which evaluates to a decorator.
    if (call.has(0)) return call[0];
    return Value::token(Kind::kApi, find_api(call.entry().name));
}

Value get_nc_version(ApiCall&) {
    return Value::token(Kind::kToken, static_cast<int>(TokenId::kGen2));
}

}  // namespace accelopt::nki::interp::api
