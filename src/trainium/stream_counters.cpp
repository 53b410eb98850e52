#include "trainium/stream_counters.h"

namespace accelopt::trainium {
namespace {

using nki::Buffer;

void add_read(Counters& counters, Buffer buffer, std::int64_t bytes) {
    if (buffer == Buffer::kPsum) counters.psum_read_bytes += bytes;
    if (buffer == Buffer::kSbuf) counters.sbuf_read_bytes += bytes;
}

void add_write(Counters& counters, Buffer buffer, std::int64_t bytes) {
    if (buffer == Buffer::kPsum) counters.psum_write_bytes += bytes;
    if (buffer == Buffer::kSbuf) counters.sbuf_write_bytes += bytes;
}

/// R1, R6: a DMA counts its full bytes on both sides, each in its own dtype.
void count_dma(const Stream& stream, const Instruction& instruction, Counters& counters) {
    const Buffer from = stream.tiles[instruction.src[0].tile].buffer;
    const Buffer to = stream.tiles[instruction.dst.tile].buffer;
    if (instruction.op == StreamOp::kReload) {
        if (!instruction.clean) counters.spill_reload_bytes += instruction.bytes;
        counters.hbm_read_bytes += instruction.bytes;
        counters.sbuf_write_bytes += instruction.bytes;
        return;
    }
    if (instruction.op == StreamOp::kSpill) {
        counters.spill_save_bytes += instruction.bytes;
        counters.hbm_write_bytes += instruction.bytes;
        counters.sbuf_read_bytes += instruction.bytes;
        return;
    }
    if (from == Buffer::kHbm) counters.hbm_read_bytes += source_bytes(instruction);
    if (to == Buffer::kHbm) counters.hbm_write_bytes += target_bytes(instruction);
    add_read(counters, from, source_bytes(instruction));
    add_write(counters, to, target_bytes(instruction));
}

/// R2, R3, R6: fp32 products count twice, in flops and in bytes; products with a zero-one operand
/// (the ones-matmul of a broadcast) once. Masks do not shrink them.
void count_matmul(const Stream& stream, const Instruction& instruction, Counters& counters) {
    const bool transpose = instruction.op == StreamOp::kTranspose;
    const std::int64_t times = instruction.four_byte && (transpose || !instruction.onezero) ? 2 : 1;
    const std::int64_t flops =
        2 * times * instruction.k * std::int64_t{instruction.m} * instruction.n;
    counters.hardware_flops += flops;
    if (transpose) counters.transpose_flops += flops;
    add_write(counters, stream.tiles[instruction.dst.tile].buffer, times * instruction.write_bytes);
    add_read(counters, Buffer::kSbuf, times * instruction.read_bytes);
}

}  // namespace

double Counters::mm_arithmetic_intensity() const {
    const auto bytes = static_cast<double>(hbm_read_bytes + hbm_write_bytes);
    return bytes > 0 ? static_cast<double>(hardware_flops - transpose_flops) / bytes : 0.0;
}

Counters count(const Stream& stream) {
    Counters counters;
    for (const Instruction& instruction : stream.instructions) {
        switch (instruction.op) {
            case StreamOp::kLoad:
            case StreamOp::kStore:
            case StreamOp::kDmaCopy:
            case StreamOp::kSpill:
            case StreamOp::kReload:
                count_dma(stream, instruction, counters);
                break;
            case StreamOp::kCopy:
            case StreamOp::kActivation:
            case StreamOp::kTensorScalar:
            case StreamOp::kReciprocal:
            case StreamOp::kReduce:
                add_read(counters, stream.tiles[instruction.src[0].tile].buffer,
                         instruction.read_bytes);
                add_write(counters, stream.tiles[instruction.dst.tile].buffer,
                          instruction.write_bytes);
                break;
            case StreamOp::kMemset:
            case StreamOp::kIota:
            case StreamOp::kTensorTensor:
            case StreamOp::kScan:
                break;  // R6: not counted by the profiler
            case StreamOp::kTranspose:
            case StreamOp::kMatmul:
            case StreamOp::kBroadcastMatmul:
                count_matmul(stream, instruction, counters);
                break;
        }
    }
    return counters;
}

}  // namespace accelopt::trainium
