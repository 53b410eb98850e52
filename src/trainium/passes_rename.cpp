#include <algorithm>

#include "trainium/passes.h"

namespace accelopt::trainium {
namespace {

using nki::Buffer;

/// True when the instruction writes every byte of its box.
bool is_dense(const Instruction& instruction) {
    const Operand& dst = instruction.dst;
    const std::int64_t row = dst.byte_hi - dst.byte_lo;
    if (is_dma(instruction.op))
        return instruction.bytes == row * (dst.partition_hi - dst.partition_lo);
    return instruction.write_bytes == row;
}

/// What is known of a tile while its accesses go by.
struct Life {
    std::int32_t writes = 0;
    bool renames = true;     ///< every write begins a value of its own
    Operand value;           ///< the latest write
    bool dense = false;      ///< it wrote all of its box
    std::int32_t tile = -1;  ///< the name of the latest value
};

bool holds(const Life& life, const Operand& read) {
    if (life.writes == 0) return false;
    return life.value.access == read.access || (life.dense && life.value.covers(read));
}

}  // namespace

void rename_rewritten_tiles(Stream& stream) {
    std::vector<Life> lives(stream.tiles.size());
    for (std::size_t t = 0; t < lives.size(); ++t) {
        const Tile& tile = stream.tiles[t];
        lives[t].renames = tile.buffer == Buffer::kSbuf && !tile.placed;
    }
    for (const Instruction& instruction : stream.instructions) {
        for (int s = 0; s < instruction.sources; ++s) {
            Life& life = lives[instruction.src[s].tile];
            if (!holds(life, instruction.src[s])) life.renames = false;
            if (instruction.src[s].tile == instruction.dst.tile) life.renames = false;
        }
        Life& life = lives[instruction.dst.tile];
        if (instruction.accumulate || instruction.partial) life.renames = false;
        ++life.writes;
        life.value = instruction.dst;
        life.dense = is_dense(instruction);
    }
    const auto renames = [&](std::int32_t t) {
        return static_cast<std::size_t>(t) < lives.size() && lives[t].renames &&
               lives[t].writes > 1;
    };
    for (Instruction& instruction : stream.instructions) {
        for (int s = 0; s < instruction.sources; ++s) {
            Operand& source = instruction.src[s];
            if (renames(source.tile)) source.tile = lives[source.tile].tile;
        }
        Operand& dst = instruction.dst;
        if (!renames(dst.tile)) continue;
        Life& life = lives[dst.tile];
        if (life.tile < 0) {
            life.tile = dst.tile;  // the first value keeps the name
        } else {
            life.tile = static_cast<std::int32_t>(stream.tiles.size());
            stream.tiles.push_back(Tile(stream.tiles[dst.tile]));
        }
        dst.tile = life.tile;
    }
}

}  // namespace accelopt::trainium
