#include "trainium/passes.h"
#include "trainium/timing_costs.h"

namespace accelopt::trainium {
namespace {

using nki::Buffer;

/// TensorE reads SBUF only, DMAs would have to, and GpSimd has no port to PSUM on Trainium 1.
bool can_read_psum(const Instruction& instruction) {
    const Unit unit = unit_of(instruction);
    return unit == Unit::kAct || unit == Unit::kDve;
}

}  // namespace

void read_broadcasts_from_psum(Stream& stream) {
    const std::vector<TileUsers> users = collect_users(stream);
    std::vector<bool> keep(stream.instructions.size(), true);
    for (std::size_t k = 0; k < stream.instructions.size(); ++k) {
        const Instruction& copy = stream.instructions[k];
        if (copy.op != StreamOp::kCopy || !copy.four_byte) continue;
        const TileUsers& broadcast = users[copy.src[0].tile];
        if (broadcast.writer < 0 || broadcast.reads != 1) continue;
        if (stream.instructions[broadcast.writer].op != StreamOp::kBroadcastMatmul) continue;
        const TileUsers& result = users[copy.dst.tile];
        // One chunk, which is one bank, and one use: longer lives would starve the matmuls.
        if (result.writes != 1 || result.reader < 0) continue;
        Tile& tile = stream.tiles[copy.dst.tile];
        if (!can_read_psum(stream.instructions[result.reader])) continue;
        if (tile.partition_bytes > stream.tiles[copy.src[0].tile].partition_bytes) continue;
        tile.buffer = Buffer::kPsum;
        stream.instructions[broadcast.writer].dst = copy.dst;
        keep[k] = false;
    }
    keep_only(stream, keep);
}

}  // namespace accelopt::trainium
