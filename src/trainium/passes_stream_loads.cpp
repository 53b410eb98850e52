#include <algorithm>
#include <unordered_map>

#include "trainium/passes.h"

namespace accelopt::trainium {
namespace {

using nki::Buffer;

std::vector<bool> load_only_tiles(const Stream& stream) {
    std::vector<bool> load_only(stream.tiles.size(), false);
    std::vector<bool> written(stream.tiles.size(), false);
    for (const Instruction& instruction : stream.instructions) {
        const std::int32_t t = instruction.dst.tile;
        if (stream.tiles[t].buffer != Buffer::kSbuf) continue;
        const bool load = instruction.op == StreamOp::kLoad && instruction.sources == 1 &&
                          stream.tiles[instruction.src[0].tile].read_only;
        load_only[t] = load && (load_only[t] || !written[t]);
        written[t] = true;
    }
    return load_only;
}

class Streaming {
  public:
    Streaming(Stream& stream, const Machine& machine, std::vector<bool> streamed)
        : stream_(stream),
          streamed_(std::move(streamed)),
          reuse_(static_cast<std::size_t>(machine.stream_reuse_instructions)),
          site_(stream.sites++) {}

    void run() {
        const std::vector<Instruction> original = std::move(stream_.instructions);
        loads_.resize(streamed_.size());
        rewrites_.assign(streamed_.size(), 0);
        stream_.instructions.clear();
        for (const Instruction& instruction : original) {
            if (is_streamed(instruction.dst.tile)) {
                add_load(instruction);
                continue;
            }
            Instruction copy = instruction;
            for (int s = 0; s < copy.sources; ++s) {
                if (is_streamed(copy.src[s].tile)) copy.src[s] = slice(copy.src[s]);
            }
            stream_.instructions.push_back(copy);
        }
        for (std::size_t t = 0; t < loads_.size(); ++t) {
            for (const Instruction& load : loads_[t])
                stream_.sliced_loads.emplace_back(static_cast<std::int32_t>(t), load.operation);
        }
    }

  private:
    bool is_streamed(std::int32_t tile) const {
        return static_cast<std::size_t>(tile) < streamed_.size() && streamed_[tile];
    }

    /// A load over elements that were loaded before ends the life of their slices.
    void add_load(const Instruction& load) {
        const std::int32_t t = load.dst.tile;
        std::vector<Instruction>& loads = loads_[t];
        const bool again = rewrites_[t] > 0 || loads.size() >= kMaxLoads ||
                           std::any_of(loads.begin(), loads.end(), [&](const Instruction& l) {
                               return l.dst.overlaps(load.dst);
                           });
        if (again) ++rewrites_[t];
        loads.push_back(load);
    }

    /// The operand that stands for a use of a streamed tile: a recent load of the same slice, or a
    /// new one.
    Operand slice(const Operand& use) {
        const std::uint64_t key = mix(static_cast<std::uint64_t>(use.tile), use.access);
        Recent& recent = recent_[key];
        const std::size_t now = stream_.instructions.size();
        if (recent.operand.tile < 0 || now - recent.last_use >= reuse_ ||
            recent.rewrites != rewrites_[use.tile]) {
            recent.operand = load(use);
            recent.rewrites = rewrites_[use.tile];
        }
        recent.last_use = stream_.instructions.size();
        return recent.operand;
    }

    Operand load(const Operand& use) {
        const std::vector<Instruction>& loads = loads_[use.tile];
        // The latest load of these elements; where several brought them, the first stands for all.
        const auto source = std::find_if(loads.rbegin(), loads.rend(),
                                         [&](const Instruction& l) { return l.dst.covers(use); });
        Instruction load = source == loads.rend() ? loads.front() : *source;
        load.operation = -1;
        const std::int32_t row_bytes = std::max(1, use.byte_hi - use.byte_lo);
        const std::int32_t rows = std::max(1, use.partition_hi - use.partition_lo);
        load.rows = rows;
        load.bytes = std::int64_t{rows} * row_bytes;
        const std::int64_t most = rows > 1 ? row_bytes : load.bytes;
        load.run_bytes = std::min(load.run_bytes, most);
        load.row_bytes = std::min(load.row_bytes, most);
        const auto tile = static_cast<std::int32_t>(stream_.tiles.size());
        stream_.tiles.push_back({.rotates = false,
                                 .partition_bytes = row_bytes,
                                 .partitions = rows,
                                 .site = site_,
                                 .tensor = stream_.tiles[use.tile].tensor,
                                 .slice = static_cast<std::int32_t>(stream_.slices.size())});
        stream_.slices.push_back(
            {use.tile, use.partition_lo, use.byte_lo, static_cast<std::int32_t>(loads.size())});
        load.dst = {tile, 0, rows, 0, row_bytes, use.access};
        stream_.instructions.push_back(load);
        return load.dst;
    }

    struct Recent {
        Operand operand;
        std::size_t last_use = 0;
        std::int32_t rewrites = 0;
    };

    /// Beyond so many loads of one tile every load counts as one over earlier ones.
    static constexpr std::size_t kMaxLoads = 256;

    Stream& stream_;
    std::vector<bool> streamed_;  ///< of the tiles that were there before
    std::size_t reuse_;
    std::int32_t site_;
    std::vector<std::vector<Instruction>> loads_;
    std::vector<std::int32_t> rewrites_;  ///< per tile: loads over elements loaded before
    std::unordered_map<std::uint64_t, Recent> recent_;
};

}  // namespace

void stream_large_loads(Stream& stream, const Machine& machine) {
    std::vector<bool> streamed = load_only_tiles(stream);
    const PeakLive peaks =
        peak_live_bytes(stream, [&](const Instruction&, const Operand& o) -> std::int32_t {
            return streamed[o.tile] ? o.tile : -1;
        });
    bool any = false;
    for (std::size_t t = 0; t < streamed.size(); ++t) {
        streamed[t] =
            streamed[t] && peaks.site[stream.tiles[t].site] > machine.streamed_partition_bytes;
        any = any || streamed[t];
    }
    if (any) Streaming(stream, machine, std::move(streamed)).run();
}

}  // namespace accelopt::trainium
