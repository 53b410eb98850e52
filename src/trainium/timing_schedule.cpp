#include "trainium/timing_schedule.h"

#include <algorithm>

#include "trainium/passes.h"
#include "trainium/placed_tiles.h"

namespace accelopt::trainium {
namespace {

using nki::Buffer;

using Edge = std::pair<std::int32_t, std::int32_t>;

Adjacency to_adjacency(const std::vector<Edge>& edges, std::int32_t nodes) {
    Adjacency result;
    result.first.assign(static_cast<std::size_t>(nodes) + 1, 0);
    for (const auto& [from, to] : edges) ++result.first[from + 1];
    for (std::int32_t n = 0; n < nodes; ++n) result.first[n + 1] += result.first[n];
    std::vector<std::int32_t> cursor(result.first.begin(), result.first.end() - 1);
    result.items.resize(edges.size());
    for (const auto& [from, to] : edges) result.items[cursor[from]++] = to;
    return result;
}

class Builder {
  public:
    Builder(const Stream& stream, const Machine& machine) : stream_(stream), machine_(machine) {}

    Schedule run() {
        const std::size_t tiles = stream_.tiles.size();
        accesses_.resize(tiles);
        live_.assign(tiles, -1);
        schedule_.instructions = static_cast<std::int32_t>(stream_.instructions.size());
        nodes_ = schedule_.instructions;
        find_tracked();
        for (std::int32_t k = 0; k < schedule_.instructions; ++k) {
            depend(k);
            allocate(k);
        }
        schedule_.nodes = nodes_;
        schedule_.pending.assign(nodes_, 0);
        for (const auto* edges : {&after_result_, &after_issue_, &after_allocation_})
            for (const auto& [from, to] : *edges) ++schedule_.pending[to];
        schedule_.after_result = to_adjacency(after_result_, nodes_);
        schedule_.after_issue = to_adjacency(after_issue_, nodes_);
        schedule_.after_allocation = to_adjacency(
            after_allocation_, static_cast<std::int32_t>(schedule_.allocations.size()));
        schedule_.uses = to_adjacency(uses_, nodes_);
        limit_sites();
        return std::move(schedule_);
    }

  private:
    struct Access {
        Operand box;
        std::int32_t node = -1;
        bool product = false;  ///< written by the systolic array
    };
    struct TileAccesses {
        std::vector<Access> writes;  ///< still visible
        std::vector<Access> reads;   ///< since the last covering write
        std::int32_t last_write = -1;
        bool tracked = true;
    };

    /// HBM tensors matter only when the kernel reads back what it wrote, or writes an element
    /// twice: then it stores more bytes than the tensor has. (One that stores fewer and leaves
    /// others out is wrong anyway.)
    void find_tracked() {
        std::vector<bool> read(accesses_.size(), false);
        std::vector<std::int64_t> written_bytes(accesses_.size(), 0);
        for (std::int32_t k = 0; k < schedule_.instructions; ++k) {
            const Instruction& instruction = stream_.instructions[k];
            for (int s = 0; s < instruction.sources; ++s) read[instruction.src[s].tile] = true;
            accesses_[physical(stream_, instruction.dst).tile].last_write = k;
            written_bytes[instruction.dst.tile] += target_bytes(instruction);
        }
        for (std::size_t t = 0; t < accesses_.size(); ++t) {
            if (stream_.tiles[t].buffer != Buffer::kHbm) continue;
            const bool twice = written_bytes[t] > stream_.tiles[t].hbm_bytes;
            accesses_[t].tracked = (read[t] || twice) && accesses_[t].last_write >= 0;
        }
    }

    void depend(std::int32_t k) {
        const Instruction& instruction = stream_.instructions[k];
        for (int s = 0; s < instruction.sources; ++s) {
            const Operand source = physical(stream_, instruction.src[s]);
            TileAccesses& tile = accesses_[source.tile];
            if (tile.tracked) read(k, source, tile);
        }
        const Operand dst = physical(stream_, instruction.dst);
        TileAccesses& tile = accesses_[dst.tile];
        if (tile.tracked) write(k, instruction, dst, tile);
    }

    void read(std::int32_t k, const Operand& source, TileAccesses& tile) {
        for (const Access& w : tile.writes) {
            if (w.box.overlaps(source)) after_result_.emplace_back(w.node, k);
        }
        if (k > tile.last_write) return;  // nothing will ever wait for this read
        join_when_long(tile.reads, source.tile);
        tile.reads.push_back({source, k, false});
    }

    void write(std::int32_t k, const Instruction& instruction, const Operand& dst,
               TileAccesses& tile) {
        const bool accumulating = is_matmul(instruction.op) && instruction.accumulate;
        wait_and_prune(tile.writes, dst, k, [&](const Access& earlier) {
            // The array adds to an open PSUM group without waiting for the previous product.
            return accumulating && earlier.product;
        });
        wait_and_prune(tile.reads, dst, k, [](const Access&) { return false; });
        join_when_long(tile.writes, dst.tile);
        tile.writes.push_back({dst, k, is_matmul(instruction.op)});
    }

    /// Makes node k wait for the overlapping accesses, and forgets those it covers.
    template <typename F>
    void wait_and_prune(std::vector<Access>& list, const Operand& dst, std::int32_t k, F&& early) {
        std::size_t kept = 0;
        for (std::size_t a = 0; a < list.size(); ++a) {
            const bool overlap = list[a].box.overlaps(dst);
            if (overlap && list[a].node != k)
                (early(list[a]) ? after_issue_ : after_result_).emplace_back(list[a].node, k);
            if (!overlap || !dst.covers(list[a].box)) list[kept++] = list[a];
        }
        list.resize(kept);
    }

    void join_when_long(std::vector<Access>& list, std::int32_t tile) {
        if (list.size() < Schedule::kMaxAccesses) return;
        const std::int32_t join = nodes_++;
        Access all{list.front().box, join, false};
        all.box.tile = tile;
        for (const Access& access : list) {
            after_result_.emplace_back(access.node, join);
            all.box.partition_lo = std::min(all.box.partition_lo, access.box.partition_lo);
            all.box.partition_hi = std::max(all.box.partition_hi, access.box.partition_hi);
            all.box.byte_lo = std::min(all.box.byte_lo, access.box.byte_lo);
            all.box.byte_hi = std::max(all.box.byte_hi, access.box.byte_hi);
        }
        list.assign(1, all);
    }

    void allocate(std::int32_t k) {
        const Instruction& instruction = stream_.instructions[k];
        if (instruction.op == StreamOp::kReload) live_[instruction.dst.tile] = -1;
        for_each_operand(instruction, [&](const Operand& o) {
            touch(o, k, instruction.op == StreamOp::kReload);
        });
        if (instruction.op == StreamOp::kSpill) live_[instruction.src[0].tile] = -1;
    }

    void touch(const Operand& operand, std::int32_t k, bool reload) {
        const std::int32_t t = operand.tile;
        const Tile& tile = stream_.tiles[t];
        if (tile.buffer == Buffer::kHbm) return;
        if (live_[t] < 0) {
            live_[t] = static_cast<std::int32_t>(schedule_.allocations.size());
            Allocation fresh;
            fresh.psum = tile.buffer == Buffer::kPsum;
            fresh.tile = t;
            const std::int64_t bank = machine_.psum_bank_bytes;
            fresh.occupied =
                fresh.psum ? std::max<std::int64_t>(1, (tile.partition_bytes + bank - 1) / bank)
                           : tile.partition_bytes;
            fresh.size = tile.placed ? 0 : fresh.occupied;
            const bool rotates = tile.rotates && !tile.placed && !reload && !fresh.psum;
            fresh.site = rotates ? tile.site : -1;
            fresh.first_user = k;
            fresh.last_user = -1;
            schedule_.allocations.push_back(fresh);
        }
        Allocation& allocation = schedule_.allocations[live_[t]];
        if (allocation.last_user == k) return;
        // The first user gets the memory. Who depends on it comes later anyway; a user of another
        // part of the tile must wait for the memory alone.
        const Instruction& first = stream_.instructions[allocation.first_user];
        if (k != allocation.first_user && !first.dst.overlaps(operand))
            after_allocation_.emplace_back(live_[t], k);
        allocation.last_user = k;
        ++allocation.users;
        uses_.emplace_back(k, live_[t]);
    }

    /// Rotation: sites that DMAs touch hold the program-order peak plus a few buffers.
    void limit_sites() {
        const auto sites = static_cast<std::size_t>(stream_.sites);
        std::vector<bool> dma(sites, false);
        for (const auto& [k, a] : uses_) {
            const std::int32_t site = schedule_.allocations[a].site;
            if (site >= 0 && is_dma(stream_.instructions[k].op)) dma[site] = true;
        }
        std::vector<std::int32_t> live(sites, 0);
        std::vector<std::int32_t> peak(sites, 0);
        std::vector<std::int32_t> order(schedule_.allocations.size());
        for (std::size_t a = 0; a < order.size(); ++a) order[a] = static_cast<std::int32_t>(a);
        std::sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
            return schedule_.allocations[a].last_user < schedule_.allocations[b].last_user;
        });
        std::size_t ended = 0;  // into `order`: tiles whose last use is past
        for (const Allocation& allocation : schedule_.allocations) {
            while (schedule_.allocations[order[ended]].last_user < allocation.first_user) {
                const std::int32_t site = schedule_.allocations[order[ended++]].site;
                if (site >= 0) --live[site];
            }
            const std::int32_t site = allocation.site;
            if (site >= 0) peak[site] = std::max(peak[site], ++live[site]);
        }
        schedule_.site_limit.assign(sites, -1);
        for (std::size_t site = 0; site < sites; ++site) {
            if (dma[site])
                schedule_.site_limit[site] =
                    peak[site] + std::max(peak[site], machine_.rotation_extra_buffers);
        }
    }

    const Stream& stream_;
    const Machine& machine_;
    Schedule schedule_;
    std::int32_t nodes_ = 0;
    std::vector<TileAccesses> accesses_;
    std::vector<std::int32_t> live_;  ///< per tile: its current allocation
    std::vector<Edge> after_result_;
    std::vector<Edge> after_issue_;
    std::vector<Edge> after_allocation_;  ///< allocation, node
    std::vector<Edge> uses_;              ///< node, allocation
};

}  // namespace

Schedule make_schedule(const Stream& stream, const Machine& machine) {
    return Builder(stream, machine).run();
}

}  // namespace accelopt::trainium
