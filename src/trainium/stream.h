#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "nki/program.h"
#include "trainium/machine.h"

namespace accelopt::trainium {

/// The functional units that execute instructions. DMA is 16 queues behind one face.
enum class Unit : std::uint8_t { kPe, kAct, kDve, kPool, kDma };
inline constexpr int kUnits = 5;
/// "PE", "ACT", "DVE", "Pool" or "DMA": the names that profiles use.
constexpr std::string_view unit_name(Unit unit) {
    constexpr std::string_view kNames[kUnits] = {"PE", "ACT", "DVE", "Pool", "DMA"};
    return kNames[static_cast<int>(unit)];
}

/// What an instruction of the stream is. Opcodes of the language that cost the same share a kind.
enum class StreamOp : std::uint8_t {
    kLoad,
    kStore,
    kDmaCopy,
    kSpill,   ///< written by the compiler: a tile to HBM
    kReload,  ///< and back
    kMemset,
    kIota,
    kCopy,
    kActivation,
    kTensorScalar,
    kTensorTensor,  ///< also scalar_tensor_tensor and select
    kReciprocal,
    kReduce,
    kScan,
    kTranspose,
    kMatmul,
    kBroadcastMatmul  ///< ones-matmul of a partition broadcast
};

/// True for instructions that the DMA queues run.
constexpr bool is_dma(StreamOp op) { return op <= StreamOp::kReload; }
/// True for instructions that the systolic array runs.
constexpr bool is_matmul(StreamOp op) { return op >= StreamOp::kTranspose; }

/// What one instruction touches of one tile: a box of partitions and per-partition bytes (the hull
/// of a strided access). For an HBM tensor the "partitions" are rows of its last dimension.
struct Operand {
    std::int32_t tile = -1;
    std::int32_t partition_lo = 0;
    std::int32_t partition_hi = 0;
    std::int32_t byte_lo = 0;
    std::int32_t byte_hi = 0;
    std::uint64_t access = 0;  ///< hash of offset, strides, counts and dtype: equal = same elements

    bool overlaps(const Operand& other) const {
        return tile == other.tile && byte_lo < other.byte_hi && other.byte_lo < byte_hi &&
               partition_lo < other.partition_hi && other.partition_lo < partition_hi;
    }
    bool covers(const Operand& other) const {
        return tile == other.tile && byte_lo <= other.byte_lo && other.byte_hi <= byte_hi &&
               partition_lo <= other.partition_lo && other.partition_hi <= partition_hi;
    }
};

inline constexpr int kMaxSources = 4;

/// One instruction, compact: no strings, no allocation.
struct Instruction {
    StreamOp op = StreamOp::kCopy;
    nki::Engine requested = nki::Engine::kAuto;  ///< as asked for in the source
    std::uint8_t sources = 0;
    bool accumulate = false;   ///< matmul into an open accumulation group: also reads dst
    bool clean = false;        ///< reload of elements that HBM held anyway: no spill
    bool unmergeable = false;  ///< kept, whatever else has the same value: made implicitly by
                               ///< nl.matmul, or lies where another tile will lie
    bool partial = false;      ///< may leave elements of its box as they are
    bool onezero = false;
    bool vectorised = false;       ///< continues the instruction before it: no overhead of its own
    bool single_elements = false;  ///< DMA: no two neighbours on one side are on the other
    bool four_byte = true;         ///< operands of four bytes (fp32: several passes)
    std::int32_t line = 0;
    std::int32_t operation = -1;  ///< what it performs: an index into Program::operations, of which
                                  ///< a broadcast performs `n` columns from `first_column`; -1:
                                  ///< the compiler's own (spills, reloads, loads of slices or of
                                  ///< the identity of nl.matmul)
    std::int32_t first_column = 0;
    std::int32_t k = 0;  ///< matmul: contraction rows, stationary and moving columns
    std::int32_t m = 0;
    std::int32_t n = 0;               ///< elementwise: active free elements per partition
    float work = 1;                   ///< elementwise: cycles per element, over the usual of its op
    std::int32_t read_bytes = 0;      ///< per partition, first operand
    std::int32_t write_bytes = 0;     ///< per partition, result
    std::int32_t rows = 0;            ///< DMA: partitions moved
    std::uint8_t source_element = 0;  ///< DMA that casts: bytes per element on either side; 0 of
    std::uint8_t target_element = 0;  ///< any other
    bool turned_in_sbuf = false;      ///< DMA transpose from SBUF, not from HBM
    float turned = 0;  ///< DMA transpose: its bytes in whole tiles of the engines, over its bytes
    std::int64_t bytes = 0;         ///< DMA: moved after masks, of the larger side
    std::int64_t run_bytes = 0;     ///< DMA: contiguous on both sides
    std::int64_t row_bytes = 0;     ///< DMA: contiguous in HBM, of one partition; >= run_bytes
    std::int64_t stride_bytes = 0;  ///< DMA: largest HBM stride between elements
    std::uint64_t definition = 0;  ///< hash of everything but the operands: opcode, immediates, ...
    Operand dst;
    std::array<Operand, kMaxSources> src;
};

/// What a DMA reads and writes, in bytes.
constexpr std::int64_t source_bytes(const Instruction& dma) {
    if (dma.source_element >= dma.target_element) return dma.bytes;
    return dma.bytes / dma.target_element * dma.source_element;
}
constexpr std::int64_t target_bytes(const Instruction& dma) {
    if (dma.target_element >= dma.source_element) return dma.bytes;
    return dma.bytes / dma.source_element * dma.target_element;
}

/// An HBM tensor, or one block of an on-chip tensor.
struct Tile {
    nki::Buffer buffer = nki::Buffer::kSbuf;
    bool read_only = false;            ///< HBM input or constant: loads of it may be merged
    bool placed = false;               ///< the kernel says where it lies: at
    std::int32_t partition = 0;        ///<   this partition and
    std::int32_t byte = 0;             ///<   this byte of each; PSUM: over all banks
    std::int32_t shares = -1;          ///< one tile of those placed that share bytes, for all of
                                       ///< them the same; -1: shares none (see share_places)
    bool rotates = true;               ///< allocation is limited to a few buffers of its site
    std::int32_t partition_bytes = 0;  ///< on-chip only
    std::int32_t partitions = 0;
    std::int32_t site = -1;      ///< dense index of the allocating source expression
    nki::TensorId tensor = -1;   ///< whose layout it has; -1: made by the compiler
    std::int32_t slice = -1;     ///< index into Stream::slices of a part that is loaded on its own
    std::int64_t hbm_bytes = 0;  ///< HBM only
};

/// A part of a tile that is loaded whenever it is needed, instead of the tile: what the first
/// `loads` loads of the tile bring into a box of it.
struct Slice {
    std::int32_t tile = -1;
    std::int32_t partition_lo = 0;
    std::int32_t byte_lo = 0;
    std::int32_t loads = 0;
};

/// The instruction stream of a kernel.
struct Stream {
    std::vector<Tile> tiles;
    std::vector<Instruction> instructions;
    std::int32_t sites = 0;
    std::vector<Slice> slices;
    /// Of the program: ranges of Instruction::operation. Empty once instructions were reordered.
    std::vector<nki::LoopIteration> iterations;
    /// The loads of tiles that are loaded slice by slice: (tile, operation), in program order.
    std::vector<std::pair<std::int32_t, std::int32_t>> sliced_loads;
};

/// Lowers a program to instructions as the compiler would before any optimisation: partition
/// broadcasts become ones-matmuls of at most one PSUM bank plus copies (once per source tile),
/// transposes of nl.matmul read an implicitly loaded identity, implicit PSUM zeros are nothing.
/// Masks shorten DMAs and elementwise work, not matmuls.
Stream lower(const nki::Program& program, const Machine& machine);

/// By operation, not 0 for a fill that the front end made and that costs no instruction: products
/// overwrite what PSUM held, and some operations fill what their mask leaves out. Zeros in PSUM
/// that are read before anything is accumulated into them do cost one.
std::vector<char> implicit_fills(const nki::Program& program);
/// True for a fill of the front end's that belongs to the operation after it.
bool prepares_next(const nki::Program& program, std::int32_t index);

/// Mixes `value` into `hash`: the combiner of access, definition and value-numbering hashes.
constexpr std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
    std::uint64_t x = hash ^ (value + 0x9e3779b97f4a7c15ULL + (hash << 6) + (hash >> 2));
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

}  // namespace accelopt::trainium
