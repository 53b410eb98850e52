#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "trainium/mechanism.h"
#include "trainium/stream.h"

namespace accelopt::trainium {

/// Who writes and reads a tile; -1: nobody or several.
struct TileUsers {
    std::int32_t writes = 0;
    std::int32_t reads = 0;
    std::int32_t writer = -1;
    std::int32_t reader = -1;
};
std::vector<TileUsers> collect_users(const Stream& stream);

/// Removes the instructions whose place in `keep` is false.
void keep_only(Stream& stream, const std::vector<bool>& keep);

/// Merges identical definitions (value numbering), which hoists loop-invariant work: loads of
/// read-only HBM, explicit transposes and copies whose sources have equal values, and arithmetic
/// that a loop computes again at one place of the source. Other arithmetic is compared but not
/// merged itself: what only fed merged copies dies in remove_dead_code.
/// Buffers that are rewritten, accumulated into or updated in place keep every instruction, and so
/// do implicit transposes of nl.matmul. An array whose merged tiles would hold more than
/// `hoist_partition_bytes` at once is left as written, with the producers that feed it, unless
/// `spilled` says that it may be hoisted all the same. Returns whether something was left out.
bool merge_values(Stream& stream, const Machine& machine, bool spilled = false);

/// Removes instructions whose result nothing reads.
void remove_dead_code(Stream& stream);

/// Re-loads arrays that are only ever loaded and whose tiles would hold more than
/// `streamed_partition_bytes` at once: each use burst of a slice gets its own load.
void stream_large_loads(Stream& stream, const Machine& machine);

/// Gives every value of an SBUF tile that is written again and again a tile of its own, where each
/// write brings all that is read until the next: buffers rotate instead of waiting for their last
/// reader. Tiles that the kernel places itself keep their place.
void rename_rewritten_tiles(Stream& stream);

/// Takes the work from copies of the whole result of an activation, casts or not: ScalarE casts on
/// write, and the compiler lets it write the copy as well. What is left is an issue.
void fold_copies(Stream& stream);

/// Leaves a partition broadcast of at most one PSUM bank in PSUM when its only reader is an
/// instruction of VectorE or ScalarE: saves the copy, and VectorE's second SBUF read.
void read_broadcasts_from_psum(Stream& stream);

/// Moves temporaries of ScalarE, used once by a tensor_tensor whose other operand is in SBUF, to
/// PSUM (at most `psum_temporary_bytes` each, one per tensor_tensor): halves that instruction.
void move_temporaries_to_psum(Stream& stream, const Machine& machine);

/// Makes one vector instruction of what a loop does to a few elements at a time: where every
/// instruction of a loop is tiny, an instruction that does to the next elements (a constant step
/// away, or in a tile of its own) what the same statement did before, and that does not depend on
/// it, costs its elements only; at most `vectorised_elements` together.
void vectorise_loops(Stream& stream, const Machine& machine);

/// True when the tiles that are live at once exceed `resident_partition_bytes`.
bool overflows_sbuf(const Stream& stream, const Machine& machine);

/// Where SBUF overflows, fuses neighbouring loops of equal trip counts of which one reads what the
/// other keeps: iterations take turns, so that the tiles between them live for one iteration. Loops
/// inside the fused ones follow where they can. A pair is fused when no dependency turns round and
/// less is spilled than without. What stands between the two is moved before or after them.
void fuse_loops(Stream& stream, const Machine& machine);

/// Keeps SBUF within `resident_partition_bytes` by Belady's rule: evicts the tile whose next use
/// is farthest, spills it when its only copy is on chip, and re-loads it before that use. Tiles
/// that are not only loaded count as `spill_dirty_weight` times nearer.
void insert_spills(Stream& stream, const Machine& machine);

/// Applies the passes, in the order above, without those that are switched off or that a kernel
/// which allocates directly does not allow (allowed_passes).
void compile(Stream& stream, const Machine& machine, Mechanisms mechanisms = {});

/// Calls f(operand) for every operand of an instruction, sources first.
template <typename F>
void for_each_operand(const Instruction& instruction, F&& f) {
    for (int s = 0; s < instruction.sources; ++s) f(instruction.src[s]);
    f(instruction.dst);
}

/// Peak of the summed sizes of live tiles, in bytes per partition.
struct PeakLive {
    std::vector<std::int64_t> site;  ///< per allocation site
    std::int64_t total = 0;
};

/// Finds the peaks of a stream: a tile counts from its first to its last instruction.
/// `tile_of(instruction, operand)` says which tile an operand stands for, -1 for none that counts.
template <typename F>
PeakLive peak_live_bytes(const Stream& stream, F&& tile_of) {
    const std::size_t tiles = stream.tiles.size();
    const auto length = static_cast<std::int64_t>(stream.instructions.size());
    auto each = [&](std::int64_t k, auto&& f) {
        const Instruction& instruction = stream.instructions[k];
        for_each_operand(instruction, [&](const Operand& o) {
            if (const std::int32_t tile = tile_of(instruction, o); tile >= 0) f(tile);
        });
    };
    std::vector<std::int64_t> last(tiles, -1);
    for (std::int64_t k = 0; k < length; ++k) each(k, [&](std::int32_t t) { last[t] = k; });
    std::vector<bool> live(tiles, false);
    std::vector<std::int64_t> current(stream.sites, 0);
    std::int64_t total = 0;
    PeakLive peak;
    peak.site.assign(stream.sites, 0);
    for (std::int64_t k = 0; k < length; ++k) {
        each(k, [&](std::int32_t t) {
            const Tile& tile = stream.tiles[t];
            if (live[t]) return;
            live[t] = true;
            current[tile.site] += tile.partition_bytes;
            total += tile.partition_bytes;
            peak.site[tile.site] = std::max(peak.site[tile.site], current[tile.site]);
            peak.total = std::max(peak.total, total);
        });
        each(k, [&](std::int32_t t) {
            if (!live[t] || last[t] != k) return;
            live[t] = false;
            current[stream.tiles[t].site] -= stream.tiles[t].partition_bytes;
            total -= stream.tiles[t].partition_bytes;
        });
    }
    return peak;
}

}  // namespace accelopt::trainium
