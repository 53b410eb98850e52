#include "nki/builder.h"

namespace accelopt::nki::interp {

int Builder::enter_loop(const void* statement, LoopKind kind, const std::string& variable,
                        std::int64_t trip_count, int line) {
    const int depth = loops_.enter(statement, kind, variable, trip_count, line);
    begin_run();
    note({TraceEvent::Kind::kEnter, AluOp::kNone, false, loops_.innermost_loop()});
    return depth;
}

void Builder::next_iteration() {
    loops_.next_iteration();
    end_iteration();
    running_.back().iteration = static_cast<std::int32_t>(program_.iterations.size());
    const auto now = static_cast<std::int32_t>(program_.operations.size());
    program_.iterations.push_back({loops_.innermost_loop(), running_.back().run, now, now});
    note({TraceEvent::Kind::kIterate, AluOp::kNone, false, -1});
}

void Builder::leave_loop() {
    end_iteration();
    running_.pop_back();
    loops_.leave();
    note({TraceEvent::Kind::kLeave, AluOp::kNone, false, -1});
}

void Builder::begin_run() { running_.push_back({runs_++, -1}); }

void Builder::end_iteration() {
    const std::int32_t open = running_.back().iteration;
    if (open < 0) return;
    LoopIteration& iteration = program_.iterations[open];
    iteration.end = static_cast<std::int32_t>(program_.operations.size());
    // One that did nothing has none inside it, and is the last.
    if (iteration.end == iteration.first) program_.iterations.pop_back();
    running_.back().iteration = -1;
}

void Builder::watch(bool on) {
    watched_ += on ? 1 : -1;
    if (watched_ > 0) return;
    events_.clear();
    margins_.clear();
}

bool Builder::repeatable(TensorId id) const {
    const Tensor& t = program_.tensors[id];
    return t.role == TensorRole::kOnChip && t.placements.empty() && t.constant_data.empty();
}

void Builder::repeat_tensor(TensorId like) {
    charge_memory(static_cast<std::int64_t>(sizeof(Tensor)));
    Tensor tensor = program_.tensors[like];
    tensor.id = static_cast<TensorId>(program_.tensors.size());
    TensorState state = states_[like];
    state.context = loops_.context();
    states_.push_back(state);
    program_.tensors.push_back(std::move(tensor));
    note({TraceEvent::Kind::kTensor, AluOp::kNone, false, -1});
}

void Builder::repeat_operation(Operation operation, const TraceEvent& event) {
    ++program_.replayed;
    append(std::move(operation), event.combines, event.whole);
}

void Builder::repeat_enter(int loop) {
    loops_.enter_again(loop);
    begin_run();
    note({TraceEvent::Kind::kEnter, AluOp::kNone, false, loop});
}

}  // namespace accelopt::nki::interp
