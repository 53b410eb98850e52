#include <algorithm>
#include <limits>
#include <queue>

#include "trainium/passes.h"

namespace accelopt::trainium {
namespace {

using nki::Buffer;

class Residency {
  public:
    Residency(Stream& stream, const Machine& machine)
        : stream_(stream),
          capacity_(machine.resident_partition_bytes),
          dirty_weight_(machine.spill_dirty_weight) {}

    void run() {
        const std::vector<Instruction> original = std::move(stream_.instructions);
        collect(original);
        stream_.instructions.clear();
        stream_.instructions.reserve(original.size());
        std::vector<std::int32_t> needed;
        for (std::size_t k = 0; k < original.size(); ++k) {
            needed.clear();
            now_ = k;
            for_each_operand(original[k], [&](const Operand& o) {
                if (in_sbuf(o.tile) &&
                    std::find(needed.begin(), needed.end(), o.tile) == needed.end())
                    needed.push_back(o.tile);
            });
            for (std::int32_t t : needed) bring_in(t, needed);
            stream_.instructions.push_back(original[k]);
            if (in_sbuf(original[k].dst.tile)) {
                State& state = states_[original[k].dst.tile];
                state.defined = true;
                state.in_hbm = false;
            }
            for (std::int32_t t : needed) advance(t, k);
        }
    }

  private:
    using Candidate = std::pair<std::size_t, std::int32_t>;  ///< next use, tile
    using Queue = std::priority_queue<Candidate>;            ///< used farthest ahead first

    static constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();

    struct State {
        std::size_t first = 0;  ///< into uses_
        std::size_t end = 0;
        std::size_t next = 0;  ///< next use not yet passed
        std::int32_t hbm_tile = -1;
        bool load_only = true;
        bool resident = false;
        bool defined = false;
        bool in_hbm = false;  ///< an up-to-date copy was spilled
    };

    bool in_sbuf(std::int32_t tile) const { return stream_.tiles[tile].buffer == Buffer::kSbuf; }
    Queue& queue_of(std::int32_t tile) { return states_[tile].load_only ? clean_ : dirty_; }
    std::int64_t size(std::int32_t tile) const { return stream_.tiles[tile].partition_bytes; }

    /// Lists the instructions that use each tile (once each), as one array cut by tile.
    void collect(const std::vector<Instruction>& original) {
        states_.resize(stream_.tiles.size());
        std::vector<std::size_t> count(stream_.tiles.size() + 1, 0);
        std::vector<std::size_t> seen(stream_.tiles.size(), kNever);
        auto each_use = [&](auto&& f) {
            std::fill(seen.begin(), seen.end(), kNever);
            for (std::size_t k = 0; k < original.size(); ++k) {
                for_each_operand(original[k], [&](const Operand& o) {
                    if (!in_sbuf(o.tile) || seen[o.tile] == k) return;
                    seen[o.tile] = k;
                    f(o.tile, k);
                });
            }
        };
        each_use([&](std::int32_t t, std::size_t) { ++count[t + 1]; });
        for (std::size_t t = 0; t + 1 < count.size(); ++t) count[t + 1] += count[t];
        uses_.resize(count.back());
        for (std::size_t t = 0; t < states_.size(); ++t)
            states_[t].first = states_[t].end = states_[t].next = count[t];
        each_use([&](std::int32_t t, std::size_t k) { uses_[states_[t].end++] = k; });
        for (const Instruction& instruction : original) {
            const bool clean = instruction.op == StreamOp::kLoad && instruction.sources == 1 &&
                               stream_.tiles[instruction.src[0].tile].read_only;
            State& state = states_[instruction.dst.tile];
            state.load_only = state.load_only && clean;
        }
    }

    std::size_t next_use(std::int32_t t) const {
        const State& state = states_[t];
        return state.next < state.end ? uses_[state.next] : kNever;
    }

    void bring_in(std::int32_t t, const std::vector<std::int32_t>& needed) {
        if (states_[t].resident) return;
        while (resident_bytes_ + size(t) > capacity_ && evict(needed)) {
        }
        states_[t].resident = true;
        resident_bytes_ += size(t);
        if (states_[t].defined) transfer(StreamOp::kReload, t);
    }

    /// Evicts the resident tile that is worth least: used farthest ahead, where a tile that HBM
    /// does not hold anyway counts as `dirty_weight_` times nearer. False when nothing can be
    /// evicted (the instruction's own tiles then exceed the capacity, which the allocator
    /// tolerates).
    bool evict(const std::vector<std::int32_t>& needed) {
        std::vector<Candidate> kept;
        const double clean = ahead(clean_, needed, kept);
        const double dirty = ahead(dirty_, needed, kept) / dirty_weight_;
        const bool found = clean >= 0 || dirty >= 0;
        std::int32_t t = -1;
        if (found) {
            Queue& queue = clean >= dirty ? clean_ : dirty_;
            t = queue.top().second;
            queue.pop();
        }
        for (const Candidate& candidate : kept) queue_of(candidate.second).push(candidate);
        if (!found) return false;
        states_[t].resident = false;
        resident_bytes_ -= size(t);
        if (!states_[t].load_only && !states_[t].in_hbm) {
            transfer(StreamOp::kSpill, t);
            states_[t].in_hbm = true;
        }
        return true;
    }

    /// How far ahead the next use of the queue's top is, after dropping what is out of date and
    /// setting aside what is needed now; -1 when nothing is left.
    double ahead(Queue& queue, const std::vector<std::int32_t>& needed,
                 std::vector<Candidate>& kept) const {
        for (; !queue.empty(); queue.pop()) {
            const auto [use, t] = queue.top();
            if (!states_[t].resident || next_use(t) != use) continue;
            if (std::find(needed.begin(), needed.end(), t) == needed.end())
                return static_cast<double>(use - now_);
            kept.push_back(queue.top());
        }
        return -1;
    }

    void transfer(StreamOp op, std::int32_t t) {
        State& state = states_[t];
        if (state.hbm_tile < 0) {
            state.hbm_tile = static_cast<std::int32_t>(stream_.tiles.size());
            stream_.tiles.push_back({.buffer = Buffer::kHbm, .site = stream_.sites++});
        }
        const Tile& tile = stream_.tiles[t];
        const Operand whole{t, 0, tile.partitions, 0, tile.partition_bytes, 0};
        const Operand copy{state.hbm_tile, 0, tile.partitions, 0, tile.partition_bytes, 0};
        Instruction instruction;
        instruction.op = op;
        instruction.clean = state.load_only;
        instruction.rows = std::max(1, tile.partitions);
        instruction.bytes = std::int64_t{tile.partition_bytes} * instruction.rows;
        instruction.run_bytes = instruction.row_bytes = instruction.stride_bytes =
            std::max(1, tile.partition_bytes);
        instruction.sources = 1;
        instruction.src[0] = op == StreamOp::kSpill ? whole : copy;
        instruction.dst = op == StreamOp::kSpill ? copy : whole;
        stream_.instructions.push_back(instruction);
    }

    void advance(std::int32_t t, std::size_t k) {
        State& state = states_[t];
        while (state.next < state.end && uses_[state.next] <= k) ++state.next;
        if (!state.resident) return;
        if (state.next == state.end) {
            state.resident = false;
            resident_bytes_ -= size(t);
        } else {
            queue_of(t).emplace(uses_[state.next], t);
        }
    }

    Stream& stream_;
    std::int64_t capacity_;
    double dirty_weight_;
    std::vector<State> states_;
    std::vector<std::size_t> uses_;
    Queue clean_;  ///< tiles that are only loaded
    Queue dirty_;
    std::size_t now_ = 0;
    std::int64_t resident_bytes_ = 0;
};

}  // namespace

bool overflows_sbuf(const Stream& stream, const Machine& machine) {
    const PeakLive peak =
        peak_live_bytes(stream, [&](const Instruction&, const Operand& o) -> std::int32_t {
            return stream.tiles[o.tile].buffer == Buffer::kSbuf ? o.tile : -1;
        });
    return peak.total > machine.resident_partition_bytes;
}

void insert_spills(Stream& stream, const Machine& machine) {
    if (overflows_sbuf(stream, machine)) Residency(stream, machine).run();
}

}  // namespace accelopt::trainium
