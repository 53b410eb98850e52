#include "trainium/passes.h"

namespace accelopt::trainium {

void remove_dead_code(Stream& stream) {
    std::vector<bool> used(stream.tiles.size(), false);
    auto& instructions = stream.instructions;
    std::vector<bool> keep(instructions.size(), false);
    for (std::size_t k = instructions.size(); k-- > 0;) {
        const Instruction& instruction = instructions[k];
        const bool to_hbm = stream.tiles[instruction.dst.tile].buffer == nki::Buffer::kHbm;
        if (!to_hbm && !used[instruction.dst.tile]) continue;
        keep[k] = true;
        for (int s = 0; s < instruction.sources; ++s) used[instruction.src[s].tile] = true;
    }
    std::size_t out = 0;
    for (std::size_t k = 0; k < instructions.size(); ++k) {
        if (keep[k]) instructions[out++] = instructions[k];
    }
    instructions.resize(out);
}

void compile(Stream& stream, const Machine& machine, Mechanisms mechanisms) {
    const auto on = [&](Mechanism mechanism) { return mechanisms.has(mechanism); };
    if (on(Mechanism::kMergeValues)) merge_values(stream, machine);
    if (on(Mechanism::kDeadCode)) remove_dead_code(stream);
    if (on(Mechanism::kStreamLoads)) stream_large_loads(stream, machine);
    if (on(Mechanism::kPsumTemporaries)) move_temporaries_to_psum(stream, machine);
    if (on(Mechanism::kSpills)) insert_spills(stream, machine);
}

}  // namespace accelopt::trainium
