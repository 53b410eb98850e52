#include <fmt/format.h>

#include <algorithm>

#include "nki/builder.h"
#include "nki/failure.h"

namespace accelopt::nki::interp {
namespace {

/// On-chip tensors are traced without data, but the machine runs every block.
constexpr std::int64_t kOnChipBytesLimit = 256'000'000'000;

}  // namespace

Builder::Builder(Heap& heap, const TraceLimits& limits)
    : heap_(heap), limits_(limits), loops_(program_.loops), accesses_(loops_, limits.comparisons) {}

void Builder::charge_memory(std::int64_t bytes) {
    if (bytes > limits_.memory_bytes - memory_)
        exhausted("memory", fmt::format("the kernel needs more than {} bytes of memory",
                                        limits_.memory_bytes))
            .limit(limits_.memory_bytes)
            .raise();
    memory_ += bytes;
}

TensorId Builder::allocate(TensorSpec spec) {
    Tensor tensor;
    tensor.id = static_cast<TensorId>(program_.tensors.size());
    tensor.name = std::move(spec.name);
    tensor.buffer = spec.buffer;
    tensor.role = spec.role;
    tensor.dtype = spec.dtype;
    tensor.partition_axis = spec.partition_axis;
    tensor.site = spec.site;
    tensor.line = spec.line;
    if (spec.shape.empty() || spec.shape.size() > kMaxTileDims)
        rejected("exceed_max_supported_dimension",
                 fmt::format("a tensor needs 1 to {} dimensions", kMaxTileDims))
            .shape(spec.shape)
            .limit(kMaxTileDims)
            .raise();
    for (const std::int64_t n : spec.shape)
        if (n <= 0)
            rejected("value_error", "a tensor needs dimensions above 0: " + shape_text(spec.shape))
                .shape(spec.shape)
                .raise();
    const auto product = [&](std::size_t from, std::size_t to) {
        std::int64_t n = 1;
        for (std::size_t d = from; d < to; ++d) n = checked_multiply(n, spec.shape[d]);
        return n;
    };
    const std::int64_t bytes = checked_multiply(product(0, spec.shape.size()), size_of(spec.dtype));
    const auto axis = static_cast<std::size_t>(spec.partition_axis);
    tensor.partitions = spec.shape[axis];
    tensor.blocks = product(0, axis);
    tensor.free_elements = product(axis + 1, spec.shape.size());
    tensor.shape = std::move(spec.shape);
    if (spec.buffer == Buffer::kHbm) {
        charge_memory(bytes);
    } else {
        if (tensor.partitions > limits_.partitions)
            rejected("num_partition_exceed_arch_limit",
                     fmt::format("number of partitions {} of {} exceeds the limit of {}",
                                 tensor.partitions, shape_text(tensor.shape), limits_.partitions))
                .shape(tensor.shape)
                .limit(limits_.partitions)
                .remedy("split the partition dimension into tiles of at most 128")
                .raise();
        const bool psum = spec.buffer == Buffer::kPsum;
        const std::int64_t capacity =
            psum ? limits_.psum_partition_bytes : limits_.sbuf_partition_bytes;
        const std::int64_t needed = checked_multiply(tensor.free_elements, size_of(spec.dtype));
        if (needed > capacity)
            rejected(
                psum ? "psum_capacity" : "sbuf_capacity",
                fmt::format("one tile of {} needs {} bytes per partition; {} has {}",
                            shape_text(tensor.shape), needed, psum ? "PSUM" : "SBUF", capacity))
                .shape(tensor.shape)
                .limit(capacity)
                .remedy("use smaller tiles")
                .raise();
        if (bytes > kOnChipBytesLimit)
            exhausted("memory", "the blocks of one on-chip tensor need too much memory")
                .shape(tensor.shape)
                .limit(kOnChipBytesLimit)
                .raise();
        charge_memory(static_cast<std::int64_t>(sizeof(Tensor)));
    }
    if (spec.buffer != Buffer::kHbm && spec.placements.empty() && !spec.hidden)
        refuse_mixed_allocation(tensor);
    place(tensor, std::move(spec.placements));
    TensorState state;
    state.hidden = spec.hidden;
    if (spec.context < 0 && !branches_.empty()) state.branch = branches_.back();
    state.context = spec.context >= 0 ? spec.context : loops_.context();
    states_.push_back(state);
    // A tensor of another iteration than the running one, or one that is no tile, is made once.
    if (state.context != loops_.context() || spec.buffer == Buffer::kHbm) refuse_replay();
    program_.tensors.push_back(std::move(tensor));
    note({TraceEvent::Kind::kTensor, AluOp::kNone, false, -1});
    return program_.tensors.back().id;
}

/// Checks and keeps where the blocks of a tensor are to lie.
void Builder::place(Tensor& tensor, std::vector<Tensor::Placement> placements) {
    if (placements.empty() || ignore_allocations_) return;
    const bool psum = tensor.buffer == Buffer::kPsum;
    // The compiler keeps the last 16 KiB of every SBUF partition (direct allocation guide).
    constexpr std::int64_t kReserved = 16 * 1024;
    const std::int64_t capacity =
        psum ? limits_.psum_partition_bytes : limits_.sbuf_partition_bytes - kReserved;
    const std::int64_t needed = tensor.free_elements * size_of(tensor.dtype);
    const char* const code = psum ? "psum_capacity" : "sbuf_capacity";
    for (const Tensor::Placement& place : placements) {
        const std::int64_t unit = tensor.partitions > 64 ? 128 : tensor.partitions > 32 ? 64 : 32;
        if (place.partition < 0 || place.partition % unit != 0 ||
            place.partition + tensor.partitions > limits_.partitions)
            rejected("start_partition",
                     fmt::format("a tile of {} partitions cannot be allocated from partition {} on",
                                 tensor.partitions, place.partition))
                .shape(tensor.shape)
                .limit(unit)
                .remedy(
                    "start at 0; tiles of at most 64 partitions also at 64, of at most 32 at "
                    "32 and 96")
                .raise();
        if (place.byte < 0 || place.byte + needed > capacity)
            rejected(code, fmt::format("a tile of {} bytes per partition allocated at byte {} "
                                       "leaves the {} bytes of {}",
                                       needed, place.byte, capacity, psum ? "PSUM" : "SBUF"))
                .shape(tensor.shape)
                .limit(capacity)
                .remedy("move it down, or use fewer or smaller tiles")
                .raise();
        // "In current release, start_partition and byte_addr must both be 0" (psum.alloc).
        if (psum && (place.partition != 0 || place.byte % limits_.psum_bank_bytes != 0))
            rejected(code, "a PSUM tile must be allocated from partition 0 and byte 0 of a bank on")
                .shape(tensor.shape)
                .limit(limits_.psum_bank_bytes)
                .remedy("choose another bank instead")
                .raise();
        if (psum && needed > limits_.psum_bank_bytes)
            rejected(code, "a PSUM tile is allocated across two banks")
                .shape(tensor.shape)
                .limit(limits_.psum_bank_bytes)
                .raise();
    }
    tensor.placements = std::move(placements);
    allocated_ = true;
    if (forbidden_) {
        Finding finding = *forbidden_;
        throw TraceFailure{std::move(finding)};
    }
}

TensorId Builder::share(TensorSpec spec) {
    refuse_replay();
    const std::size_t index = next_shared_++;
    if (index < shared_.size()) {
        const Tensor& made = program_.tensors[shared_[index]];
        if (made.shape != spec.shape || made.dtype != spec.dtype)
            rejected("value_error",
                     "the program instances create nl.shared_hbm tensors of different shapes")
                .shape(made.shape)
                .shape(spec.shape)
                .raise();
        return made.id;
    }
    spec.context = 0;
    shared_.push_back(allocate(std::move(spec)));
    return shared_.back();
}

Ref<Tile> Builder::whole(TensorId id) {
    const Tensor& t = program_.tensors[id];
    Ref<Tile> tile = heap_.make<Tile>();
    tile->tensor = id;
    tile->buffer = t.buffer;
    tile->dtype = t.dtype;
    tile->whole = true;
    tile->rank = static_cast<int>(t.shape.size());
    std::int64_t stride = 1;
    for (int d = tile->rank - 1; d >= 0; --d) {
        AxisTag tag = AxisTag::kFree;
        if (t.buffer != Buffer::kHbm && d == t.partition_axis) tag = AxisTag::kPartition;
        if (t.buffer != Buffer::kHbm && d < t.partition_axis) tag = AxisTag::kBlock;
        tile->dims[d] = {t.shape[d], stride, tag};
        stride *= t.shape[d];
    }
    return tile;
}

Ref<Tile> Builder::block(TensorId id, std::int64_t index) {
    const Tensor& t = program_.tensors[id];
    Ref<Tile> tile = whole(id);
    const int blocks = t.partition_axis;
    for (int d = blocks; d < tile->rank; ++d) tile->dims[d - blocks] = tile->dims[d];
    tile->rank -= blocks;
    tile->whole = blocks == 0;
    tile->base = index * t.partitions * t.free_elements;
    return tile;
}

void Builder::name_tensor(TensorId id, const std::string& name) {
    if (program_.tensors[id].name.empty()) program_.tensors[id].name = name;
}

void Builder::set_constant(TensorId id, std::vector<float> values) {
    charge_memory(static_cast<std::int64_t>(values.size() * sizeof(float)));
    program_.tensors[id].constant_data = std::move(values);
}

const std::string& Builder::describe(const Tile& tile) const {
    static const std::string kNameless = "tile";
    const std::string& name = program_.tensors[tile.tensor].name;
    return name.empty() ? kNameless : name;
}

int Builder::api_index(const std::string& name) {
    const auto [it, added] =
        api_indices_.try_emplace(name, static_cast<int>(program_.api_names.size()));
    if (added) program_.api_names.push_back(name);
    return it->second;
}

void Builder::check_scope(const Tile& tile) {
    const int branch = states_[tile.tensor].branch;
    if (branch != 0 && std::find(branches_.begin(), branches_.end(), branch) == branches_.end())
        rejected("local_variable_used_out_of_scope",
                 fmt::format("tile '{}' (line {}) belongs to the branch of an 'if' on a loop "
                             "variable, which has ended",
                             describe(tile), program_.tensors[tile.tensor].line))
            .shape(tile.shape())
            .remedy(
                "create the tile before the 'if' and assign into it: tile[...] = value; or loop "
                "with nl.static_range, which opens no scope")
            .raise();
    const int loop = loops_.ended_scope(states_[tile.tensor].context);
    if (loop < 0) return;
    const Loop& scope = program_.loops[loop];
    rejected(
        "local_variable_used_out_of_scope",
        fmt::format("tile '{}' (line {}) belongs to an iteration of the {} loop of line {}, "
                    "which has ended",
                    describe(tile), program_.tensors[tile.tensor].line, scope.kind, scope.line))
        .shape(tile.shape())
        .remedy(
            "create the tile before the loop and assign into it: tile[...] = value; or loop with "
            "nl.static_range, which opens no scope")
        .raise();
}

void Builder::finish(const std::vector<Ref<Tile>>& outputs) {
    if (outputs.empty())
        rejected("tensor_output_not_written_to", "the kernel returns no output tensor")
            .remedy("return the HBM tensor that holds the result")
            .raise();
    for (const Ref<Tile>& tile : outputs) {
        Tensor& t = program_.tensors[tile->tensor];
        if (t.buffer != Buffer::kHbm || !tile->whole)
            rejected(
                "output_type",
                fmt::format("the kernel returns '{}', which is not an HBM tensor", describe(*tile)))
                .shape(tile->shape())
                .remedy("store the result to an nl.shared_hbm tensor and return that")
                .raise();
        if (t.role == TensorRole::kInput || t.role == TensorRole::kConstant)
            rejected("output_alias", fmt::format("the kernel returns its input '{}'", t.name))
                .raise();
        if (std::find(program_.outputs.begin(), program_.outputs.end(), t.id) !=
            program_.outputs.end())
            rejected("output_alias", fmt::format("the kernel returns '{}' twice", t.name)).raise();
        if (!states_[t.id].written)
            rejected("tensor_output_not_written_to",
                     fmt::format("output tensor '{}' is never stored to", describe(*tile)))
                .shape(t.shape)
                .remedy("store to it; check that the loops around the store run at all")
                .raise();
        t.role = TensorRole::kOutput;
        program_.outputs.push_back(t.id);
    }
    start_groups();
    for (const Tensor& t : program_.tensors) {
        // Known limitations of the direct allocation guide.
        if (allocated_ && t.buffer == Buffer::kHbm && t.role == TensorRole::kScratch)
            rejected("unsupported_memory",
                     fmt::format("a kernel with direct allocation has no HBM tensors but inputs "
                                 "and outputs; '{}' is neither",
                                 t.name.empty() ? "a tensor" : t.name))
                .shape(t.shape)
                .at(t.line, 1)
                .remedy("keep the intermediate result in SBUF, or return the tensor")
                .raise();
        if (!t.is_mutable_parameter()) continue;
        if (std::find(program_.outputs.begin(), program_.outputs.end(), t.id) ==
            program_.outputs.end())
            rejected("mutable_parameter_not_returned",
                     fmt::format("the mutable parameter '{}' is not returned", t.name))
                .shape(t.shape)
                .remedy("return it among the outputs of the kernel")
                .raise();
    }
}

}  // namespace accelopt::nki::interp
