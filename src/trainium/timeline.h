#pragma once

#include <cstdint>
#include <vector>

#include "trainium/stream.h"
#include "trainium/timing_schedule.h"

namespace accelopt::trainium {

/// What an instruction waited for last, before it could start.
enum class Wait : std::uint8_t {
    kNothing,    ///< started with the kernel
    kOperand,    ///< the result of another instruction, or its read of what is overwritten
    kEngine,     ///< an engine that was busy with another instruction
    kQueue,      ///< a DMA queue that was busy with another transfer
    kMemory,     ///< SBUF or PSUM that another instruction was the last to use
    kPort,       ///< a port of the memory that another engine was using
    kTransfers,  ///< the limit of transfers in flight
    kWindow      ///< the look-ahead in program order
};
inline constexpr int kWaits = 8;

/// When one instruction of a simulated stream ran.
struct InstructionSpan {
    double start_ns = -1;  ///< the engine begins, or the last of the DMA's queues; -1: never ran
    float busy_ns = 0;     ///< until that engine or queue is free again
    float result_ns = 0;   ///< from then on until the result is visible
    float queued_ns = 0;   ///< DMA: from its issue to start_ns
    float work_ns = 0;     ///< DMA: busy time summed over its queues; else busy_ns
    std::int32_t waited_for = -1;  ///< the instruction that ended the last wait; -1 none
    Wait wait = Wait::kNothing;
    Unit unit = Unit::kPe;

    double issued_ns() const { return start_ns - static_cast<double>(queued_ns); }
    double free_ns() const { return start_ns + static_cast<double>(busy_ns); }
    double done_ns() const { return free_ns() + static_cast<double>(result_ns); }
};

/// One life of a tile on chip: when its memory was given out and taken back.
struct MemorySpan {
    double given_ns = -1;
    double taken_ns = -1;
};

/// A DMA queue at work for one instruction.
struct QueueSpan {
    double start_ns = 0;
    float busy_ns = 0;
    std::int32_t instruction = -1;
    std::int16_t queue = 0;
};

/// What a simulation did and when, as compact arrays.
struct Timeline {
    bool keep_queues = false;               ///< set before the simulation: fill `queues`
    double latency_ns = 0;                  ///< of the whole run
    double startup_ns = 0;                  ///< before the first instruction
    std::vector<InstructionSpan> spans;     ///< per instruction of the stream
    std::vector<MemorySpan> memory;         ///< per allocation of the schedule
    std::vector<std::int32_t> issue_order;  ///< instructions as they were issued
    std::vector<QueueSpan> queues;          ///< in the order of issue
};

/// Writes down what a simulation does: the simulation calls it as things happen. Without a
/// timeline every call returns at once.
class TimelineRecorder {
  public:
    /// `timeline` may be null; both must outlive the recorder.
    TimelineRecorder(Timeline* timeline, const Schedule& schedule);

    /// A dependency of `node` or the memory it needs came at `now_ns`, through `by` (-1: nothing).
    void enabled(std::int32_t node, std::int32_t by, Wait wait, double now_ns) {
        if (timeline_ != nullptr) enable(node, by, wait, now_ns);
    }
    /// `by` was the last user of some SBUF or PSUM.
    void freed(std::int32_t by, bool psum) { (psum ? last_bank_freed_by_ : last_freed_by_) = by; }
    /// An instruction that could have started found too few PSUM banks.
    void refused(std::int32_t node) {
        if (timeline_ != nullptr) enabled_[node].refused = true;
    }
    /// An instruction that could have started found a port in use by `by`.
    void blocked(std::int32_t node, std::int32_t by) {
        if (timeline_ != nullptr) enabled_[node].blocked_by = by;
    }
    /// An allocation got its memory at `now_ns`; its first user may have waited for it. PSUM is
    /// given out when that user starts.
    void given(std::int32_t allocation, double now_ns) {
        if (timeline_ != nullptr) give(allocation, now_ns);
    }
    void taken(std::int32_t allocation, double now_ns) {
        if (timeline_ != nullptr) timeline_->memory[allocation].taken_ns = now_ns;
    }
    /// An engine starts.
    void started(std::int32_t node, Unit unit, double now_ns, double busy_ns, double result_ns) {
        if (timeline_ != nullptr) start(node, unit, now_ns, busy_ns, result_ns);
    }
    /// A DMA of the issued instruction will keep a queue busy; before transfer_started.
    void queued(std::int32_t node, int queue, double start_ns, double busy_ns) {
        if (timeline_ != nullptr) use_queue(node, queue, start_ns, busy_ns);
    }
    /// A DMA was issued at `now_ns` from window `window` (0 or 1); its queues are known.
    void transfer_started(std::int32_t node, int window, double now_ns, double result_ns) {
        if (timeline_ != nullptr) start_transfer(node, window, now_ns, result_ns);
    }
    void transfer_done(std::int32_t node) { last_transfer_done_ = node; }
    void ended(double latency_ns, double startup_ns) {
        if (timeline_ == nullptr) return;
        timeline_->latency_ns = latency_ns;
        timeline_->startup_ns = startup_ns;
    }

  private:
    struct Enabled {
        double at_ns = -1;
        std::int32_t by = -1;
        Wait wait = Wait::kNothing;
        bool refused = false;          ///< PSUM banks, at least once
        std::int32_t blocked_by = -1;  ///< at a port, the last time
    };
    struct QueueUse {
        std::int32_t by = -1;  ///< the last user of the queue
        double free_ns = 0;
    };

    void enable(std::int32_t node, std::int32_t by, Wait wait, double now_ns);
    void give(std::int32_t allocation, double now_ns);
    void start(std::int32_t node, Unit unit, double now_ns, double busy_ns, double result_ns);
    void use_queue(std::int32_t node, int queue, double start_ns, double busy_ns);
    void start_transfer(std::int32_t node, int window, double now_ns, double result_ns);

    Timeline* timeline_;
    const Schedule& schedule_;
    std::vector<Enabled> enabled_;  ///< per node: the last thing that it waited for
    std::vector<QueueUse> queues_;
    QueueUse slowest_;  ///< of the transfer being issued: who held its last queue before
    double slowest_start_ns_ = -1;
    double slowest_busy_ns_ = 0;
    double work_ns_ = 0;  ///< of all its queues
    std::int32_t last_on_engine_[kUnits] = {-1, -1, -1, -1, -1};
    std::int32_t last_of_window_[2] = {-1, -1};
    std::int32_t last_freed_by_ = -1;
    std::int32_t last_bank_freed_by_ = -1;
    std::int32_t last_transfer_done_ = -1;
};

}  // namespace accelopt::trainium
