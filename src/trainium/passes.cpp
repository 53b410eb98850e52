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

void compile(Stream& stream, const Machine& machine) {
    merge_values(stream, machine);
    remove_dead_code(stream);
    stream_large_loads(stream, machine);
    move_temporaries_to_psum(stream, machine);
    insert_spills(stream, machine);
}

}  // namespace accelopt::trainium
