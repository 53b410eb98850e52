#include "trainium/placed_tiles.h"

#include <algorithm>
#include <tuple>
#include <vector>

namespace accelopt::trainium {

void share_places(Stream& stream) {
    std::vector<std::int32_t> placed;
    for (std::size_t t = 0; t < stream.tiles.size(); ++t) {
        if (stream.tiles[t].placed) placed.push_back(static_cast<std::int32_t>(t));
    }
    if (placed.size() < 2) return;
    // Along the bytes of one memory: a tile belongs to those before it when it starts inside them.
    const auto key = [&](std::int32_t t) {
        const Tile& tile = stream.tiles[t];
        return std::tuple(tile.buffer, tile.byte, t);
    };
    std::sort(placed.begin(), placed.end(), [&](auto a, auto b) { return key(a) < key(b); });
    std::size_t first = 0;
    std::int64_t end = 0;
    for (std::size_t p = 0; p < placed.size(); ++p) {
        Tile& tile = stream.tiles[placed[p]];
        Tile& leader = stream.tiles[placed[first]];
        const std::int64_t tile_end = std::int64_t{tile.byte} + tile.partition_bytes;
        if (p > first && tile.buffer == leader.buffer && tile.byte < end) {
            leader.shares = tile.shares = placed[first];
            end = std::max(end, tile_end);
        } else {
            first = p;
            end = tile_end;
        }
    }
    for (Instruction& instruction : stream.instructions) {
        if (stream.tiles[instruction.dst.tile].shares >= 0) instruction.unmergeable = true;
    }
}

Mechanisms allowed_passes(const Stream& stream, Mechanisms mechanisms) {
    const bool allocates = std::any_of(stream.tiles.begin(), stream.tiles.end(),
                                       [](const Tile& tile) { return tile.placed; });
    if (!allocates) return mechanisms;
    for (const Mechanism pass :
         {Mechanism::kStreamLoads, Mechanism::kPsumBroadcasts, Mechanism::kPsumTemporaries,
          Mechanism::kFuseLoops, Mechanism::kSpills})
        mechanisms = mechanisms.without(pass);
    return mechanisms;
}

}  // namespace accelopt::trainium
