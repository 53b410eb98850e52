#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "nki/api.h"
#include "nki/evaluator.h"
#include "nki/failure.h"

namespace accelopt::nki::interp::api {
namespace {

BufferToken buffer_of(const ApiCall& call) {
    const int k = call.at("buffer");
    if (!call.has(k)) return BufferToken::kSbuf;
    if (call[k].is(Kind::kAllocation))
        return call[k].as<Allocation>().buffer == Buffer::kSbuf ? BufferToken::kSbuf
                                                                : BufferToken::kPsum;
    if (call[k].is(Kind::kModule)) {  // nki.compiler.sbuf: automatic allocation
        if (call[k].integer() == static_cast<int>(ModuleId::kCompilerSbuf))
            return BufferToken::kSbuf;
        if (call[k].integer() == static_cast<int>(ModuleId::kCompilerPsum))
            return BufferToken::kPsum;
    }
    if (!call[k].is(Kind::kBuffer)) call.bad_argument(k, "a buffer such as nl.sbuf");
    return static_cast<BufferToken>(call[k].integer());
}

/// The indices of block `number`, row-major.
std::vector<std::int64_t> block_index(const std::vector<std::int64_t>& shape, int partition_axis,
                                      std::int64_t number) {
    std::vector<std::int64_t> index(static_cast<std::size_t>(partition_axis));
    for (int d = partition_axis - 1; d >= 0; --d) {
        const auto k = static_cast<std::size_t>(d);
        index[k] = number % shape[k];
        number /= shape[k];
    }
    return index;
}

/// The modulo scheme of mod_alloc: the block index modulo `tiles`, row-major.
std::int64_t modulo(const ApiCall& call, const std::vector<std::int64_t>& index,
                    const std::vector<std::int64_t>& tiles) {
    if (tiles.empty()) return 0;
    if (tiles.size() != index.size())
        rejected("value_error",
                 fmt::format("a number of tiles for {} dimensions, the tensor has {} block "
                             "dimensions",
                             tiles.size(), index.size()))
            .operation(std::string(call.entry().name))
            .raise();
    std::int64_t linear = 0;
    for (std::size_t d = 0; d < index.size(); ++d) linear = linear * tiles[d] + index[d] % tiles[d];
    return linear;
}

/// Where the blocks of a tensor lie, by a buffer= argument of nki.compiler.
std::vector<Tensor::Placement> placements(ApiCall& call, const std::vector<std::int64_t>& shape,
                                          int partition_axis, DType dtype) {
    std::vector<Tensor::Placement> places;
    const int k = call.at("buffer");
    if (!call[k].is(Kind::kAllocation) || call[k].as<Allocation>().automatic) return places;
    const Allocation& allocation = call[k].as<Allocation>();
    Evaluator& host = call.host();
    constexpr std::int64_t kMaxBlocks = 65'536;
    std::int64_t blocks = 1;
    std::int64_t bytes = size_of(dtype);
    for (std::size_t d = 0; d < shape.size(); ++d) {
        if (shape[d] <= 0) return places;  // refused where it is allocated
        if (static_cast<int>(d) < partition_axis) blocks = checked_multiply(blocks, shape[d]);
        if (static_cast<int>(d) > partition_axis) bytes = checked_multiply(bytes, shape[d]);
    }
    if (blocks > kMaxBlocks)
        exhausted("memory", "a directly allocated tensor has too many blocks")
            .limit(kMaxBlocks)
            .raise();
    const std::int64_t partitions = shape[static_cast<std::size_t>(partition_axis)];
    const bool psum = allocation.buffer == Buffer::kPsum;
    const std::int64_t bank_bytes = host.builder().limits().psum_bank_bytes;
    for (std::int64_t number = 0; number < blocks; ++number) {
        host.tick();
        const std::vector<std::int64_t> index = block_index(shape, partition_axis, number);
        Tensor::Placement place;
        if (!allocation.function.is(Kind::kUnbound)) {
            const Value result = host.call_named(
                allocation.function, {"idx", "pdim_size", "fdim_size"},
                {host.shape_tuple(index), Value::integer(partitions), Value::integer(bytes)});
            const std::vector<Value> parts = host.items_of(result);
            if (parts.size() != (psum ? 3U : 2U))
                rejected("value_error", psum ? "a PSUM allocation function must return (bank, "
                                               "start_partition, byte_addr)"
                                             : "an SBUF allocation function must return "
                                               "(start_partition, byte_addr)")
                    .raise();
            const std::size_t at = psum ? 1 : 0;
            const std::int64_t bank = psum ? host.to_integer(parts[0], "a bank") : 0;
            place.partition = static_cast<int>(
                std::clamp<std::int64_t>(host.to_integer(parts[at], "a partition"), -1, 1 << 20));
            place.byte = checked_add(checked_multiply(bank, bank_bytes),
                                     host.to_integer(parts[at + 1], "an address"));
        } else {
            place.partition = static_cast<int>(std::clamp<std::int64_t>(
                allocation.base_partition +
                    modulo(call, index, allocation.partition_tiles) * partitions,
                -1, 1 << 20));
            const std::int64_t bank =
                allocation.base_bank + modulo(call, index, allocation.bank_tiles);
            const std::int64_t address =
                checked_add(allocation.base_address,
                            checked_multiply(modulo(call, index, allocation.free_tiles), bytes));
            place.byte = checked_add(psum ? checked_multiply(bank, bank_bytes) : 0, address);
        }
        places.push_back(place);
    }
    return places;
}

Buffer memory_of(BufferToken token) {
    if (token == BufferToken::kSbuf) return Buffer::kSbuf;
    return token == BufferToken::kPsum ? Buffer::kPsum : Buffer::kHbm;
}

/// Allocates what ndarray, zeros, ones, full and their _like forms describe.
TensorId allocate(ApiCall& call, std::vector<std::int64_t> shape, int partition_axis, DType dtype,
                  BufferToken token) {
    Evaluator& host = call.host();
    const bool nested =
        host.call_depth() > 1 || host.in_loop() || host.builder().branch_depth() > 0;
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
    spec.placements = placements(call, spec.shape, spec.partition_axis, dtype);
    spec.name = call.text(call.at("name"));
    const OpRequest here = host.request_here(Opcode::kMemset);
    spec.site = here.site;
    spec.line = here.line;
    if (token == BufferToken::kSharedHbm) return host.builder().share(std::move(spec));
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
    if (!tensor.placements.empty())
        rejected("tensor_creation_on_scratchpad_with_init_value_not_supported",
                 "a directly allocated tensor cannot be created with an initial value")
            .shape(tensor.shape)
            .remedy("create it with nl.ndarray and fill it with nisa.memset")
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

Value copy(ApiCall& call) {
    const Ref<Tile> source = call.loose_tile(0);
    OpRequest request = call.request(Opcode::kCopy);
    if (source->broadcast_partitions > 0 && !request.masked) {
        request.opcode = Opcode::kPartitionBroadcast;
        const bool made = call.host().builder().has_expansion(*source);
        request.add_source(made ? source->expanded : source);
        if (made) request.opcode = Opcode::kCopy;
    } else {
        request.add_source(call.tile(0));
    }
    request.shape = source->shape();
    request.dtype = call.dtype(call.at("dtype"), source->dtype);
    return call.pending(std::move(request));
}

Value broadcast_to(ApiCall& call) {
    const Ref<Tile> source = call.loose_tile(0);
    if (source->buffer == Buffer::kHbm) call.bad_argument(0, "a tile in sbuf or psum");
    return Value::tile(interp::broadcast_to(call.host().heap(), source, call.shape(1)));
}

Value expand_dims(ApiCall& call) {
    const Ref<Tile> source = call.tile(0);
    const std::vector<std::int64_t> axes =
        call[1].is_integer() ? std::vector<std::int64_t>{call.integer(1)} : call.shape(1);
    if (axes.size() + static_cast<std::size_t>(source->rank) > kMaxTileDims)
        call.bad_argument(1, fmt::format("few axes: a tile has at most {} dims", kMaxTileDims));
    std::vector<IndexItem> items(static_cast<std::size_t>(source->rank) + axes.size());
    for (IndexItem& item : items) item.kind = IndexItem::Kind::kSlice;
    const auto rank = static_cast<std::int64_t>(items.size());
    for (std::int64_t axis : axes) {
        if (axis < 0) axis += rank;
        if (axis == 0)
            rejected("leading_dimension_of_tensor_must_be_partition",
                     "nl.expand_dims cannot put a dimension in front of the partition dimension")
                .shape(source->shape())
                .remedy("add dimensions behind the partition dimension")
                .raise();
        const bool free = axis > 0 && axis < rank;
        if (!free || items[static_cast<std::size_t>(axis)].kind == IndexItem::Kind::kNewAxis)
            call.bad_argument(1, "free dimensions, each once");
        items[static_cast<std::size_t>(axis)].kind = IndexItem::Kind::kNewAxis;
    }
    return Value::tile(
        subscript(call.host().heap(), *source, items, call.host().builder().describe(*source)));
}

Value memset(ApiCall& call) {
    OpRequest request = call.request(Opcode::kMemset);
    request.shape = call.shape(0);
    request.operand0.immediate = call.number(1);
    request.dtype = call.dtype(2, DType::kFloat32);
    if (request.shape.empty()) call.bad_argument(0, "a shape");
    if (request.engine != Engine::kAuto && request.engine != Engine::kVector &&
        request.engine != Engine::kGpSimd)
        call.bad_argument(call.at("engine"), "the Vector or the GpSimd Engine");
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

}  // namespace accelopt::nki::interp::api
