#include "trainium/timeline.h"

namespace accelopt::trainium {
namespace {

/// Times that differ by less are the same instant of a simulation.
constexpr double kSameInstant_ns = 1e-6;
/// The same where one of them comes from a span, which keeps durations as floats.
constexpr double kFloatInstant_ns = 0.05;

}  // namespace

TimelineRecorder::TimelineRecorder(Timeline* timeline, const Schedule& schedule)
    : timeline_(timeline), schedule_(schedule) {
    if (timeline_ == nullptr) return;
    const bool keep_queues = timeline_->keep_queues;
    *timeline_ = Timeline{};
    timeline_->keep_queues = keep_queues;
    timeline_->spans.resize(static_cast<std::size_t>(schedule.instructions));
    timeline_->memory.resize(schedule.allocations.size());
    timeline_->issue_order.reserve(static_cast<std::size_t>(schedule.instructions));
    enabled_.resize(static_cast<std::size_t>(schedule.nodes));
}

void TimelineRecorder::enable(std::int32_t node, std::int32_t by, Wait wait, double now_ns) {
    Enabled& enabled = enabled_[node];
    // A join is done with the last instruction that it stands for.
    if (by >= schedule_.instructions) by = enabled_[by].by;
    enabled.at_ns = now_ns;
    enabled.by = by;
    enabled.wait = by < 0 ? Wait::kNothing : wait;
}

void TimelineRecorder::give(std::int32_t allocation, double now_ns) {
    timeline_->memory[allocation].given_ns = now_ns;
    if (schedule_.allocations[allocation].psum) return;  // see start()
    const std::int32_t user = schedule_.allocations[allocation].first_user;
    if (now_ns > enabled_[user].at_ns) enable(user, last_freed_by_, Wait::kMemory, now_ns);
}

void TimelineRecorder::start(std::int32_t node, Unit unit, double now_ns, double busy_ns,
                             double result_ns) {
    InstructionSpan& span = timeline_->spans[node];
    const Enabled& enabled = enabled_[node];
    span.start_ns = now_ns;
    span.busy_ns = span.work_ns = static_cast<float>(busy_ns);
    span.result_ns = static_cast<float>(result_ns);
    span.unit = unit;
    span.waited_for = enabled.by;
    span.wait = enabled.wait;
    std::int32_t& last = last_on_engine_[static_cast<int>(unit)];
    // Ready before it ran: another engine held its port until now, or its own was busy, or PSUM was
    // full, or program order held it back.
    if (enabled.at_ns < now_ns - kSameInstant_ns) {
        const bool was_busy =
            last >= 0 && timeline_->spans[last].free_ns() > now_ns - kFloatInstant_ns;
        const bool port =
            enabled.blocked_by >= 0 &&
            timeline_->spans[enabled.blocked_by].free_ns() > now_ns - kFloatInstant_ns;
        const bool banks = enabled.refused && !was_busy && last_bank_freed_by_ >= 0;
        const std::int32_t by = port ? enabled.blocked_by : banks ? last_bank_freed_by_ : last;
        if (by >= 0) {
            span.waited_for = by;
            span.wait = port ? Wait::kPort : banks ? Wait::kMemory : Wait::kEngine;
        }
    }
    last = node;
    timeline_->issue_order.push_back(node);
}

void TimelineRecorder::use_queue(std::int32_t node, int queue, double start_ns, double busy_ns) {
    if (static_cast<std::size_t>(queue) >= queues_.size()) {
        queues_.resize(static_cast<std::size_t>(queue) + 1);
    }
    work_ns_ += busy_ns;
    QueueUse& use = queues_[queue];
    if (start_ns + busy_ns > slowest_start_ns_ + slowest_busy_ns_) {
        slowest_ = use;
        slowest_start_ns_ = start_ns;
        slowest_busy_ns_ = busy_ns;
    }
    use = {node, start_ns + busy_ns};
    if (timeline_->keep_queues) {
        timeline_->queues.push_back(
            {start_ns, static_cast<float>(busy_ns), node, static_cast<std::int16_t>(queue)});
    }
}

void TimelineRecorder::start_transfer(std::int32_t node, int window, double now_ns,
                                      double result_ns) {
    InstructionSpan& span = timeline_->spans[node];
    const Enabled& enabled = enabled_[node];
    span.start_ns = slowest_start_ns_;
    span.busy_ns = static_cast<float>(slowest_busy_ns_);
    span.work_ns = static_cast<float>(work_ns_);
    span.result_ns = static_cast<float>(result_ns);
    span.queued_ns = static_cast<float>(slowest_start_ns_ - now_ns);
    span.unit = Unit::kDma;
    span.waited_for = enabled.by;
    span.wait = enabled.wait;
    std::int32_t& last = last_of_window_[window];
    if (slowest_.by >= 0 && slowest_start_ns_ > now_ns + kSameInstant_ns) {
        span.waited_for = slowest_.by;
        span.wait = Wait::kQueue;
    } else if (enabled.at_ns < now_ns - kSameInstant_ns) {
        // Ready before it was issued: too many in flight, or too far ahead in program order. In
        // the second case the one before it left the window at this instant.
        const bool moved_up =
            last >= 0 && timeline_->spans[last].issued_ns() > now_ns - kSameInstant_ns;
        span.waited_for = moved_up ? last : last_transfer_done_;
        span.wait = moved_up ? Wait::kWindow : Wait::kTransfers;
        if (span.waited_for < 0) span.wait = Wait::kNothing;
    }
    last = node;
    slowest_ = {};
    slowest_start_ns_ = -1;
    slowest_busy_ns_ = 0;
    work_ns_ = 0;
    timeline_->issue_order.push_back(node);
}

}  // namespace accelopt::trainium
