#include "trainium/timing_simulate.h"

#include <algorithm>
#include <limits>
#include <queue>
#include <tuple>

#include "core/error.h"
#include "trainium/passes.h"
#include "trainium/timing_costs.h"

namespace accelopt::trainium {
namespace {

constexpr double kSameInstant_ns = 1e-9;

/// Instructions of one queue in program order, of which the first few are candidates.
class Window {
  public:
    void add(std::int32_t node) { order_.push_back(node); }
    void open(int size) {
        size_ = static_cast<std::size_t>(size);
        refill();
    }
    const std::vector<std::int32_t>& candidates() const { return candidates_; }
    void take(std::size_t position) {
        candidates_.erase(candidates_.begin() + static_cast<std::ptrdiff_t>(position));
        refill();
    }

  private:
    void refill() {
        while (candidates_.size() < size_ && next_ < order_.size())
            candidates_.push_back(order_[next_++]);
    }

    std::vector<std::int32_t> order_;
    std::vector<std::int32_t> candidates_;
    std::size_t next_ = 0;
    std::size_t size_ = 0;
};

/// SBUF: allocations waiting in program order.
struct Memory {
    std::vector<std::int32_t> waiting;
    std::size_t next = 0;
    std::int64_t used = 0;
    std::int64_t capacity = 0;

    bool empty() const { return next == waiting.size(); }
    std::int32_t front() const { return waiting[next]; }
};

enum class EventKind : std::uint8_t { kEngineFree, kResult, kDmaDone };

struct Event {
    double time_ns;
    EventKind kind;
    std::int32_t node;
    bool operator>(const Event& other) const {
        return std::tie(time_ns, kind, node) > std::tie(other.time_ns, other.kind, other.node);
    }
};

/// VectorE and GpSimdE share a port to SBUF, VectorE and ScalarE one to PSUM.
constexpr int kPorts = 2;

std::vector<std::uint8_t> shared_ports(const Stream& stream, const Machine& machine) {
    std::vector<std::uint8_t> ports(stream.instructions.size(), 0);
    for (std::size_t k = 0; k < ports.size(); ++k) {
        const Instruction& instruction = stream.instructions[k];
        if (is_dma(instruction.op)) continue;
        const Unit unit = unit_of(instruction);
        const bool sbuf = machine.shared_sbuf_port && (unit == Unit::kDve || unit == Unit::kPool);
        const bool psum = machine.shared_psum_port && (unit == Unit::kDve || unit == Unit::kAct);
        for_each_operand(instruction, [&](const Operand& operand) {
            const nki::Buffer buffer = stream.tiles[operand.tile].buffer;
            if (sbuf && buffer == nki::Buffer::kSbuf) ports[k] |= 1;
            if (psum && buffer == nki::Buffer::kPsum) ports[k] |= 2;
        });
    }
    return ports;
}

class Simulator {
  public:
    Simulator(const Stream& stream, const Schedule& schedule, const Machine& machine,
              std::vector<OrderStep>* order, Timeline* timeline)
        : stream_(stream),
          schedule_(schedule),
          machine_(machine),
          order_(order),
          recorder_(timeline, schedule),
          pending_(schedule.pending),
          missing_(static_cast<std::size_t>(schedule.nodes), 0),
          missing_banks_(static_cast<std::size_t>(schedule.nodes), 0),
          users_left_(schedule.allocations.size()),
          site_live_(schedule.site_limit.size(), 0),
          ports_(shared_ports(stream, machine)),
          queue_free_ns_(static_cast<std::size_t>(machine.dma_queues), 0.0) {
        sbuf_.capacity = machine.resident_partition_bytes + machine.working_slack_bytes;
        psum_banks_ = machine.psum_partition_bytes / machine.psum_bank_bytes;
    }

    SimulationResult run() {
        prepare();
        now_ns_ = machine_.startup_ns / 2;
        finish_ns_ = now_ns_;
        allocate();
        while (done_ < schedule_.nodes) {
            issue_engines();
            issue_dmas(loads_, 0);
            issue_dmas(stores_, 1);
            if (events_.empty()) {
                force_allocation();
                continue;
            }
            handle_events();
        }
        result_.latency_ns = finish_ns_ + machine_.startup_ns / 2;
        recorder_.ended(result_.latency_ns, machine_.startup_ns / 2);
        return result_;
    }

  private:
    void prepare() {
        for (std::int32_t k = 0; k < schedule_.instructions; ++k) {
            const Instruction& instruction = stream_.instructions[k];
            if (!is_dma(instruction.op)) {
                engines_[static_cast<int>(unit_of(instruction))].add(k);
            } else if (instruction.op == StreamOp::kStore || instruction.op == StreamOp::kSpill) {
                stores_.add(k);
            } else {
                loads_.add(k);
            }
        }
        for (Window& engine : engines_) engine.open(machine_.engine_window);
        loads_.open(machine_.dma_window);
        stores_.open(machine_.dma_window);
        for (std::size_t a = 0; a < schedule_.allocations.size(); ++a) {
            const Allocation& allocation = schedule_.allocations[a];
            users_left_[a] = allocation.users;
            if (allocation.psum) {
                ++missing_banks_[allocation.first_user];
                continue;
            }
            sbuf_.waiting.push_back(static_cast<std::int32_t>(a));
            ++missing_[allocation.first_user];
        }
    }

    bool ready(std::int32_t node) const { return pending_[node] == 0 && missing_[node] == 0; }

    /// Starts what can start now, on each idle engine the first of its window; the oldest goes
    /// first, and gets the port or the banks that two engines want.
    void issue_engines() {
        constexpr int kEngines = static_cast<int>(Unit::kDma);
        std::ptrdiff_t place[kEngines];
        for (int u = 0; u < kEngines; ++u) place[u] = startable(u);
        for (;;) {
            int oldest = -1;
            for (int u = 0; u < kEngines; ++u) {
                if (place[u] >= 0 &&
                    (oldest < 0 || candidate(u, place[u]) < candidate(oldest, place[oldest])))
                    oldest = u;
            }
            if (oldest < 0) return;
            if (can_start(candidate(oldest, place[oldest]), place[oldest] == 0)) {
                start(oldest, place[oldest]);
                place[oldest] = -1;
            } else {  // another engine took what it needs
                place[oldest] = startable(oldest);
            }
        }
    }

    std::int32_t candidate(int u, std::ptrdiff_t place) const {
        return engines_[u].candidates()[static_cast<std::size_t>(place)];
    }

    /// The place in the window of an idle engine of the first instruction that can start; -1: none.
    std::ptrdiff_t startable(int u) {
        if (engine_free_ns_[u] > now_ns_ + kSameInstant_ns) return -1;
        const auto& candidates = engines_[u].candidates();
        for (std::size_t c = 0; c < candidates.size(); ++c) {
            if (can_start(candidates[c], c == 0)) return static_cast<std::ptrdiff_t>(c);
        }
        return -1;
    }

    bool can_start(std::int32_t node, bool oldest) {
        return ready(node) && ports_are_free(node) && has_banks(node, oldest);
    }

    void start(int u, std::ptrdiff_t place) {
        const std::int32_t node = candidate(u, place);
        take_banks(node);
        engines_[u].take(static_cast<std::size_t>(place));
        const double ns = engine_ns(stream_.instructions[node], stream_, machine_);
        const double end = now_ns_ + ns;
        engine_free_ns_[u] = end;
        for (int p = 0; p < kPorts; ++p) {
            if ((ports_[node] & (1 << p)) == 0) continue;
            port_free_ns_[p] = end;
            port_user_[p] = node;
        }
        result_.busy_ns[u] += ns;
        recorder_.started(node, static_cast<Unit>(u), now_ns_, ns, machine_.result_latency_ns);
        events_.push({end, EventKind::kEngineFree, node});
        events_.push({end + machine_.result_latency_ns, EventKind::kResult, node});
    }

    bool ports_are_free(std::int32_t node) {
        for (int p = 0; p < kPorts; ++p) {
            if ((ports_[node] & (1 << p)) == 0) continue;
            if (port_free_ns_[p] <= now_ns_ + kSameInstant_ns) continue;
            recorder_.blocked(node, port_user_[p]);
            return false;
        }
        return true;
    }

    /// True when the PSUM banks that a ready instruction is the first to use are free. An
    /// instruction that overtakes others leaves some to the oldest one, which those wait for.
    bool has_banks(std::int32_t node, bool oldest) {
        if (missing_banks_[node] == 0 || psum_used_ == 0) return true;
        const std::int64_t reserved = oldest ? 0 : machine_.psum_reserved_banks;
        std::int64_t banks = 0;
        each_new_bank(node, [&](std::int32_t a) { banks += schedule_.allocations[a].size; });
        if (psum_used_ + banks + reserved <= psum_banks_) return true;
        recorder_.refused(node);
        return false;
    }

    void take_banks(std::int32_t node) {
        if (missing_banks_[node] == 0) return;
        each_new_bank(node, [&](std::int32_t a) {
            record(OrderStep::Kind::kAllocate, a);
            recorder_.given(a, now_ns_);
            release_memory(a);
            psum_used_ += schedule_.allocations[a].size;
        });
        missing_banks_[node] = 0;
    }

    template <typename F>
    void each_new_bank(std::int32_t node, F&& f) const {
        for (std::int32_t u = schedule_.uses.first[node]; u < schedule_.uses.first[node + 1]; ++u) {
            const std::int32_t a = schedule_.uses.items[u];
            if (schedule_.allocations[a].psum && schedule_.allocations[a].first_user == node) f(a);
        }
    }

    void issue_dmas(Window& window, int which) {
        for (std::size_t c = 0; c < window.candidates().size();) {
            if (in_flight_ >= machine_.dma_in_flight) return;
            const std::int32_t node = window.candidates()[c];
            if (!ready(node) || !has_banks(node, c == 0)) {
                ++c;
                continue;
            }
            take_banks(node);
            window.take(c);  // another entry moves up behind c
            start_dma(node, which);
        }
    }

    void start_dma(std::int32_t node, int window) {
        const DmaCost cost = dma_cost(stream_.instructions[node], machine_);
        double end = now_ns_;
        for (int q = 0; q < cost.queues; ++q) {
            const int queue = (next_queue_ + q) % machine_.dma_queues;
            double& free_ns = queue_free_ns_[queue];
            free_ns = std::max(free_ns, now_ns_) + cost.queue_ns;
            recorder_.queued(node, queue, free_ns - cost.queue_ns, cost.queue_ns);
            end = std::max(end, free_ns);
        }
        next_queue_ = (next_queue_ + cost.queues) % machine_.dma_queues;
        result_.busy_ns[static_cast<int>(Unit::kDma)] +=
            cost.queue_ns * cost.queues / machine_.dma_queues;
        recorder_.transfer_started(node, window, now_ns_, machine_.dma_fixed_ns);
        ++in_flight_;
        events_.push({end + machine_.dma_fixed_ns, EventKind::kDmaDone, node});
    }

    /// Takes all events of the next instant.
    void handle_events() {
        now_ns_ = events_.top().time_ns;
        bool freed = false;
        while (!events_.empty() && events_.top().time_ns <= now_ns_ + kSameInstant_ns) {
            const Event event = events_.top();
            events_.pop();
            if (event.kind == EventKind::kEngineFree) {
                release(schedule_.after_issue, event.node);
            } else {
                if (event.kind == EventKind::kDmaDone) {
                    --in_flight_;
                    recorder_.transfer_done(event.node);
                }
                finish_ns_ = std::max(finish_ns_, event.time_ns);
                freed = complete(event.node) || freed;
            }
        }
        if (freed) allocate();
    }

    void release(const Adjacency& successors, std::int32_t node) {
        for (std::int32_t e = successors.first[node]; e < successors.first[node + 1]; ++e) {
            const std::int32_t next = successors.items[e];
            recorder_.enabled(next, node, Wait::kOperand, now_ns_);
            if (--pending_[next] == 0 && next >= schedule_.instructions) joins_.push_back(next);
        }
    }

    /// Completes a node and the joins that only waited for it. Returns true when memory was freed.
    bool complete(std::int32_t node) {
        ++done_;
        record(OrderStep::Kind::kComplete, node);
        release(schedule_.after_result, node);
        while (!joins_.empty()) {
            const std::int32_t join = joins_.back();
            joins_.pop_back();
            ++done_;
            release(schedule_.after_result, join);
        }
        bool freed = false;
        for (std::int32_t u = schedule_.uses.first[node]; u < schedule_.uses.first[node + 1]; ++u) {
            const std::int32_t a = schedule_.uses.items[u];
            if (--users_left_[a] > 0) continue;
            record(OrderStep::Kind::kRelease, a);
            recorder_.taken(a, now_ns_);
            recorder_.freed(node, schedule_.allocations[a].psum);
            const Allocation& allocation = schedule_.allocations[a];
            if (allocation.psum) {
                psum_used_ -= allocation.size;
                continue;
            }
            sbuf_.used -= allocation.size;
            if (allocation.site >= 0) --site_live_[allocation.site];
            freed = true;
        }
        return freed;
    }

    bool fits() const {
        const Allocation& allocation = schedule_.allocations[sbuf_.front()];
        if (sbuf_.used > 0 && sbuf_.used + allocation.size > sbuf_.capacity) return false;
        if (allocation.site < 0) return true;
        const std::int32_t limit = schedule_.site_limit[allocation.site];
        return limit < 0 || site_live_[allocation.site] < limit;
    }

    void give() {
        const std::int32_t given = sbuf_.front();
        const Allocation& allocation = schedule_.allocations[given];
        record(OrderStep::Kind::kAllocate, given);
        recorder_.given(given, now_ns_);
        ++sbuf_.next;
        sbuf_.used += allocation.size;
        if (allocation.site >= 0) ++site_live_[allocation.site];
        --missing_[allocation.first_user];
        release_memory(given);
    }

    void release_memory(std::int32_t allocation) {
        const Adjacency& waiting = schedule_.after_allocation;
        for (std::int32_t e = waiting.first[allocation]; e < waiting.first[allocation + 1]; ++e)
            --pending_[waiting.items[e]];
    }

    void record(OrderStep::Kind kind, std::int32_t index) {
        if (order_ != nullptr) order_->push_back({kind, index});
    }

    void allocate() {
        while (!sbuf_.empty() && fits()) give();
    }

    /// The oldest instruction that only PSUM banks keep waiting; -1 for none.
    std::int32_t oldest_without_banks() const {
        std::int32_t oldest = -1;
        const auto look = [&](const Window& window) {
            for (const std::int32_t node : window.candidates()) {
                if (ready(node) && missing_banks_[node] > 0 && (oldest < 0 || node < oldest))
                    oldest = node;
            }
        };
        for (const Window& engine : engines_) look(engine);
        look(loads_);
        look(stores_);
        return oldest;
    }

    /// The fallback against deadlock: see simulate.
    void force_allocation() {
        const std::int32_t banks = oldest_without_banks();
        require(banks >= 0 || !sbuf_.empty(),
                "timing simulation: nothing can run and no memory is waited for");
        ++result_.forced_allocations;
        if (sbuf_.empty() ||
            (banks >= 0 && banks < schedule_.allocations[sbuf_.front()].first_user)) {
            take_banks(banks);
            return;
        }
        give();
        allocate();
    }

    const Stream& stream_;
    const Schedule& schedule_;
    const Machine& machine_;
    std::vector<OrderStep>* order_;
    TimelineRecorder recorder_;
    SimulationResult result_;
    Window engines_[static_cast<int>(Unit::kDma)];
    Window loads_;
    Window stores_;
    Memory sbuf_;
    std::int64_t psum_used_ = 0;  ///< banks
    std::int64_t psum_banks_ = 0;
    std::vector<std::int32_t> pending_;
    std::vector<std::int32_t> missing_;        ///< SBUF allocations a node still waits for
    std::vector<std::int32_t> missing_banks_;  ///< PSUM tiles a node is the first to use
    std::vector<std::int32_t> users_left_;
    std::vector<std::int32_t> site_live_;
    std::vector<std::uint8_t> ports_;  ///< per instruction: shared ports it uses, one bit each
    std::vector<double> queue_free_ns_;
    double port_free_ns_[kPorts] = {};
    std::int32_t port_user_[kPorts] = {-1, -1};
    double engine_free_ns_[static_cast<int>(Unit::kDma)] = {};
    std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
    std::vector<std::int32_t> joins_;
    double now_ns_ = 0;
    double finish_ns_ = 0;
    std::int64_t done_ = 0;
    int next_queue_ = 0;
    int in_flight_ = 0;
};

}  // namespace

SimulationResult simulate(const Stream& stream, const Schedule& schedule, const Machine& machine,
                          std::vector<OrderStep>* order, Timeline* timeline) {
    return Simulator(stream, schedule, machine, order, timeline).run();
}

}  // namespace accelopt::trainium
