#include "trainium/timing_costs.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/error.h"

namespace accelopt::trainium {
namespace {

using nki::Engine;

Unit usual_unit(StreamOp op) {
    switch (op) {
        case StreamOp::kLoad:
        case StreamOp::kStore:
        case StreamOp::kDmaCopy:
        case StreamOp::kSpill:
        case StreamOp::kReload:
            return Unit::kDma;
        case StreamOp::kCopy:
        case StreamOp::kActivation:
        case StreamOp::kTensorScalar:
            return Unit::kAct;
        case StreamOp::kMemset:
        case StreamOp::kTensorTensor:
        case StreamOp::kReciprocal:
        case StreamOp::kReduce:
        case StreamOp::kScan:
            return Unit::kDve;
        case StreamOp::kIota:
            return Unit::kPool;
        case StreamOp::kTranspose:
        case StreamOp::kMatmul:
        case StreamOp::kBroadcastMatmul:
            return Unit::kPe;
    }
    throw Error(ErrorSource::kInternal, "stream_op", "instruction of an unknown kind");
}

bool reads_psum(const Instruction& instruction, const Stream& stream) {
    for (int s = 0; s < std::min<int>(2, instruction.sources); ++s) {
        if (stream.tiles[instruction.src[s].tile].buffer == nki::Buffer::kPsum) return true;
    }
    return false;
}

/// True when an operand is one run of elements in each partition.
bool is_contiguous(const Operand& operand, std::int32_t bytes) {
    return operand.byte_hi - operand.byte_lo == bytes;
}

/// Cycles per free element of copies and tensor_scalar on VectorE: NeuronCore-v3 has performance
/// modes by element size, memory and access pattern (docs arch, Vector Engine performance mode).
double vector_copy_factor(const Instruction& instruction, const Stream& stream,
                          const Machine& machine) {
    if (instruction.sources < 1) return 1.0;
    const bool from_sbuf = stream.tiles[instruction.src[0].tile].buffer == nki::Buffer::kSbuf;
    const bool to_sbuf = stream.tiles[instruction.dst.tile].buffer == nki::Buffer::kSbuf;
    const bool contiguous = is_contiguous(instruction.src[0], instruction.read_bytes) &&
                            is_contiguous(instruction.dst, instruction.write_bytes);
    const std::int64_t two_bytes = std::int64_t{2} * instruction.n;
    const bool two_byte =
        instruction.read_bytes == two_bytes && instruction.write_bytes == two_bytes;
    if (!two_byte) return from_sbuf && to_sbuf && contiguous ? machine.vector_copy_factor : 1.0;
    if (from_sbuf && to_sbuf) {
        return contiguous ? machine.vector_copy_two_byte_factor
                          : machine.vector_copy_two_byte_strided_factor;
    }
    return contiguous && (from_sbuf || to_sbuf) ? machine.vector_copy_two_byte_strided_factor : 1.0;
}

/// Cycles per free element on VectorE.
double vector_factor(const Instruction& instruction, const Stream& stream, const Machine& machine) {
    switch (instruction.op) {
        case StreamOp::kTensorTensor:
            if (reads_psum(instruction, stream)) return machine.tensor_tensor_psum_factor;
            return instruction.four_byte ? machine.tensor_tensor_sbuf_factor
                                         : machine.tensor_tensor_two_byte_factor;
        case StreamOp::kCopy:
        case StreamOp::kTensorScalar:
            return vector_copy_factor(instruction, stream, machine);
        case StreamOp::kReciprocal:
            return machine.reciprocal_factor;
        case StreamOp::kScan:
            return machine.scan_factor;
        default:
            return 1.0;
    }
}

double matmul_ns(const Instruction& instruction, const Machine& machine) {
    double passes = machine.tensor_bf16_passes;
    if (instruction.four_byte) {
        passes = instruction.op == StreamOp::kTranspose ? machine.tensor_fp32_transpose_passes
                                                        : machine.tensor_fp32_passes;
        if (instruction.onezero && instruction.op != StreamOp::kTranspose)
            passes = std::min(passes, machine.tensor_onezero_passes);
    }
    const double columns = std::max<double>(
        instruction.n, std::min<double>(machine.tensor_min_columns, instruction.m));
    return passes * (columns + machine.tensor_overhead_columns) / machine.tensor_ghz;
}

}  // namespace

Unit unit_of(const Instruction& instruction) {
    const Unit usual = usual_unit(instruction.op);
    if (usual == Unit::kDma || usual == Unit::kPe) return usual;
    switch (instruction.requested) {
        case Engine::kVector:
            return Unit::kDve;
        case Engine::kScalar:
            return Unit::kAct;
        case Engine::kGpSimd:
            return Unit::kPool;
        case Engine::kAuto:
        case Engine::kTensor:
        case Engine::kDma:
            return usual;
    }
    return usual;
}

bool is_tiny(const Instruction& instruction) {
    return !is_dma(instruction.op) && !is_matmul(instruction.op) && instruction.n < kTinyElements;
}

double engine_ns(const Instruction& instruction, const Stream& stream, const Machine& machine) {
    const double n = static_cast<double>(instruction.work) * instruction.n;
    const double share = instruction.vectorised ? 0 : 1;  // of the overhead
    switch (unit_of(instruction)) {
        case Unit::kPe:
            return matmul_ns(instruction, machine);
        case Unit::kAct:
            return (n + share * machine.scalar_overhead_cycles) / machine.scalar_ghz;
        case Unit::kDve:
            return (vector_factor(instruction, stream, machine) * n +
                    share * machine.vector_overhead_cycles) /
                   machine.vector_ghz;
        case Unit::kPool: {
            const double factor = instruction.op == StreamOp::kTensorTensor
                                      ? machine.gpsimd_tensor_tensor_factor
                                      : 1.0;
            return (factor * n + share * machine.gpsimd_overhead_cycles) / machine.gpsimd_ghz;
        }
        case Unit::kDma:
            break;
    }
    throw Error(ErrorSource::kInternal, "engine_ns", "a DMA has no engine time");
}

namespace {

/// A transpose by the DMA engines, which all work on it together.
std::optional<DmaCost> turned_cost(const Instruction& instruction, const Machine& machine) {
    const double share = instruction.turned_in_sbuf ? machine.dma_transpose_sbuf_share
                                                    : machine.dma_transpose_hbm_share;
    if (instruction.turned <= 0 || share <= 0) return std::nullopt;
    DmaCost cost;
    cost.queues = machine.dma_queues;
    const double bytes = static_cast<double>(instruction.bytes) * instruction.turned / cost.queues;
    cost.queue_ns =
        std::max(bytes / (machine.dma_queue_bytes_per_ns * share), machine.dma_transfer_min_ns);
    return cost;
}

}  // namespace

DmaCost dma_cost(const Instruction& instruction, const Machine& machine) {
    if (const auto turned = turned_cost(instruction, machine)) return *turned;
    const std::int64_t run = std::max<std::int64_t>(1, instruction.run_bytes);
    const std::int64_t row = std::max(run, instruction.row_bytes);
    const std::int64_t per_queue = machine.dma_rows_per_queue;
    const std::int64_t wanted = (std::int64_t{instruction.rows} + per_queue - 1) / per_queue;
    DmaCost cost;
    cost.queues = static_cast<int>(std::clamp<std::int64_t>(wanted, 1, machine.dma_queues));
    // Every queue moves its share of `pieces`.
    auto share = [&](std::int64_t piece) {
        const double pieces = std::max<double>(
            1, std::ceil(static_cast<double>(instruction.bytes) / static_cast<double>(piece)));
        return std::ceil(pieces / cost.queues);
    };
    cost.queue_ns = share(run) * (static_cast<double>(run) / machine.dma_queue_bytes_per_ns +
                                  machine.dma_descriptor_ns);
    cost.queue_ns = std::max(cost.queue_ns, machine.dma_transfer_min_ns);
    const double far_ns = share(row) * machine.dma_far_descriptor_ns;
    if (static_cast<double>(instruction.stride_bytes) >= machine.dma_far_stride_bytes &&
        far_ns > cost.queue_ns) {
        cost.queue_ns = far_ns;
        cost.far_stride = true;
    }
    return cost;
}

double BusyTimes::engines_ns() const {
    double sum = 0;
    for (int u = 0; u < kUnits; ++u) {
        if (static_cast<Unit>(u) != Unit::kDma) sum += unit_ns[u];
    }
    return sum;
}

BusyTimes busy_times(const Stream& stream, const Machine& machine) {
    BusyTimes busy;
    for (const Instruction& instruction : stream.instructions) {
        if (is_dma(instruction.op)) {
            const DmaCost cost = dma_cost(instruction, machine);
            const double ns = cost.queue_ns * cost.queues / machine.dma_queues;
            busy.unit_ns[static_cast<int>(Unit::kDma)] += ns;
            if (cost.far_stride) busy.dma_far_ns += ns;
            if (instruction.single_elements) busy.dma_single_element_ns += ns;
            continue;
        }
        const double ns = engine_ns(instruction, stream, machine);
        busy.unit_ns[static_cast<int>(unit_of(instruction))] += ns;
        if (is_tiny(instruction)) {
            Instruction alone = instruction;
            alone.vectorised = false;  // how far it is vectorised is what nobody knows
            busy.tiny_ns += engine_ns(alone, stream, machine);
        }
    }
    return busy;
}

}  // namespace accelopt::trainium
