#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "trainium/stream.h"

namespace accelopt::trainium {

/// Merges identical definitions (value numbering), which hoists loop-invariant work: loads of
/// read-only HBM, explicit transposes and copies whose sources have equal values. Arithmetic is
/// compared but never merged itself: what only fed merged copies dies in remove_dead_code.
/// Buffers that are rewritten, accumulated into or updated in place keep every instruction, and so
/// do implicit transposes of nl.matmul. An array whose merged tiles would hold more than
/// `hoist_partition_bytes` at once is left as written, with the producers that feed it.
void merge_values(Stream& stream, const Machine& machine);

/// Removes instructions whose result nothing reads.
void remove_dead_code(Stream& stream);

/// Re-loads arrays that are only ever loaded and whose tiles would hold more than
/// `resident_partition_bytes` at once: each use burst of a slice gets its own load.
void stream_large_loads(Stream& stream, const Machine& machine);

/// Moves temporaries of ScalarE, used once by a tensor_tensor whose other operand is in SBUF, to
/// PSUM (at most `psum_temporary_bytes` each, one per tensor_tensor): halves that instruction.
void move_temporaries_to_psum(Stream& stream, const Machine& machine);

/// Keeps SBUF within `resident_partition_bytes` by Belady's rule: evicts the tile whose next use
/// is farthest, spills it when its only copy is on chip, and re-loads it before that use.
void insert_spills(Stream& stream, const Machine& machine);

/// Applies all passes, in the order above.
void compile(Stream& stream, const Machine& machine);

/// Calls f(operand) for every operand of an instruction, sources first.
template <typename F>
void for_each_operand(const Instruction& instruction, F&& f) {
    for (int s = 0; s < instruction.sources; ++s) f(instruction.src[s]);
    f(instruction.dst);
}

/// Peak of the summed sizes of live tiles per site, in bytes per partition: a tile counts from its
/// first to its last instruction. `counts(tile)` says which tiles take part.
template <typename F>
std::vector<std::int64_t> peak_live_bytes(const Stream& stream, F&& counts) {
    const std::size_t tiles = stream.tiles.size();
    const auto length = static_cast<std::int64_t>(stream.instructions.size());
    std::vector<std::int64_t> last(tiles, -1);
    for (std::int64_t k = 0; k < length; ++k)
        for_each_operand(stream.instructions[k], [&](const Operand& o) { last[o.tile] = k; });
    std::vector<bool> live(tiles, false);
    std::vector<std::int64_t> current(stream.sites, 0);
    std::vector<std::int64_t> peak(stream.sites, 0);
    for (std::int64_t k = 0; k < length; ++k) {
        for_each_operand(stream.instructions[k], [&](const Operand& o) {
            const Tile& tile = stream.tiles[o.tile];
            if (live[o.tile] || !counts(o.tile)) return;
            live[o.tile] = true;
            current[tile.site] += tile.partition_bytes;
            peak[tile.site] = std::max(peak[tile.site], current[tile.site]);
        });
        for_each_operand(stream.instructions[k], [&](const Operand& o) {
            if (!live[o.tile] || last[o.tile] != k) return;
            live[o.tile] = false;
            current[stream.tiles[o.tile].site] -= stream.tiles[o.tile].partition_bytes;
        });
    }
    return peak;
}

}  // namespace accelopt::trainium
