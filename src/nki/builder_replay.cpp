#include "nki/builder.h"

namespace accelopt::nki::interp {

int Builder::enter_loop(const void* statement, LoopKind kind, const std::string& variable,
                        std::int64_t trip_count, int line) {
    const int depth = loops_.enter(statement, kind, variable, trip_count, line);
    note({TraceEvent::Kind::kEnter, AluOp::kNone, false, loops_.innermost_loop()});
    return depth;
}

void Builder::next_iteration() {
    loops_.next_iteration();
    note({TraceEvent::Kind::kIterate, AluOp::kNone, false, -1});
}

void Builder::leave_loop() {
    loops_.leave();
    note({TraceEvent::Kind::kLeave, AluOp::kNone, false, -1});
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
    note({TraceEvent::Kind::kEnter, AluOp::kNone, false, loop});
}

}  // namespace accelopt::nki::interp
