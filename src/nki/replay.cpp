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
    if (iteration == 1) {
        builder_.watch(true);
        watching_ = true;
        refusals_ = builder_.replay_refusals();
    }
    Span& span = iteration == 1 ? first_ : iteration == 2 ? second_ : last_;
    span.from = builder_.mark();
    span.steps = -steps;
}

bool Replay::end(std::int64_t iteration, std::int64_t steps) {
    if (iteration == 0) return true;
    Span& span = iteration == 1 ? first_ : iteration == 2 ? second_ : last_;
    span.to = builder_.mark();
    span.steps += steps;
    if (iteration == 2) {
        ready_ = builder_.replay_refusals() == refusals_ && learn();
        return ready_;
    }
    if (ready_ && iteration + 1 == trips_ && !foretold(last_)) throw ReplayMismatch{};
    return true;
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

/// Compares iterations 1 and 2.
bool Replay::learn() {
    const std::size_t events = first_.to.events - first_.from.events;
    const std::size_t tensors = first_.to.tensors - first_.from.tensors;
    const std::size_t operations = first_.to.operations - first_.from.operations;
    if (events != second_.to.events - second_.from.events || first_.steps != second_.steps ||
        tensors != second_.to.tensors - second_.from.tensors ||
        operations != second_.to.operations - second_.from.operations)
        return false;
    for (std::size_t k = 0; k < events; ++k)
        if (!same_event(builder_.event(first_.from.events + k),
                        builder_.event(second_.from.events + k)))
            return false;
    for (std::size_t k = 0; k < tensors; ++k)
        if (!same_tensor(static_cast<TensorId>(first_.from.tensors + k),
                         static_cast<TensorId>(second_.from.tensors + k)))
            return false;
    steps_.resize(operations);
    const auto& all = builder_.program().operations;
    for (std::size_t k = 0; k < operations; ++k) {
        const Operation& b = all[second_.from.operations + k];
        if (!moved(all[first_.from.operations + k], first_, b, second_, steps_[k]) ||
            !may_step(b, second_, steps_[k]))
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
    if (static_cast<std::size_t>(view.tensor) >= second_.from.tensors) view.tensor += fresh;
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
    const auto fresh = static_cast<TensorId>(now.tensors - second_.from.tensors);
    std::size_t operation = 0;
    auto tensor = static_cast<TensorId>(second_.from.tensors);
    for (std::size_t k = second_.from.events; k < second_.to.events; ++k) {
        const TraceEvent event = builder_.event(k);
        switch (event.kind) {
            case TraceEvent::Kind::kOperation: {
                Operation copy = builder_.program().operations[second_.from.operations + operation];
                const Steps& steps = steps_[operation++];
                const std::int64_t times = iteration - 2;
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

bool Replay::foretold(const Span& last) const {
    const std::size_t events = second_.to.events - second_.from.events;
    const std::size_t tensors = second_.to.tensors - second_.from.tensors;
    const std::size_t operations = second_.to.operations - second_.from.operations;
    if (builder_.replay_refusals() != refusals_ || events != last.to.events - last.from.events ||
        tensors != last.to.tensors - last.from.tensors || last.steps != second_.steps ||
        operations != last.to.operations - last.from.operations)
        return false;
    for (std::size_t k = 0; k < events; ++k)
        if (!same_event(builder_.event(second_.from.events + k),
                        builder_.event(last.from.events + k)))
            return false;
    for (std::size_t k = 0; k < tensors; ++k)
        if (!same_tensor(static_cast<TensorId>(second_.from.tensors + k),
                         static_cast<TensorId>(last.from.tensors + k)))
            return false;
    const auto& all = builder_.program().operations;
    const std::int64_t times = trips_ - 3;
    for (std::size_t k = 0; k < operations; ++k) {
        Steps total;
        if (!moved(all[second_.from.operations + k], second_, all[last.from.operations + k], last,
                   total))
            return false;
        for (int v = 0; v < 8; ++v)
            if (total.view[v] != steps_[k].view[v] * times) return false;
    }
    return true;
}

}  // namespace accelopt::nki::interp
