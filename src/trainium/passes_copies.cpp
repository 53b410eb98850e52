#include "trainium/passes.h"
#include "trainium/timing_costs.h"

namespace accelopt::trainium {

void fold_copies(Stream& stream) {
    std::vector<std::int32_t> writer(stream.tiles.size(), -1);
    constexpr std::int32_t kSeveral = -2;
    for (std::size_t k = 0; k < stream.instructions.size(); ++k) {
        std::int32_t& known = writer[stream.instructions[k].dst.tile];
        known = known == -1 ? static_cast<std::int32_t>(k) : kSeveral;
    }
    for (Instruction& copy : stream.instructions) {
        if (copy.op != StreamOp::kCopy || copy.requested != nki::Engine::kAuto) continue;
        if (copy.sources != 1) continue;
        const std::int32_t by = writer[copy.src[0].tile];
        if (by < 0) continue;
        const Instruction& producer = stream.instructions[by];
        if (producer.op == StreamOp::kActivation && unit_of(producer) == Unit::kAct &&
            producer.n == copy.n)
            copy.work = 0;
    }
}

}  // namespace accelopt::trainium
