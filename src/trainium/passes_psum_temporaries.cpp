#include "trainium/passes.h"
#include "trainium/timing_costs.h"

namespace accelopt::trainium {
namespace {

using nki::Buffer;

/// A tile's uses and its only writer (-1: none or several).
struct Uses {
    std::int32_t reads = 0;
    std::int32_t writes = 0;
    std::int32_t writer = -1;
};

std::vector<Uses> collect_uses(const Stream& stream) {
    std::vector<Uses> uses(stream.tiles.size());
    for (std::size_t k = 0; k < stream.instructions.size(); ++k) {
        const Instruction& instruction = stream.instructions[k];
        for (int s = 0; s < instruction.sources; ++s) ++uses[instruction.src[s].tile].reads;
        Uses& written = uses[instruction.dst.tile];
        written.writer = ++written.writes == 1 ? static_cast<std::int32_t>(k) : -1;
    }
    return uses;
}

}  // namespace

void move_temporaries_to_psum(Stream& stream, const Machine& machine) {
    const std::vector<Uses> uses = collect_uses(stream);
    auto is_temporary = [&](const Operand& operand) {
        const Uses& u = uses[operand.tile];
        if (u.reads != 1 || u.writer < 0) return false;
        const Instruction& writer = stream.instructions[u.writer];
        const bool kind =
            writer.op == StreamOp::kTensorScalar || writer.op == StreamOp::kActivation;
        return kind && unit_of(writer) == Unit::kAct && writer.four_byte &&
               stream.tiles[operand.tile].partition_bytes <= machine.psum_temporary_bytes;
    };
    for (const Instruction& instruction : stream.instructions) {
        if (instruction.op != StreamOp::kTensorTensor || instruction.sources < 2) continue;
        // GpSimd has no port to PSUM on Trainium 1.
        if (unit_of(instruction) != Unit::kDve) continue;
        if (instruction.n < machine.psum_temporary_min_elements || !instruction.four_byte) continue;
        const Operand& a = instruction.src[0];
        const Operand& b = instruction.src[1];
        // Both still in SBUF: also the guard against a second operand once one has moved.
        if (stream.tiles[a.tile].buffer != Buffer::kSbuf ||
            stream.tiles[b.tile].buffer != Buffer::kSbuf || a.tile == b.tile)
            continue;
        if (is_temporary(a)) {
            stream.tiles[a.tile].buffer = Buffer::kPsum;
        } else if (is_temporary(b)) {
            stream.tiles[b.tile].buffer = Buffer::kPsum;
        }
    }
}

}  // namespace accelopt::trainium
