#include "trainium/passes.h"
#include "trainium/timing_costs.h"

namespace accelopt::trainium {
using nki::Buffer;

void move_temporaries_to_psum(Stream& stream, const Machine& machine) {
    const std::vector<TileUsers> users = collect_users(stream);
    auto is_temporary = [&](const Operand& operand) {
        const TileUsers& u = users[operand.tile];
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
