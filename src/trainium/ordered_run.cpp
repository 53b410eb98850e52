#include "trainium/ordered_run.h"

#include <algorithm>

#include "core/error.h"
#include "trainium/placed_tiles.h"

namespace accelopt::trainium::execution {

using nki::Buffer;
using nki::Opcode;
using nki::Operation;
using nki::View;

namespace {

/// A mask term that keeps `sign * (value - limit) >= 0`, where value = start + sum(stride * i).
nki::MaskTerm within(const std::array<std::int64_t, nki::kMaxDims>& stride, std::int64_t start,
                     std::int64_t limit, int sign) {
    nki::MaskTerm term;
    term.constant = sign * (start - limit);
    for (int d = 0; d < nki::kMaxDims; ++d) term.coefficients[d] = sign * stride[d];
    return term;
}

}  // namespace

OrderedRun::OrderedRun(const nki::Program& program, const CompiledKernel& kernel,
                       const TileTable& tiles, std::span<const InputArray> inputs,
                       const ExecutionLimits& limits)
    : program_(program),
      kernel_(kernel),
      memory_(program, tiles, inputs, kernel.schedule.allocations.size(), limits.memory_bytes),
      executor_(program, memory_) {
    const Stream& stream = kernel.stream;
    for (std::size_t a = 0; a < kernel.schedule.allocations.size(); ++a) {
        const Tile& tile = stream.tiles[kernel.schedule.allocations[a].tile];
        memory_.describe(static_cast<std::int32_t>(a), layout_of(tile));
    }
    for (const Instruction& instruction : stream.instructions) {
        for (const trainium::Operand* o : {&instruction.src[0], &instruction.dst}) {
            if (o == &instruction.src[0] && instruction.sources == 0) continue;
            const Tile& tile = stream.tiles[o->tile];
            if (tile.buffer == Buffer::kHbm && tile.tensor < 0) ++copy_uses_[o->tile];
        }
        if (instruction.op == StreamOp::kReload && instruction.clean) loads_[instruction.dst.tile];
    }
    if (!loads_.empty()) {
        for (std::size_t k = 0; k < stream.instructions.size(); ++k) {
            const Instruction& instruction = stream.instructions[k];
            if (instruction.op != StreamOp::kLoad || instruction.operation < 0) continue;
            const auto found = loads_.find(instruction.dst.tile);
            if (found == loads_.end()) continue;
            found->second.emplace_back(static_cast<std::int32_t>(k), instruction.operation);
        }
    }
    // Zeros that PSUM starts from belong to the tile of the (tensor, block) they name.
    std::unordered_map<std::uint64_t, std::int32_t> tile_of;
    const auto key = [](const View& view) {
        return mix(static_cast<std::uint64_t>(view.tensor), static_cast<std::uint64_t>(view.block));
    };
    bool any = false;
    for (std::size_t i = 0; i < program.operations.size() && !any; ++i) {
        any = program.operations[i].opcode == Opcode::kMemset && program.operations[i].implicit;
    }
    if (!any) return;
    for (const Instruction& instruction : stream.instructions) {
        if (instruction.operation < 0 || stream.tiles[instruction.dst.tile].tensor < 0) continue;
        const View& dst = program.operations[instruction.operation].dst;
        if (stream.tiles[instruction.dst.tile].tensor == dst.tensor) {
            tile_of.try_emplace(key(dst), instruction.dst.tile);
        }
    }
    const auto count = static_cast<std::int32_t>(program.operations.size());
    const std::vector<char> implicit = implicit_fills(program);
    for (std::int32_t i = 0; i < count; ++i) {
        if (implicit[static_cast<std::size_t>(i)] == 0 || prepares_next(program, i)) continue;
        const auto found = tile_of.find(key(program.operations[i].dst));
        if (found != tile_of.end()) fills_[found->second].push_back(i);
    }
}

nki::TensorId OrderedRun::layout_of(const Tile& tile) {
    if (tile.slice >= 0) {
        const nki::Tensor& whole = program_.tensors[tile.tensor];
        const std::int64_t size = nki::size_of(whole.dtype);
        return memory_.layout(tile.partitions, (tile.partition_bytes + size - 1) / size,
                              whole.dtype);
    }
    if (tile.tensor >= 0) return tile.tensor;
    return memory_.layout(tile.partitions, (tile.partition_bytes + 3) / 4, nki::DType::kFloat32);
}

std::int32_t OrderedRun::life_of(std::int32_t node, std::int32_t tile) const {
    const Adjacency& uses = kernel_.schedule.uses;
    for (std::int32_t u = uses.first[node]; u < uses.first[node + 1]; ++u) {
        if (kernel_.schedule.allocations[uses.items[u]].tile == tile) return uses.items[u];
    }
    throw Error(ErrorSource::kInternal, "completion_order",
                "an instruction uses a tile that has no memory");
}

void OrderedRun::rename(View& view, std::int32_t tile_id, std::int32_t node) {
    const Tile& tile = kernel_.stream.tiles[tile_id];
    if (tile.buffer == Buffer::kHbm) {
        require(tile.tensor == view.tensor, "completion order: another HBM tensor is read");
        return;
    }
    const nki::Tensor& own = program_.tensors[view.tensor];
    view.block = life_of(node, tile_id);
    if (tile.slice < 0) {
        require(tile.tensor >= 0 &&
                    program_.tensors[tile.tensor].free_elements == own.free_elements &&
                    program_.tensors[tile.tensor].dtype == own.dtype,
                "completion order: a tile of another layout stands for a value");
        view.tensor = tile.tensor;
        return;
    }
    const Slice& slice = kernel_.stream.slices[tile.slice];
    const std::int64_t pitch = own.free_elements;
    view.tensor = layout_of(tile);
    const std::int64_t columns = memory_.tensor(view.tensor).free_elements;
    const std::int64_t row = view.offset / pitch - slice.partition_lo;
    const std::int64_t column = view.offset % pitch - slice.byte_lo / nki::size_of(own.dtype);
    view.offset = row * columns + column;
    if (view.rank > 0 && view.dims[0].stride != 0) {
        require(view.dims[0].stride % pitch == 0, "completion order: a slice across partitions");
        view.dims[0].stride = view.dims[0].stride / pitch * columns;
    }
}

Operation OrderedRun::renamed(const Instruction& instruction, std::int32_t node) {
    Operation op = program_.operations[instruction.operation];
    int next = 0;
    const auto source = [&](View& view) {
        require(next < instruction.sources, "completion order: an operand got lost");
        rename(view, instruction.src[next++].tile, node);
    };
    const int sources = std::min<int>(op.sources, static_cast<int>(op.src.size()));
    for (int s = 0; s < sources; ++s) source(op.src[s]);
    for (nki::ScalarOperand* scalar : {&op.scale, &op.bias, &op.operand0, &op.operand1}) {
        if (scalar->vector) source(scalar->view.edit());
    }
    rename(op.dst, instruction.dst.tile, node);
    return op;
}

bool OrderedRun::performs_operation(const Instruction& instruction) const {
    return instruction.operation >= 0 &&
           program_.operations[instruction.operation].opcode != Opcode::kPartitionBroadcast;
}

void OrderedRun::step(const OrderStep& step, Fingerprint* fingerprint) {
    switch (step.kind) {
        case OrderStep::Kind::kAllocate:
            return allocate(step.index);
        case OrderStep::Kind::kRelease:
            return release(step.index);
        case OrderStep::Kind::kComplete:
            if (step.index < kernel_.schedule.instructions) perform(step.index, fingerprint);
            return;
    }
}

void OrderedRun::allocate(std::int32_t life) {
    // Placed tiles are given no memory in the model; here they get it at their first use.
    if (kernel_.schedule.allocations[life].size > 0) memory_.allocate(life);
    const std::int32_t tile = kernel_.schedule.allocations[life].tile;
    const auto found = fills_.find(tile);
    if (found == fills_.end()) return;
    for (const std::int32_t index : found->second) {
        Operation fill = program_.operations[index];
        fill.dst.block = life;
        executor_.run(fill);
    }
}

void OrderedRun::release(std::int32_t life) {
    memory_.allocate(life);  // nothing may have touched a placed tile
    memory_.release(life);
    const Tile& tile = kernel_.stream.tiles[kernel_.schedule.allocations[life].tile];
    if (tile.shares >= 0) std::erase(sharers_[tile.shares], life);
}

/// A write to a tile that shares bytes with others destroys what those hold there.
void OrderedRun::overwrite_sharers(std::int32_t node) {
    const Stream& stream = kernel_.stream;
    const trainium::Operand box = physical(stream, stream.instructions[node].dst);
    const std::int32_t written = life_of(node, stream.instructions[node].dst.tile);
    std::vector<std::int32_t>& lives = sharers_[box.tile];
    for (const std::int32_t life : lives) {
        if (life == written) continue;
        const Tile& other = stream.tiles[kernel_.schedule.allocations[life].tile];
        trainium::Operand lost = box;
        lost.partition_lo = std::max(0, box.partition_lo - other.partition);
        lost.partition_hi = std::min(other.partitions, box.partition_hi - other.partition);
        lost.byte_lo = std::max(0, box.byte_lo - other.byte);
        lost.byte_hi = std::min(other.partition_bytes, box.byte_hi - other.byte);
        memory_.lose(life, lost);
    }
    if (std::find(lives.begin(), lives.end(), written) == lives.end()) lives.push_back(written);
}

void OrderedRun::perform(std::int32_t node, Fingerprint* fingerprint) {
    const Instruction& instruction = kernel_.stream.instructions[node];
    if (kernel_.stream.tiles[instruction.dst.tile].shares >= 0) overwrite_sharers(node);
    const Tile& target = kernel_.stream.tiles[instruction.dst.tile];
    if (instruction.op == StreamOp::kSpill) {
        memory_.spill(life_of(node, instruction.src[0].tile), instruction.dst.tile,
                      instruction.line);
        count_use(instruction.dst.tile);
    } else if (instruction.op == StreamOp::kReload) {
        reload(node);
        count_use(instruction.src[0].tile);
    } else if (target.slice >= 0) {
        load_slice(node);
    } else if (instruction.operation < 0) {
        // The identity of nl.matmul's transposes, whose values those do not need.
    } else if (!performs_operation(instruction)) {
        broadcast_part(node);
    } else {
        if (instruction.operation > 0 && prepares_next(program_, instruction.operation - 1)) {
            Operation fill = program_.operations[instruction.operation - 1];
            rename(fill.dst, instruction.dst.tile, node);
            executor_.run(fill);
        }
        executor_.run(renamed(instruction, node), fingerprint);
    }
}

/// The memory of a compiler's HBM copy is given back after its last use, unless that use came too
/// early.
void OrderedRun::count_use(std::int32_t tile) {
    if (--copy_uses_[tile] == 0) memory_.drop(tile);
}

void OrderedRun::reload(std::int32_t node) {
    const Instruction& instruction = kernel_.stream.instructions[node];
    const std::int32_t tile = instruction.dst.tile;
    const std::int32_t life = life_of(node, tile);
    if (!instruction.clean) return memory_.reload(instruction.src[0].tile, life, instruction.line);
    // HBM has held the elements all along: the loads that came before bring them again.
    for (const auto& [at, operation] : loads_[tile]) {
        if (at > node) break;
        Operation load = program_.operations[operation];
        rename(load.dst, tile, node);
        executor_.run(load);
    }
}

void OrderedRun::load_slice(std::int32_t node) {
    const Stream& stream = kernel_.stream;
    const std::int32_t tile_id = stream.instructions[node].dst.tile;
    const Tile& tile = stream.tiles[tile_id];
    const Slice& slice = stream.slices[tile.slice];
    const nki::Tensor& whole = program_.tensors[tile.tensor];
    const std::int64_t size = nki::size_of(whole.dtype);
    auto load = std::lower_bound(stream.sliced_loads.begin(), stream.sliced_loads.end(),
                                 std::pair(slice.tile, std::int32_t{-1}));
    for (std::int32_t n = 0; n < slice.loads; ++n, ++load) {
        Operation part = program_.operations[load->second];
        // Cut the load down to the box of the slice.
        std::array<std::int64_t, nki::kMaxDims> rows{};
        std::array<std::int64_t, nki::kMaxDims> columns{};
        for (int d = 0; d < part.dst.rank; ++d) {
            const std::int64_t stride = part.dst.dims[d].stride;
            if (d == 0 && stride != 0) {
                rows[0] = stride / whole.free_elements;
            } else {
                columns[d] = stride;
            }
        }
        const std::int64_t row = part.dst.offset / whole.free_elements;
        const std::int64_t column = part.dst.offset % whole.free_elements;
        const std::int64_t first = slice.byte_lo / size;
        const std::int64_t width = (tile.partition_bytes + size - 1) / size;
        part.mask.push_back(within(rows, row, slice.partition_lo, 1));
        part.mask.push_back(within(rows, row, slice.partition_lo + tile.partitions - 1, -1));
        part.mask.push_back(within(columns, column, first, 1));
        part.mask.push_back(within(columns, column, first + width - 1, -1));
        rename(part.dst, tile_id, node);
        executor_.run(part);
    }
}

/// A part of a broadcast: `n` columns of the source on all partitions in PSUM, or those from PSUM
/// to their place.
void OrderedRun::broadcast_part(std::int32_t node) {
    const Instruction& instruction = kernel_.stream.instructions[node];
    Operation op = program_.operations[instruction.operation];
    // Columns are counted over the free dims in order: keep those of this part.
    std::array<std::int64_t, nki::kMaxDims> weight{};
    std::int64_t step = 1;
    for (int d = op.dst.rank - 1; d >= 1; --d) {
        weight[d] = step;
        step *= op.dst.dims[d].count;
    }
    const std::int64_t first = instruction.first_column;
    op.mask.push_back(within(weight, 0, first, 1));
    op.mask.push_back(within(weight, 0, first + instruction.n - 1, -1));
    const bool to_psum = instruction.op == StreamOp::kBroadcastMatmul;
    const std::int32_t psum = to_psum ? instruction.dst.tile : instruction.src[0].tile;
    if (to_psum && kernel_.stream.tiles[psum].tensor >= 0) {  // read where the array left it
        rename(op.src[0], instruction.src[0].tile, node);
        rename(op.dst, psum, node);
        executor_.run(op);
        return;
    }
    View part = op.dst;
    part.tensor = layout_of(kernel_.stream.tiles[psum]);
    part.block = life_of(node, psum);
    part.offset = -first;
    for (int d = 1; d < part.rank; ++d) part.dims[d].stride = weight[d];
    part.dims[0].stride = memory_.tensor(part.tensor).free_elements;
    if (to_psum) {
        rename(op.src[0], instruction.src[0].tile, node);
        op.dst = part;
    } else {
        op.src[0] = part;
        op.opcode = Opcode::kCopy;
        rename(op.dst, instruction.dst.tile, node);
    }
    executor_.run(op);
}

}  // namespace accelopt::trainium::execution
