#include "trainium/analysis_roofline.h"

#include <algorithm>

namespace accelopt::trainium {
namespace {

struct Work {
    double flops = 0;
    double ideal_s = 0;  ///< at the peak rate
};

bool is_work(StreamOp op) {
    switch (op) {
        case StreamOp::kActivation:
        case StreamOp::kTensorScalar:
        case StreamOp::kTensorTensor:
        case StreamOp::kReciprocal:
        case StreamOp::kReduce:
        case StreamOp::kScan:
            return true;
        case StreamOp::kLoad:
        case StreamOp::kStore:
        case StreamOp::kDmaCopy:
        case StreamOp::kSpill:
        case StreamOp::kReload:
        case StreamOp::kMemset:
        case StreamOp::kIota:
        case StreamOp::kCopy:
        case StreamOp::kTranspose:
        case StreamOp::kMatmul:
        case StreamOp::kBroadcastMatmul:
            return false;
    }
    return false;
}

void add(Work& work, double flops, double peak) {
    work.flops += flops;
    if (peak > 0) work.ideal_s += flops / peak;
}

double partitions_of(const Instruction& instruction) {
    const Operand& box = instruction.sources > 0 ? instruction.src[0] : instruction.dst;
    return std::max(1, box.partition_hi - box.partition_lo);
}

}  // namespace

std::optional<protocol::Roofline> roofline(const Stream& stream, double latency_ns,
                                           const Machine& machine) {
    Work products;
    Work elements;
    double bytes = 0;
    for (const Instruction& instruction : stream.instructions) {
        if (is_dma(instruction.op)) {
            const bool reads = stream.tiles[instruction.src[0].tile].buffer == nki::Buffer::kHbm;
            const bool writes = stream.tiles[instruction.dst.tile].buffer == nki::Buffer::kHbm;
            bytes += static_cast<double>((reads ? source_bytes(instruction) : 0) +
                                         (writes ? target_bytes(instruction) : 0));
        } else if (instruction.op == StreamOp::kMatmul) {
            add(products, 2.0 * instruction.k * instruction.m * instruction.n,
                instruction.four_byte ? machine.peak_matmul_flops : machine.tensor_peak_bf16_flops);
        } else if (is_work(instruction.op)) {
            add(elements, partitions_of(instruction) * instruction.n, machine.peak_vector_flops);
        }
    }
    const bool matmul = products.ideal_s >= elements.ideal_s;
    const Work& work = matmul ? products : elements;
    if (work.flops <= 0 || work.ideal_s <= 0 || latency_ns <= 0) return std::nullopt;
    protocol::Roofline result;
    result.operations = matmul ? "matmul" : "elementwise";
    result.flops = work.flops;
    result.bytes = bytes;
    result.peak_flops = work.flops / work.ideal_s;
    result.ridge_intensity = result.peak_flops / machine.peak_hbm_bytes_per_s;
    result.attainable_flops = result.peak_flops;
    if (bytes > 0) {
        result.arithmetic_intensity = work.flops / bytes;
        result.attainable_flops = std::min(
            result.peak_flops, *result.arithmetic_intensity * machine.peak_hbm_bytes_per_s);
    }
    result.achieved_flops = work.flops / (latency_ns * 1e-9);
    result.roof = result.attainable_flops < result.peak_flops ? "memory" : "compute";
    return result;
}

}  // namespace accelopt::trainium
