#include <algorithm>
#include <cstddef>
#include <unordered_map>

#include "trainium/passes.h"
#include "trainium/timing_costs.h"

namespace accelopt::trainium {
namespace {

using nki::Buffer;

/// The last instruction of a statement, and the group that it ends.
struct Group {
    std::size_t last = 0;
    std::int32_t elements = 0;  ///< of the group
    std::int32_t members = 0;
    std::int32_t step[kMaxSources + 1] = {};  ///< bytes from member to member; dst last
    std::int32_t level = 0;
};

/// How far `next` lies behind `earlier` in the same or an equally allocated tile; false when the
/// two do not have one shape.
bool step_between(const Stream& stream, const Operand& earlier, const Operand& next,
                  std::int32_t& bytes) {
    const Tile& a = stream.tiles[earlier.tile];
    const Tile& b = stream.tiles[next.tile];
    if (earlier.tile != next.tile && (a.site != b.site || a.buffer != b.buffer)) return false;
    bytes = next.byte_lo - earlier.byte_lo;
    // Tiles of their own, one per iteration: the compiler keeps them side by side.
    if (earlier.tile != next.tile && bytes != 0) return false;
    return earlier.partition_lo == next.partition_lo && earlier.partition_hi == next.partition_hi &&
           earlier.byte_hi - earlier.byte_lo == next.byte_hi - next.byte_lo;
}

class Vectorising {
  public:
    Vectorising(Stream& stream, const Machine& machine)
        : stream_(stream), limit_(machine.vectorised_elements), level_(stream.tiles.size(), 0) {}

    void run() {
        for (std::size_t k = 0; k < stream_.instructions.size(); ++k) {
            Instruction& instruction = stream_.instructions[k];
            const std::int32_t level = level_of(instruction);
            if (is_tiny(instruction)) {
                join(k, instruction, level);
            } else {
                groups_.clear();  // loops of which every instruction is tiny, no others
            }
            std::int32_t& written = level_[instruction.dst.tile];
            written = std::max(written, level);
        }
    }

  private:
    /// One more than the deepest value that it reads: iterations that do not depend on each other
    /// have the same.
    std::int32_t level_of(const Instruction& instruction) const {
        std::int32_t level = instruction.accumulate ? level_[instruction.dst.tile] : 0;
        for (int s = 0; s < instruction.sources; ++s)
            level = std::max(level, level_[instruction.src[s].tile]);
        return level + 1;
    }

    void join(std::size_t k, Instruction& instruction, std::int32_t level) {
        std::uint64_t key = mix(instruction.definition, static_cast<std::uint64_t>(instruction.op));
        key = mix(key, static_cast<std::uint64_t>(instruction.line));
        key = mix(key, static_cast<std::uint64_t>(instruction.requested));
        Group& group = groups_[key];
        instruction.vectorised = group.members > 0 && extends(group, instruction, level);
        if (!instruction.vectorised) group = {};
        group.last = k;
        group.level = level;
        group.elements += instruction.n;
        ++group.members;
    }

    /// True, and the group's steps set, when the instruction does to the next elements what the
    /// last one of the group did to its own.
    bool extends(Group& group, const Instruction& next, std::int32_t level) const {
        const Instruction& last = stream_.instructions[group.last];
        if (level != group.level || next.n != last.n || next.sources != last.sources ||
            next.four_byte != last.four_byte || group.elements + next.n > limit_)
            return false;
        for (int s = 0; s <= next.sources; ++s) {
            const bool is_dst = s == next.sources;
            const Operand& from = is_dst ? last.dst : last.src[s];
            const Operand& to = is_dst ? next.dst : next.src[s];
            if (!is_dst && to.tile == next.dst.tile) return false;
            std::int32_t bytes = 0;
            if (!step_between(stream_, from, to, bytes)) return false;
            if (is_dst && to.tile == from.tile && to.overlaps(from)) return false;
            if (group.members > 1 && bytes != group.step[s]) return false;
            group.step[s] = bytes;
        }
        return true;
    }

    Stream& stream_;
    std::int32_t limit_;
    std::vector<std::int32_t> level_;  ///< by tile: of the deepest value in it
    std::unordered_map<std::uint64_t, Group> groups_;
};

}  // namespace

void vectorise_loops(Stream& stream, const Machine& machine) { Vectorising(stream, machine).run(); }

}  // namespace accelopt::trainium
