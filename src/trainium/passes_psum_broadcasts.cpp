#include "trainium/passes.h"
#include "trainium/timing_costs.h"

namespace accelopt::trainium {
namespace {

using nki::Buffer;

/// Who writes and reads a tile; -1: nobody or several.
struct Users {
    std::int32_t writes = 0;
    std::int32_t reads = 0;
    std::int32_t writer = -1;
    std::int32_t reader = -1;
};

std::vector<Users> collect_users(const Stream& stream) {
    std::vector<Users> users(stream.tiles.size());
    for (std::size_t k = 0; k < stream.instructions.size(); ++k) {
        const Instruction& instruction = stream.instructions[k];
        for (int s = 0; s < instruction.sources; ++s) {
            Users& read = users[instruction.src[s].tile];
            read.reader = ++read.reads == 1 ? static_cast<std::int32_t>(k) : -1;
        }
        Users& written = users[instruction.dst.tile];
        written.writer = ++written.writes == 1 ? static_cast<std::int32_t>(k) : -1;
    }
    return users;
}

/// TensorE reads SBUF only, DMAs would have to, and GpSimd has no port to PSUM on Trainium 1.
bool can_read_psum(const Instruction& instruction) {
    const Unit unit = unit_of(instruction);
    return unit == Unit::kAct || unit == Unit::kDve;
}

}  // namespace

void read_broadcasts_from_psum(Stream& stream) {
    const std::vector<Users> users = collect_users(stream);
    std::vector<bool> dropped(stream.instructions.size(), false);
    bool any = false;
    for (std::size_t k = 0; k < stream.instructions.size(); ++k) {
        const Instruction& copy = stream.instructions[k];
        if (copy.op != StreamOp::kCopy || !copy.four_byte) continue;
        const Users& broadcast = users[copy.src[0].tile];
        if (broadcast.writer < 0 || broadcast.reads != 1) continue;
        if (stream.instructions[broadcast.writer].op != StreamOp::kBroadcastMatmul) continue;
        const Users& result = users[copy.dst.tile];
        // One chunk, which is one bank, and one use: longer lives would starve the matmuls.
        if (result.writes != 1 || result.reader < 0) continue;
        Tile& tile = stream.tiles[copy.dst.tile];
        if (!can_read_psum(stream.instructions[result.reader])) continue;
        if (tile.partition_bytes > stream.tiles[copy.src[0].tile].partition_bytes) continue;
        tile.buffer = Buffer::kPsum;
        stream.instructions[broadcast.writer].dst = copy.dst;
        dropped[k] = any = true;
    }
    if (!any) return;
    std::size_t kept = 0;
    for (std::size_t k = 0; k < stream.instructions.size(); ++k) {
        if (!dropped[k]) stream.instructions[kept++] = stream.instructions[k];
    }
    stream.instructions.resize(kept);
}

}  // namespace accelopt::trainium
