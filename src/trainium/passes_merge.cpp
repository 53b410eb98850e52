#include <algorithm>
#include <unordered_map>

#include "trainium/passes.h"

namespace accelopt::trainium {
namespace {

using nki::Buffer;

/// Beyond so many writes to one tile the tile is left alone: bounds the overlap test.
constexpr std::size_t kMaxWrites = 64;
/// Rounds of un-hoisting before merging is given up altogether.
constexpr int kMaxRounds = 8;

/// What the writes of a tile look like; decided once per stream.
struct TileFacts {
    std::int32_t writes = 0;
    bool rewritten = false;  ///< overlapping writes, accumulation or update in place
    bool mergeable = true;   ///< only loads of read-only HBM, explicit transposes and copies
};

bool is_merge_kind(const Stream& stream, const Instruction& instruction) {
    if (instruction.unmergeable) return false;
    switch (instruction.op) {
        case StreamOp::kLoad:
            return stream.tiles[instruction.src[0].tile].read_only;
        case StreamOp::kTranspose:
        case StreamOp::kCopy:
            return true;
        default:
            return false;
    }
}

std::vector<TileFacts> collect_facts(const Stream& stream) {
    std::vector<TileFacts> facts(stream.tiles.size());
    std::vector<std::vector<Operand>> boxes(stream.tiles.size());
    for (const Instruction& instruction : stream.instructions) {
        const Operand& dst = instruction.dst;
        if (stream.tiles[dst.tile].buffer == Buffer::kHbm) continue;
        TileFacts& f = facts[dst.tile];
        ++f.writes;
        f.mergeable = f.mergeable && is_merge_kind(stream, instruction);
        f.rewritten = f.rewritten || instruction.accumulate;
        for (int s = 0; s < instruction.sources; ++s)
            f.rewritten = f.rewritten || instruction.src[s].tile == dst.tile;
        if (f.rewritten) continue;
        auto& earlier = boxes[dst.tile];
        f.rewritten = earlier.size() >= kMaxWrites ||
                      std::any_of(earlier.begin(), earlier.end(),
                                  [&](const Operand& box) { return box.overlaps(dst); });
        earlier.push_back(dst);
    }
    return facts;
}

/// The canonical tile of every tile (itself unless merged).
struct Merging {
    std::vector<std::int32_t> canonical;
    std::vector<bool> absorbed;  ///< canonical tiles that stand for others
};

class Numbering {
  public:
    Numbering(const Stream& stream, const std::vector<TileFacts>& facts,
              const std::vector<bool>& banned)
        : stream_(stream), facts_(facts), banned_(banned) {}

    Merging run() {
        const std::size_t tiles = stream_.tiles.size();
        value_.resize(tiles);
        for (std::size_t t = 0; t < tiles; ++t) value_[t] = static_cast<std::int32_t>(t);
        definition_.assign(tiles, 0);
        seen_.assign(tiles, 0);
        Merging merging{value_, std::vector<bool>(tiles, false)};
        for (const Instruction& instruction : stream_.instructions) number(instruction, merging);
        return merging;
    }

  private:
    void number(const Instruction& instruction, Merging& merging) {
        const std::int32_t t = instruction.dst.tile;
        const Tile& tile = stream_.tiles[t];
        if (tile.buffer == Buffer::kHbm) return;
        definition_[t] = mix(definition_[t], signature(instruction));
        if (++seen_[t] < facts_[t].writes) return;
        if (facts_[t].rewritten || banned_[tile.site]) return;
        std::uint64_t key = mix(definition_[t], static_cast<std::uint64_t>(tile.buffer));
        key = mix(key, static_cast<std::uint64_t>(tile.partition_bytes));
        const auto [it, added] = values_.try_emplace(key, t);
        if (!added) value_[t] = it->second;
        std::int32_t same = added ? -1 : it->second;
        if (!facts_[t].mergeable) {  // arithmetic: only what a loop computes again
            const auto again = invariants_.try_emplace(mix(key, tile.site), t);
            same = again.second ? -1 : again.first->second;
        }
        if (same < 0) return;
        merging.canonical[t] = same;
        merging.absorbed[same] = true;
    }

    /// Equal signatures compute equal values; an instruction that must stay alone gets its own.
    std::uint64_t signature(const Instruction& instruction) {
        bool pure = !instruction.unmergeable && !instruction.accumulate;
        std::uint64_t hash =
            mix(instruction.definition, static_cast<std::uint64_t>(instruction.op));
        hash = mix(hash, instruction.dst.access);
        for (int s = 0; s < instruction.sources; ++s) {
            const Operand& source = instruction.src[s];
            const bool hbm = stream_.tiles[source.tile].buffer == Buffer::kHbm;
            if (hbm ? !stream_.tiles[source.tile].read_only : facts_[source.tile].rewritten)
                pure = false;
            hash = mix(hash, static_cast<std::uint64_t>(value_[source.tile]));
            hash = mix(hash, source.access);
        }
        return pure ? hash : mix(hash, ++unique_);
    }

    const Stream& stream_;
    const std::vector<TileFacts>& facts_;
    const std::vector<bool>& banned_;
    std::vector<std::int32_t> value_;        ///< first tile with the same complete definition
    std::vector<std::uint64_t> definition_;  ///< ordered hash of the writes so far
    std::vector<std::int32_t> seen_;
    std::unordered_map<std::uint64_t, std::int32_t> values_;
    std::unordered_map<std::uint64_t, std::int32_t> invariants_;  ///< the same, per site
    std::uint64_t unique_ = 0x5bd1e995'00000000ULL;
};

bool is_dropped(const Instruction& instruction, const Merging& merging) {
    return merging.canonical[instruction.dst.tile] != instruction.dst.tile;
}

void apply(Stream& stream, const Merging& merging) {
    std::erase_if(stream.instructions,
                  [&](const Instruction& instruction) { return is_dropped(instruction, merging); });
    for (Instruction& instruction : stream.instructions) {
        for (int s = 0; s < instruction.sources; ++s)
            instruction.src[s].tile = merging.canonical[instruction.src[s].tile];
    }
}

/// Bans the sites whose hoisted tiles do not fit, and the merged producers that feed them: an
/// array that is recomputed needs its sources again. Returns false when everything fits.
bool ban_oversized(const Stream& stream, const Merging& merging, std::int64_t capacity,
                   std::vector<bool>& banned) {
    const PeakLive peaks = peak_live_bytes(
        stream, [&](const Instruction& instruction, const Operand& o) -> std::int32_t {
            const std::int32_t tile = merging.canonical[o.tile];
            const bool counts = merging.absorbed[tile] && !is_dropped(instruction, merging) &&
                                stream.tiles[tile].buffer == Buffer::kSbuf;
            return counts ? tile : -1;
        });
    std::vector<bool> frontier(stream.sites, false);
    bool any = false;
    for (std::int32_t site = 0; site < stream.sites; ++site) {
        if (peaks.site[site] <= capacity || banned[site]) continue;
        frontier[site] = banned[site] = any = true;
    }
    for (bool grew = any; grew;) {
        grew = false;
        for (auto it = stream.instructions.rbegin(); it != stream.instructions.rend(); ++it) {
            const Tile& dst = stream.tiles[it->dst.tile];
            if (dst.buffer == Buffer::kHbm || !frontier[dst.site]) continue;
            for (int s = 0; s < it->sources; ++s) {
                const std::int32_t source = it->src[s].tile;
                const Tile& tile = stream.tiles[source];
                if (tile.buffer == Buffer::kHbm || banned[tile.site]) continue;
                if (merging.canonical[source] == source) continue;
                frontier[tile.site] = banned[tile.site] = grew = true;
            }
        }
    }
    return any;
}

}  // namespace

bool merge_values(Stream& stream, const Machine& machine, bool spilled) {
    const std::vector<TileFacts> facts = collect_facts(stream);
    std::vector<bool> banned(stream.sites, false);
    bool left_out = false;
    for (int round = 0; round < kMaxRounds; ++round) {
        const Merging merging = Numbering(stream, facts, banned).run();
        if (spilled || !ban_oversized(stream, merging, machine.hoist_partition_bytes, banned)) {
            apply(stream, merging);
            break;
        }
        left_out = true;
    }
    return left_out;
}

}  // namespace accelopt::trainium
