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
    : heap_(heap), limits_(limits), loops_(program_.loops), accesses_(loops_) {}

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
    TensorState state;
    state.context = spec.context >= 0 ? spec.context : loops_.context();
    states_.push_back(state);
    // A tensor of another iteration than the running one, or one that is no tile, is made once.
    if (state.context != loops_.context() || spec.buffer == Buffer::kHbm) refuse_replay();
    program_.tensors.push_back(std::move(tensor));
    note({TraceEvent::Kind::kTensor, false, -1});
    return program_.tensors.back().id;
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
    const int loop = loops_.ended_scope(states_[tile.tensor].context);
    if (loop < 0) return;
    const Loop& scope = program_.loops[loop];
    rejected(
        "local_variable_used_out_of_scope",
        fmt::format("tile '{}' (line {}) belongs to an iteration of the {} loop of line {}, "
                    "which has ended",
                    describe(tile), program_.tensors[tile.tensor].line, scope.kind, scope.line))
        .shape(tile.shape())
        .remedy("create the tile before the loop and assign into it: tile[...] = value")
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
}

}  // namespace accelopt::nki::interp
