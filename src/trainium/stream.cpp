#include "trainium/stream.h"

#include <algorithm>
#include <bit>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/error.h"
#include "trainium/placed_tiles.h"
#include "trainium/stream_access.h"

namespace accelopt::trainium {
namespace {

using nki::Opcode;
using nki::Operation;
using nki::View;

/// Saturates: a hostile count must not become negative.
std::int32_t narrow32(std::int64_t value) {
    return static_cast<std::int32_t>(std::clamp<std::int64_t>(value, 0, 0x7fffffff));
}

/// The device's limits are far below; the bound keeps products of three extents in 63 bits.
std::int32_t matmul_extent(std::int64_t value) {
    return static_cast<std::int32_t>(std::clamp<std::int64_t>(value, 0, 1 << 20));
}

std::uint64_t mix_scalar(std::uint64_t hash, const nki::ScalarOperand& operand) {
    hash = mix(hash, operand.vector ? 1 : 2);
    return operand.vector ? hash : mix(hash, std::bit_cast<std::uint64_t>(operand.immediate));
}

/// Everything that decides an operation's result besides its operands. Immediates belong to it:
/// 0.1 * g and 0.001 * g are different values.
std::uint64_t definition_hash(const Operation& op, const nki::Program& program) {
    std::uint64_t hash =
        mix(static_cast<std::uint64_t>(op.opcode), static_cast<std::uint64_t>(op.function));
    hash = mix(hash, static_cast<std::uint64_t>(op.op0) << 8 | static_cast<std::uint64_t>(op.op1));
    hash = mix(hash, std::uint64_t{op.reverse0} | std::uint64_t{op.reverse1} << 1 |
                         std::uint64_t{op.negate} << 2 | std::uint64_t{op.axes} << 8);
    for (const auto* operand : {&op.scale, &op.bias, &op.operand0, &op.operand1})
        hash = mix_scalar(hash, *operand);
    for (std::int64_t coefficient : op.iota)
        hash = mix(hash, static_cast<std::uint64_t>(coefficient));
    if (op.extra >= 0) {
        const nki::Extra& extra = program.extras.at(op.extra);
        for (const nki::Extra::Dynamic& axis : extra.dynamic) {
            for (const std::int64_t value :
                 {axis.stride, axis.scale, axis.size, axis.low, axis.high})
                hash = mix(hash, static_cast<std::uint64_t>(value));
        }
        hash = mix(hash, static_cast<std::uint64_t>(extra.offset));
        for (const std::int64_t stride : extra.stride)
            hash = mix(hash, static_cast<std::uint64_t>(stride));
        for (const std::int64_t value : {extra.elements_per_index, extra.valid_indices})
            hash = mix(hash, static_cast<std::uint64_t>(value));
        hash = mix(mix(hash, extra.seed), extra.draw);
        for (const std::uint8_t from : extra.pattern) hash = mix(hash, from);
    }
    for (const nki::MaskTerm& term : op.mask) {
        hash = mix(hash, static_cast<std::uint64_t>(term.constant));
        for (std::int64_t coefficient : term.coefficients)
            hash = mix(hash, static_cast<std::uint64_t>(coefficient));
    }
    return hash;
}

StreamOp stream_op(Opcode opcode) {
    switch (opcode) {
        case Opcode::kLoad:
            return StreamOp::kLoad;
        case Opcode::kStore:
            return StreamOp::kStore;
        case Opcode::kDmaCopy:
            return StreamOp::kDmaCopy;
        case Opcode::kMemset:
            return StreamOp::kMemset;
        case Opcode::kIota:
            return StreamOp::kIota;
        case Opcode::kCopy:
            return StreamOp::kCopy;
        case Opcode::kActivation:
            return StreamOp::kActivation;
        case Opcode::kTensorScalar:
            return StreamOp::kTensorScalar;
        case Opcode::kTensorTensor:
        case Opcode::kScalarTensorTensor:
        case Opcode::kSelect:
            return StreamOp::kTensorTensor;
        case Opcode::kReciprocal:
            return StreamOp::kReciprocal;
        case Opcode::kReduce:
            return StreamOp::kReduce;
        case Opcode::kScan:
            return StreamOp::kScan;
        case Opcode::kTranspose:
            return StreamOp::kTranspose;
        case Opcode::kMatmul:
            return StreamOp::kMatmul;
        case Opcode::kPartitionBroadcast:
            return StreamOp::kBroadcastMatmul;
        case Opcode::kGather:
        case Opcode::kScatter:
        case Opcode::kTake:
        case Opcode::kLocalGather:
        case Opcode::kShuffle:
        case Opcode::kSequenceBounds:
        case Opcode::kMatchReplace8:
            return StreamOp::kCopy;
        case Opcode::kPartitionReduce:
        case Opcode::kBnStats:
        case Opcode::kBnAggr:
        case Opcode::kMax8:
        case Opcode::kFindIndex8:
        case Opcode::kMatchIndex8:
            return StreamOp::kReduce;
        case Opcode::kRangeSelect:
        case Opcode::kDropout:
            return StreamOp::kTensorScalar;
        case Opcode::kRandom:
            return StreamOp::kMemset;
    }
    throw Error(ErrorSource::kInternal, "opcode", "operation with an unknown opcode");
}

class Lowering {
  public:
    Lowering(const nki::Program& program, const Machine& machine)
        : program_(program),
          machine_(machine),
          fills_(implicit_fills(program)),
          first_block_(program.tensors.size(), -1) {}

    Stream run() {
        const auto count = static_cast<std::int32_t>(program_.operations.size());
        for (index_ = 0; index_ < count; ++index_) {
            if (!is_nothing(index_)) ++writers_[tile_of(program_.operations[index_].dst)];
        }
        stream_.instructions.reserve(program_.operations.size());
        for (index_ = 0; index_ < count; ++index_) {
            const Operation& op = program_.operations[index_];
            if (is_nothing(index_)) continue;
            if (op.opcode == Opcode::kPartitionBroadcast) {
                lower_broadcast(op);
            } else {
                lower_plain(op);
            }
        }
        stream_.iterations = program_.iterations;
        share_places(stream_);
        return std::move(stream_);
    }

  private:
    bool is_nothing(std::int32_t index) const {
        return fills_[static_cast<std::size_t>(index)] != 0;
    }

    const nki::Tensor& tensor(const View& view) const {
        const auto index = static_cast<std::size_t>(view.tensor);
        require(view.tensor >= 0 && index < program_.tensors.size(), "view of an unknown tensor");
        return program_.tensors[index];
    }

    bool has_four_bytes(const View& view) const { return nki::size_of(tensor(view).dtype) == 4; }

    std::int32_t add_tile(const Tile& tile) {
        stream_.tiles.push_back(tile);
        writers_.push_back(0);
        versions_.push_back(0);
        alias_.push_back(static_cast<std::int32_t>(stream_.tiles.size() - 1));
        return alias_.back();
    }

    std::int32_t new_site() { return stream_.sites++; }

    /// Tensors without a site rotate on their own.
    std::int32_t site_of(const nki::Tensor& tensor) {
        const std::int64_t key = tensor.site >= 0 ? tensor.site : -2 - std::int64_t{tensor.id};
        const auto [it, added] = sites_.try_emplace(key, stream_.sites);
        if (added) ++stream_.sites;
        return it->second;
    }

    std::int32_t tile_of(const View& view) {
        const nki::Tensor& t = tensor(view);
        const std::int64_t block = t.buffer == nki::Buffer::kHbm ? 0 : std::int64_t{view.block};
        const auto key = std::pair(view.tensor, block);
        if (last_tile_ >= 0 && last_key_ == key) return alias_[last_tile_];
        std::int32_t& id = tile_id(t, view.tensor, block);
        if (id < 0) {
            Tile tile;
            tile.buffer = t.buffer;
            tile.read_only =
                t.role == nki::TensorRole::kInput || t.role == nki::TensorRole::kConstant;
            tile.site = site_of(t);
            tile.tensor = view.tensor;
            tile.placed = !t.placements.empty();
            if (tile.placed) {
                const auto& at = t.placements.at(static_cast<std::size_t>(block));
                tile.partition = at.partition;
                tile.byte = narrow32(at.byte);
            }
            if (t.buffer == nki::Buffer::kHbm) {
                tile.hbm_bytes = t.partitions * t.free_elements * nki::size_of(t.dtype);
            } else {
                tile.partition_bytes =
                    narrow32(std::max<std::int64_t>(4, t.free_elements * nki::size_of(t.dtype)));
                tile.partitions = narrow32(t.partitions);
            }
            id = add_tile(tile);
        }
        last_key_ = key;
        last_tile_ = id;
        return alias_[id];
    }

    /// The place of a tile's number, -1 until it has one: by block in a table as long as tensors
    /// and table are of common sizes, else in a map.
    std::int32_t& tile_id(const nki::Tensor& tensor, nki::TensorId id, std::int64_t block) {
        constexpr std::int64_t kMostBlocks = 4096;
        constexpr std::size_t kLongestTable = std::size_t{1} << 24;
        std::int32_t& first = first_block_[static_cast<std::size_t>(id)];
        if (first < 0 && tensor.blocks <= kMostBlocks && table_.size() < kLongestTable) {
            first = static_cast<std::int32_t>(table_.size());
            table_.resize(table_.size() + static_cast<std::size_t>(tensor.blocks), -1);
        }
        if (first < 0 || block < 0 || block >= tensor.blocks)
            return tiles_.try_emplace(std::pair(id, block), -1).first->second;
        return table_[static_cast<std::size_t>(first + block)];
    }

    Operand operand(const View& view) {
        Operand result = access_box(tensor(view), view);
        result.tile = tile_of(view);
        return result;
    }

    void add_source(Instruction& instruction, const Operand& source) {
        if (instruction.sources < kMaxSources) instruction.src[instruction.sources++] = source;
    }

    void emit(const Instruction& instruction) {
        ++versions_[instruction.dst.tile];
        stream_.instructions.push_back(instruction);
    }

    void lower_plain(const Operation& op) {
        Instruction out;
        out.op = stream_op(op.opcode);
        const bool on_array = op.engine == nki::Engine::kAuto || op.engine == nki::Engine::kTensor;
        if (out.op == StreamOp::kTranspose && !on_array) out.op = StreamOp::kCopy;
        out.requested = op.engine;
        out.line = op.line;
        if (has_own_spaces(op.opcode)) out.op = indirect_op(op, out.op);
        if (op.opcode == Opcode::kTranspose && op.engine == nki::Engine::kDma)
            out.op = StreamOp::kDmaCopy;
        out.operation = index_;
        out.definition = definition_hash(op, program_);
        out.accumulate =
            op.accumulate || (op.opcode == Opcode::kScatter && op.op0 != nki::AluOp::kNone);
        out.onezero = (op.stationary_onezero && has_four_bytes(op.src[0])) ||
                      (op.moving_onezero && op.sources > 1 && has_four_bytes(op.src[1]));
        out.partial = !op.mask.empty() || op.extra >= 0 || has_own_spaces(op.opcode);
        // An operation that fills what its mask leaves out writes all of that.
        const bool fills = index_ > 0 && prepares_next(program_, index_ - 1);
        out.dst = operand(fills ? program_.operations[index_ - 1].dst : op.dst);
        const int sources = std::min<int>(op.sources, static_cast<int>(op.src.size()));
        for (int s = 0; s < sources; ++s) add_source(out, operand(op.src[s]));
        for (const auto* scalar : {&op.scale, &op.bias, &op.operand0, &op.operand1}) {
            if (scalar->vector) add_source(out, operand(scalar->view));
        }
        const View& first = sources > 0 ? op.src[0] : op.dst;
        // A narrow first operand makes no wide second one cheaper.
        out.four_byte = has_four_bytes(first);
        for (int s = 1; s < sources && out.op != StreamOp::kTranspose; ++s)
            out.four_byte = out.four_byte || has_four_bytes(op.src[s]);
        if (is_matmul(out.op)) {
            shape_matmul(op, out);
        } else {
            const bool reads_first = out.op == StreamOp::kReduce;
            const View& space = reads_first ? first : op.dst;
            const Counts counts = active_counts(op, space);
            if (product(counts, 0, space.rank) == 0) {  // fully masked: no instruction
                if (fills) emit_fill(out);
                return;
            }
            if (fills && !is_dma(out.op) && !reads_first) {  // and takes the time of all of that
                const Operation& fill = program_.operations[index_ - 1];
                shape_elementwise(op, fill.dst, active_counts(fill, fill.dst), out);
            } else if (is_dma(out.op) && has_own_spaces(op.opcode)) {
                shape_indirect_dma(op, out);
            } else if (is_dma(out.op)) {
                shape_dma(op, counts, out);
            } else {
                shape_elementwise(op, space, counts, out);
                if (applies_mask_of_shuffle(op)) out.work = out.read_bytes = out.write_bytes = 0;
            }
        }
        emit(out);
    }

    /// The front end makes a masked shuffle of a whole one and a masked copy: one pass of an
    /// engine.
    bool applies_mask_of_shuffle(const Operation& op) const {
        if (op.opcode != Opcode::kCopy || index_ == 0) return false;
        const Operation& before = program_.operations[index_ - 1];
        return before.opcode == Opcode::kShuffle && before.line == op.line &&
               before.column == op.column && before.dst.tensor == op.src[0].tensor;
    }

    /// Gathers and scatters by the DMA queues.
    StreamOp indirect_op(const Operation& op, StreamOp otherwise) const {
        if (op.engine != nki::Engine::kDma) return otherwise;
        if (tensor(op.src[0]).buffer == nki::Buffer::kHbm) return StreamOp::kLoad;
        return tensor(op.dst).buffer == nki::Buffer::kHbm ? StreamOp::kStore : StreamOp::kDmaCopy;
    }

    /// One descriptor per index: a row of the side that is not indexed.
    void shape_indirect_dma(const Operation& op, Instruction& out) {
        const View& dense = op.opcode == Opcode::kScatter ? op.src[0] : op.dst;
        const Counts counts = active_counts(op, dense);
        const std::int64_t elements = product(counts, 0, dense.rank);
        const int size = note_cast(op, out);
        out.rows = narrow32(counts[0]);
        out.bytes = elements * size;
        out.run_bytes = elements / std::max<std::int64_t>(1, counts[0]) * size;
        out.row_bytes = out.run_bytes;
        out.stride_bytes = 0;
    }

    /// The fill before a fully masked operation, which needs an instruction then.
    void emit_fill(Instruction out) {
        const Operation& fill = program_.operations[index_ - 1];
        out.op = StreamOp::kMemset;
        out.operation = index_ - 1;
        out.definition = definition_hash(fill, program_);
        out.sources = 0;
        shape_elementwise(fill, fill.dst, active_counts(fill, fill.dst), out);
        emit(out);
    }

    void shape_matmul(const Operation& op, Instruction& out) {
        const View& stationary = op.src[0];
        out.k = matmul_extent(stationary.partitions());
        out.m = matmul_extent(stationary.free_count());
        // R2: the array streams masked columns too.
        out.n = op.sources > 1 ? matmul_extent(op.src[1].free_count() + op.masked_columns) : out.k;
        if (out.op == StreamOp::kTranspose) {
            out.unmergeable = op.implicit;
            if (op.implicit && out.sources == 1) add_source(out, identity());
        }
        const int size = nki::size_of(tensor(stationary).dtype);
        out.read_bytes = narrow32((std::int64_t{out.n} + out.m) * size);
        out.write_bytes = narrow32(std::int64_t{out.n} * nki::size_of(tensor(op.dst).dtype));
    }

    void shape_elementwise(const Operation& op, const View& space, const Counts& counts,
                           Instruction& out) {
        const std::int64_t n = product(counts, 1, space.rank);
        out.n = narrow32(n);
        if (op.sources > 0) out.read_bytes = narrow32(n * nki::size_of(tensor(op.src[0]).dtype));
        const std::int64_t written = out.op == StreamOp::kReduce ? op.dst.free_count() : n;
        out.write_bytes = narrow32(written * nki::size_of(tensor(op.dst).dtype));
        out.work = work(op);
        if (op.opcode == Opcode::kReduce && op.implicit) {
            // The reduction of an activation or a tensor_scalar_reduce happens on the way; what is
            // left is to write the result.
            out.n = 0;
            out.read_bytes = 0;
        }
    }

    /// The special prices of nki.isa ("Estimated instruction cost").
    float work(const Operation& op) const {
        const auto half = [&](const View& view) {
            return tensor(view).dtype == nki::DType::kBFloat16;
        };
        switch (op.opcode) {
            case Opcode::kReduce:
                if ((op.op0 == nki::AluOp::kAdd || op.op0 == nki::AluOp::kMax) && half(op.src[0]) &&
                    half(op.dst))
                    return 0.5F;
                return 1;
            case Opcode::kMemset: {
                const bool zero = !op.operand0.vector && op.operand0.immediate == 0;
                return zero && nki::size_of(tensor(op.dst).dtype) == 2 ? 0.5F : 1;
            }
            case Opcode::kBnAggr:
                return 13.0F / 3;
            default:
                return 1;
        }
    }

    /// A descriptor is contiguous on both sides; where they differ in dtype, it takes as long as
    /// the larger one needs.
    void shape_dma(const Operation& op, const Counts& counts, Instruction& out) {
        const std::int64_t elements = product(counts, 0, op.dst.rank);
        const std::int64_t rows = counts[0];
        const int size = note_cast(op, out);
        out.rows = narrow32(rows);
        out.bytes = elements * size;
        std::int64_t run = -1;
        std::int64_t row = -1;
        for (const View* view : {&op.src[0], &op.dst}) {
            const nki::Tensor& t = tensor(*view);
            const bool hbm = t.buffer == nki::Buffer::kHbm;
            const std::int64_t side = contiguous_bytes(*view, counts, hbm ? 0 : 1, size);
            run = run < 0 ? side : std::min(run, side);
            if (hbm) {
                row = row < 0 ? side : std::min(row, side);
                out.stride_bytes = std::max(
                    out.stride_bytes, largest_stride_bytes(*view, counts, nki::size_of(t.dtype)));
            }
        }
        if (row < 0) row = run;
        if (rows > 1) {
            const std::int64_t partition = std::max<std::int64_t>(1, out.bytes / rows);
            run = std::min(run, partition);
            row = std::min(row, partition);
        }
        out.run_bytes = std::max<std::int64_t>(1, run);
        out.row_bytes = std::max<std::int64_t>(out.run_bytes, row);
        out.single_elements = elements > rows && !shares_run(op.src[0], op.dst, counts);
        shape_turned(op, rows, elements, out);
    }

    /// Notes which sides' elements a DMA moves; returns the larger size.
    int note_cast(const Operation& op, Instruction& out) const {
        const int from = nki::size_of(tensor(op.src[0]).dtype);
        const int to = nki::size_of(tensor(op.dst).dtype);
        if (from != to) {
            out.source_element = static_cast<std::uint8_t>(from);
            out.target_element = static_cast<std::uint8_t>(to);
        }
        return std::max(from, to);
    }

    /// The DMA engines transpose elements of two or four bytes, from HBM or SBUF to SBUF, in tiles
    /// of 128 partitions by 16 elements (Trainium 2 architecture guide, DMA Transpose).
    void shape_turned(const Operation& op, std::int64_t rows, std::int64_t elements,
                      Instruction& out) const {
        constexpr std::int64_t kTileElements = 16;
        if (op.api < 0 || tensor(op.dst).buffer != nki::Buffer::kSbuf) return;
        if (program_.api_names[op.api].find("transpose") == std::string::npos) return;
        const int size = nki::size_of(tensor(op.dst).dtype);
        if (out.source_element != 0 || (size != 2 && size != 4) || rows < 1) return;
        const auto whole = [](std::int64_t n, std::int64_t unit) {
            return (n + unit - 1) / unit * unit;
        };
        out.turned_in_sbuf = tensor(op.src[0]).buffer != nki::Buffer::kHbm;
        const std::int64_t tiles =
            whole(rows, std::max(1, machine_.partitions)) * whole(elements / rows, kTileElements);
        out.turned = static_cast<float>(tiles) / static_cast<float>(elements);
    }

    /// The identity that transposes of nl.matmul need: loaded once, at the first use.
    Operand identity() {
        if (identity_tile_ < 0) {
            const std::int32_t rows = std::max(1, machine_.partitions);
            const std::int32_t row_bytes = narrow32(machine_.identity_bytes / rows);
            const std::int32_t hbm =
                add_tile({.buffer = nki::Buffer::kHbm, .read_only = true, .site = new_site()});
            identity_tile_ =
                add_tile({.partition_bytes = row_bytes, .partitions = rows, .site = new_site()});
            Instruction load;
            load.op = StreamOp::kLoad;
            load.bytes = machine_.identity_bytes;
            load.rows = rows;
            load.run_bytes = load.row_bytes = load.stride_bytes = std::max(1, row_bytes);
            load.dst = {identity_tile_, 0, rows, 0, row_bytes, 1};
            add_source(load, {hbm, 0, rows, 0, row_bytes, 1});
            emit(load);
        }
        return {identity_tile_,
                0,
                stream_.tiles[identity_tile_].partitions,
                0,
                stream_.tiles[identity_tile_].partition_bytes,
                1};
    }

    /// Key of a broadcast's value: the same source elements, unwritten since, to the same shape.
    std::uint64_t broadcast_key(const Operation& op, const Operand& source, const Operand& dst) {
        std::uint64_t key = mix(static_cast<std::uint64_t>(source.tile), source.access);
        key = mix(key, static_cast<std::uint64_t>(versions_[source.tile]));
        key = mix(key, dst.access);
        return mix(key, static_cast<std::uint64_t>(tensor(op.dst).free_elements));
    }

    /// One ones-matmul per PSUM bank of columns, each copied to the destination. A broadcast of a
    /// tile that was broadcast before reuses the result (rule R3: hoisted per source tile).
    void lower_broadcast(const Operation& op) {
        const Operand source = operand(op.src[0]);
        const Operand dst = operand(op.dst);
        if (writers_[dst.tile] == 1 && !stream_.tiles[dst.tile].placed) {
            const std::uint64_t key = broadcast_key(op, source, dst);
            const auto [it, added] = broadcasts_.try_emplace(key, dst.tile);
            if (!added) {
                alias_[dst.tile] = it->second;
                last_tile_ = -1;
                return;
            }
        }
        const std::int64_t size = nki::size_of(tensor(op.dst).dtype);
        const std::int64_t columns = op.dst.free_count();
        const std::int64_t chunk = std::max<std::int64_t>(1, machine_.psum_bank_bytes / 4);
        if (broadcast_site_ < 0) broadcast_site_ = new_site();
        for (std::int64_t first = 0; first < columns; first += chunk) {
            const std::int64_t n = std::min(chunk, columns - first);
            const std::int32_t psum = add_tile({.buffer = nki::Buffer::kPsum,
                                                .partition_bytes = narrow32(n * 4),
                                                .partitions = narrow32(op.dst.partitions()),
                                                .site = broadcast_site_});
            emit_broadcast_chunk(op, source, psum, first, n);
            Instruction copy;
            copy.op = StreamOp::kCopy;
            copy.line = op.line;
            copy.operation = index_;
            copy.first_column = narrow32(first);
            copy.n = narrow32(n);
            copy.four_byte = size == 4;
            copy.read_bytes = narrow32(n * 4);
            copy.write_bytes = narrow32(n * size);
            copy.dst = dst;
            copy.dst.access = mix(dst.access, static_cast<std::uint64_t>(first));
            if (dst.byte_hi - dst.byte_lo == columns * size) {  // contiguous: exact pieces
                copy.dst.byte_lo = dst.byte_lo + narrow32(first * size);
                copy.dst.byte_hi = copy.dst.byte_lo + narrow32(n * size);
            }
            add_source(copy, {psum, 0, narrow32(op.dst.partitions()), 0, narrow32(n * 4), 1});
            emit(copy);
        }
    }

    void emit_broadcast_chunk(const Operation& op, const Operand& source, std::int32_t psum,
                              std::int64_t first, std::int64_t n) {
        const nki::Tensor& from = tensor(op.src[0]);
        Instruction ones;
        ones.op = StreamOp::kBroadcastMatmul;
        ones.line = op.line;
        ones.operation = index_;
        ones.first_column = narrow32(first);
        ones.k = 1;
        ones.m = narrow32(op.dst.partitions());
        ones.n = narrow32(n);
        ones.onezero = true;
        ones.unmergeable = true;  // R3: not merged across separate loads of the same row
        ones.four_byte = nki::size_of(from.dtype) == 4;
        ones.read_bytes = narrow32((n + ones.m) * nki::size_of(from.dtype));
        ones.write_bytes = narrow32(n * 4);
        ones.dst = {psum, 0, ones.m, 0, narrow32(n * 4), 1};
        ones.definition = mix(static_cast<std::uint64_t>(StreamOp::kBroadcastMatmul),
                              static_cast<std::uint64_t>(first));
        add_source(ones, source);
        emit(ones);
    }

    struct KeyHash {
        std::size_t operator()(const std::pair<nki::TensorId, std::int64_t>& key) const {
            return mix(static_cast<std::uint64_t>(key.first),
                       static_cast<std::uint64_t>(key.second));
        }
    };

    const nki::Program& program_;
    const Machine& machine_;
    const std::vector<char> fills_;  ///< implicit_fills()
    Stream stream_;
    std::vector<std::int32_t> first_block_;  ///< per tensor: into table_; -1: not there
    std::vector<std::int32_t> table_;        ///< tiles by tensor and block; -1: none yet
    std::unordered_map<std::pair<nki::TensorId, std::int64_t>, std::int32_t, KeyHash> tiles_;
    std::unordered_map<std::int64_t, std::int32_t> sites_;
    std::unordered_map<std::uint64_t, std::int32_t> broadcasts_;
    std::vector<std::int32_t> writers_;   ///< operations that write the tile
    std::vector<std::int32_t> versions_;  ///< instructions emitted so far that write the tile
    std::vector<std::int32_t> alias_;     ///< tile of a repeated broadcast -> the first one's
    std::pair<nki::TensorId, std::int64_t> last_key_{-1, -1};
    std::int32_t last_tile_ = -1;
    std::int32_t index_ = 0;  ///< of the operation being lowered
    std::int32_t identity_tile_ = -1;
    std::int32_t broadcast_site_ = -1;
};

}  // namespace

std::vector<char> implicit_fills(const nki::Program& program) {
    const auto key = [](const View& view) {
        return static_cast<std::uint64_t>(view.tensor) << 36 ^
               static_cast<std::uint64_t>(view.block);
    };
    // Backwards: whether the next operation that touches a tile of PSUM reads it.
    std::unordered_map<std::uint64_t, bool> read_next;
    const auto in_psum = [&](const View& view) {
        require(view.tensor >= 0 && static_cast<std::size_t>(view.tensor) < program.tensors.size(),
                "view of an unknown tensor");
        return program.tensors[view.tensor].buffer == nki::Buffer::kPsum;
    };
    const auto touch = [&](const View& view, bool read) {
        if (in_psum(view)) read_next[key(view)] = read;
    };
    std::vector<char> fills(program.operations.size(), 0);
    for (std::size_t i = program.operations.size(); i-- > 0;) {
        const Operation& op = program.operations[i];
        if (op.opcode == Opcode::kMemset && op.implicit) {
            const auto next = read_next.find(key(op.dst));
            const bool overwritten = next == read_next.end() || !next->second;
            fills[i] = prepares_next(program, static_cast<std::int32_t>(i)) ||
                       (in_psum(op.dst) && overwritten);
        }
        touch(op.dst, false);
        for (int s = 0; s < op.sources; ++s) touch(op.src[s], true);
        for (const auto* scalar : {&op.scale, &op.bias, &op.operand0, &op.operand1})
            if (scalar->vector) touch(scalar->view, true);
    }
    return fills;
}

bool prepares_next(const nki::Program& program, std::int32_t index) {
    const auto next = static_cast<std::size_t>(index) + 1;
    if (next >= program.operations.size()) return false;
    const Operation& fill = program.operations[index];
    if (fill.opcode != Opcode::kMemset || !fill.implicit) return false;
    const View& filled = fill.dst;
    const Operation& op = program.operations[next];
    return op.dst.tensor == filled.tensor && op.dst.block == filled.block && !op.accumulate &&
           op.opcode != Opcode::kMemset && op.line == program.operations[index].line;
}

Stream lower(const nki::Program& program, const Machine& machine) {
    return Lowering(program, machine).run();
}

}  // namespace accelopt::trainium
