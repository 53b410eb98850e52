#include "nki/replay.h"

#include <bit>
#include <cstdlib>

namespace accelopt::nki::interp {
namespace {

/// Larger steps could overflow when multiplied by an iteration.
constexpr std::int64_t kLargestStep = std::int64_t{1} << 38;

/// The views of an operation, in the order of Replay::Steps.
template <typename F>
bool each_view(const Operation& a, const Operation& b, F&& f) {
    if (!f(a.dst, b.dst, 0)) return false;
    for (int k = 0; k < a.sources; ++k)
        if (!f(a.src[k], b.src[k], 1 + k)) return false;
    const ScalarOperand* const x[] = {&a.scale, &a.bias, &a.operand0, &a.operand1};
    const ScalarOperand* const y[] = {&b.scale, &b.bias, &b.operand0, &b.operand1};
    for (int k = 0; k < 4; ++k)
        if (x[k]->vector && !f(x[k]->view.get(), y[k]->view.get(), 4 + k)) return false;
    return true;
}

bool same_number(double a, double b) {
    return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

bool same_scalar(const ScalarOperand& a, const ScalarOperand& b) {
    return a.vector == b.vector && same_number(a.immediate, b.immediate);
}

bool same_mask(const std::vector<MaskTerm>& a, const std::vector<MaskTerm>& b) {
    if (a.size() != b.size()) return false;
    for (std::size_t k = 0; k < a.size(); ++k)
        if (a[k].constant != b[k].constant || a[k].coefficients != b[k].coefficients) return false;
    return true;
}

/// All of an operation but its views.
bool same_but_views(const Operation& a, const Operation& b) {
    for (int d = 0; d < kMaxDims; ++d)
        if (std::int64_t{a.iota[d]} != b.iota[d]) return false;
    return a.opcode == b.opcode && a.engine == b.engine && a.function == b.function &&
           a.op0 == b.op0 && a.op1 == b.op1 && a.reverse0 == b.reverse0 &&
           a.reverse1 == b.reverse1 && a.accumulate == b.accumulate && a.negate == b.negate &&
           a.stationary_onezero == b.stationary_onezero && a.moving_onezero == b.moving_onezero &&
           a.implicit == b.implicit && a.axes == b.axes && a.sources == b.sources &&
           a.masked_columns == b.masked_columns && a.line == b.line && a.column == b.column &&
           a.loop == b.loop && a.api == b.api && a.extra == b.extra &&
           same_scalar(a.scale, b.scale) && same_scalar(a.bias, b.bias) &&
           same_scalar(a.operand0, b.operand0) && same_scalar(a.operand1, b.operand1) &&
           same_mask(a.mask, b.mask);
}

}  // namespace

Replay::~Replay() {
    if (watching_) builder_.watch(false);
}

void Replay::begin(std::int64_t iteration, std::int64_t steps) {
    if (iteration == 0) {
        builder_.watch(true);
        watching_ = true;
    }
    before_ = current_;
    current_.from = builder_.mark();
    current_.steps = -steps;
    current_.refusals = builder_.replay_refusals();
}

bool Replay::end(std::int64_t iteration, std::int64_t steps) {
    current_.to = builder_.mark();
    current_.steps += steps;
    current_.refusals_at_end = builder_.replay_refusals();
    if (ready_) {
        if (!foretold(current_)) throw ReplayMismatch{};
        return true;
    }
    if (iteration == 0) return true;
    pattern_iteration_ = iteration;
    ready_ = iteration + 1 < end_ && learn(before_, current_);
    if (ready_) pattern_ = current_;
    return ready_ || (iteration == 1 && end_ > 3);
}

bool Replay::same_tensor(TensorId a, TensorId b) const {
    const Tensor& x = builder_.tensor(a);
    const Tensor& y = builder_.tensor(b);
    return x.name == y.name && x.buffer == y.buffer && x.role == y.role && x.dtype == y.dtype &&
           x.shape == y.shape && x.partition_axis == y.partition_axis && x.site == y.site &&
           x.line == y.line && builder_.repeatable(a) && builder_.repeatable(b);
}

bool Replay::same_event(const TraceEvent& a, const TraceEvent& b) const {
    return a.kind == b.kind && a.combines == b.combines && a.whole == b.whole && a.loop == b.loop;
}

bool Replay::learn(const Span& first, const Span& second) {
    const std::size_t events = first.to.events - first.from.events;
    const std::size_t tensors = first.to.tensors - first.from.tensors;
    const std::size_t operations = first.to.operations - first.from.operations;
    if (events != second.to.events - second.from.events || first.steps != second.steps ||
        tensors != second.to.tensors - second.from.tensors ||
        operations != second.to.operations - second.from.operations ||
        first.refusals != second.refusals_at_end || (masked_ && !uncut_at_end(first, second)))
        return false;
    for (std::size_t k = 0; k < events; ++k)
        if (!same_event(builder_.event(first.from.events + k),
                        builder_.event(second.from.events + k)))
            return false;
    for (std::size_t k = 0; k < tensors; ++k)
        if (!same_tensor(static_cast<TensorId>(first.from.tensors + k),
                         static_cast<TensorId>(second.from.tensors + k)))
            return false;
    steps_.assign(operations, {});
    const auto& all = builder_.program().operations;
    for (std::size_t k = 0; k < operations; ++k) {
        const Operation& b = all[second.from.operations + k];
        if (!moved(all[first.from.operations + k], first, b, second, steps_[k]) ||
            !may_step(b, second, steps_[k]))
            return false;
    }
    return true;
}

std::int64_t Replay::address(const View& view) const {
    const Tensor& tensor = builder_.tensor(view.tensor);
    if (tensor.buffer == Buffer::kHbm) return view.offset;
    return view.block * tensor.partitions * tensor.free_elements + view.offset;
}

bool Replay::moved_view(const View& a, const Span& x, const View& b, const Span& y,
                        std::int64_t& step) const {
    const auto fresh = [](const View& view, const Span& span) {
        return static_cast<std::int64_t>(view.tensor) -
               static_cast<std::int64_t>(span.from.tensors);
    };
    const std::int64_t at_a = fresh(a, x);
    const std::int64_t at_b = fresh(b, y);
    // A tensor of the iteration itself stands at the same place of it; others are the same ones.
    if (at_a >= 0 ? at_a != at_b : a.tensor != b.tensor) return false;
    step = address(b) - address(a);
    return a.rank == b.rank && a.dims == b.dims && std::abs(step) < kLargestStep;
}

bool Replay::moved(const Operation& a, const Span& x, const Operation& b, const Span& y,
                   Steps& steps) const {
    return same_but_views(a, b) && each_view(a, b, [&](const View& p, const View& q, int k) {
               return moved_view(p, x, q, y, steps.view[k]);
           });
}

/// Leaves out what is checked in ways that are not monotone in an address.
bool Replay::may_step(const Operation& operation, const Span& span, const Steps& steps) const {
    if (operation.extra >= 0 || has_own_spaces(operation.opcode)) return false;
    return each_view(operation, operation, [&](const View& view, const View&, int k) {
        const std::int64_t step = steps.view[k];
        if (static_cast<std::size_t>(view.tensor) >= span.from.tensors) return step == 0;
        // The same tensor read and written elsewhere: whether the two places meet may change.
        if (k > 0 && view.tensor == operation.dst.tensor && step != steps.view[0]) return false;
        if (step == 0) return true;
        // Banks of PSUM; the parts of an identity matrix.
        return builder_.tensor(view.tensor).buffer != Buffer::kPsum &&
               !builder_.holds_identity(view.tensor);
    });
}

void Replay::move(View& view, std::int64_t by, TensorId fresh) const {
    if (static_cast<std::size_t>(view.tensor) >= pattern_.from.tensors) view.tensor += fresh;
    if (by == 0) return;
    const Tensor& tensor = builder_.tensor(view.tensor);
    if (tensor.buffer == Buffer::kHbm) {
        view.offset += by;
        return;
    }
    const std::int64_t block = tensor.partitions * tensor.free_elements;
    const std::int64_t to = view.block * block + view.offset + by;
    view.block = to / block;
    view.offset = to % block;
}

void Replay::repeat(std::int64_t iteration) {
    const TraceMark now = builder_.mark();
    const auto fresh = static_cast<TensorId>(now.tensors - pattern_.from.tensors);
    std::size_t operation = 0;
    auto tensor = static_cast<TensorId>(pattern_.from.tensors);
    for (std::size_t k = pattern_.from.events; k < pattern_.to.events; ++k) {
        const TraceEvent event = builder_.event(k);
        switch (event.kind) {
            case TraceEvent::Kind::kOperation: {
                Operation copy =
                    builder_.program().operations[pattern_.from.operations + operation];
                const Steps& steps = steps_[operation++];
                const std::int64_t times = iteration - pattern_iteration_;
                move(copy.dst, steps.view[0] * times, fresh);
                for (int s = 0; s < copy.sources; ++s)
                    move(copy.src[s], steps.view[1 + s] * times, fresh);
                ScalarOperand* const scalars[] = {&copy.scale, &copy.bias, &copy.operand0,
                                                  &copy.operand1};
                for (int s = 0; s < 4; ++s)
                    if (scalars[s]->vector)
                        move(scalars[s]->view.edit(), steps.view[4 + s] * times, fresh);
                builder_.repeat_operation(std::move(copy), event);
                break;
            }
            case TraceEvent::Kind::kTensor:
                builder_.repeat_tensor(tensor++);
                break;
            case TraceEvent::Kind::kEnter:
                builder_.repeat_enter(event.loop);
                break;
            case TraceEvent::Kind::kIterate:
                builder_.next_iteration();
                break;
            case TraceEvent::Kind::kLeave:
                builder_.leave_loop();
                break;
        }
    }
    // Nobody else watches: what was repeated need not be remembered.
    if (builder_.watches() == 1) builder_.forget_events(now.events);
}

bool Replay::uncut(const Span& span) const {
    for (std::size_t k = span.from.margins; k < span.to.margins; ++k)
        if (builder_.margin(k) < 0) return false;
    return true;
}

bool Replay::uncut_at_end(const Span& first, const Span& second) const {
    if (!uncut(first) || !uncut(second)) return false;
    const std::size_t margins = first.to.margins - first.from.margins;
    if (margins != second.to.margins - second.from.margins) return false;
    for (std::size_t k = 0; k < margins; ++k) {
        const std::int64_t now = builder_.margin(second.from.margins + k);
        const std::int64_t step = now - builder_.margin(first.from.margins + k);
        if (step < 0 && now / -step < end_ - pattern_iteration_) return false;
    }
    return true;
}

bool Replay::foretold(const Span& last) const {
    const std::size_t events = pattern_.to.events - pattern_.from.events;
    const std::size_t tensors = pattern_.to.tensors - pattern_.from.tensors;
    const std::size_t operations = pattern_.to.operations - pattern_.from.operations;
    if (last.refusals_at_end != last.refusals || events != last.to.events - last.from.events ||
        tensors != last.to.tensors - last.from.tensors || last.steps != pattern_.steps ||
        operations != last.to.operations - last.from.operations || (masked_ && !uncut(last)))
        return false;
    for (std::size_t k = 0; k < events; ++k)
        if (!same_event(builder_.event(pattern_.from.events + k),
                        builder_.event(last.from.events + k)))
            return false;
    for (std::size_t k = 0; k < tensors; ++k)
        if (!same_tensor(static_cast<TensorId>(pattern_.from.tensors + k),
                         static_cast<TensorId>(last.from.tensors + k)))
            return false;
    const auto& all = builder_.program().operations;
    const std::int64_t times = end_ - pattern_iteration_;
    for (std::size_t k = 0; k < operations; ++k) {
        Steps total;
        if (!moved(all[pattern_.from.operations + k], pattern_, all[last.from.operations + k], last,
                   total))
            return false;
        for (int v = 0; v < 8; ++v)
            if (total.view[v] != steps_[k].view[v] * times) return false;
    }
    return true;
}

}  // namespace accelopt::nki::interp
