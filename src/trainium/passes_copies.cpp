#include "trainium/passes.h"
#include "trainium/timing_costs.h"

namespace accelopt::trainium {

void fold_copies(Stream& stream) {
    const std::vector<TileUsers> users = collect_users(stream);
    for (Instruction& copy : stream.instructions) {
        if (copy.op != StreamOp::kCopy || copy.requested != nki::Engine::kAuto) continue;
        if (copy.sources != 1) continue;
        const std::int32_t by = users[copy.src[0].tile].writer;
        if (by < 0) continue;
        const Instruction& producer = stream.instructions[by];
        if (producer.op == StreamOp::kActivation && unit_of(producer) == Unit::kAct &&
            producer.n == copy.n)
            copy.work = 0;
    }
}

}  // namespace accelopt::trainium
