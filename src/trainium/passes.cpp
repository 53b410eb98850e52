#include "trainium/passes.h"

#include <algorithm>
#include <iterator>

#include "trainium/placed_tiles.h"
#include "trainium/timing_costs.h"

namespace accelopt::trainium {

std::vector<TileUsers> collect_users(const Stream& stream) {
    std::vector<TileUsers> users(stream.tiles.size());
    for (std::size_t k = 0; k < stream.instructions.size(); ++k) {
        const Instruction& instruction = stream.instructions[k];
        for (int s = 0; s < instruction.sources; ++s) {
            TileUsers& read = users[instruction.src[s].tile];
            read.reader = ++read.reads == 1 ? static_cast<std::int32_t>(k) : -1;
        }
        TileUsers& written = users[instruction.dst.tile];
        written.writer = ++written.writes == 1 ? static_cast<std::int32_t>(k) : -1;
    }
    return users;
}

void keep_only(Stream& stream, const std::vector<bool>& keep) {
    std::size_t kept = 0;
    for (std::size_t k = 0; k < stream.instructions.size(); ++k) {
        if (keep[k]) stream.instructions[kept++] = stream.instructions[k];
    }
    stream.instructions.resize(kept);
}

void remove_dead_code(Stream& stream) {
    std::vector<bool> used(stream.tiles.size(), false);
    const auto& instructions = stream.instructions;
    std::vector<bool> keep(instructions.size(), false);
    for (std::size_t k = instructions.size(); k-- > 0;) {
        const Instruction& instruction = instructions[k];
        const bool to_hbm = stream.tiles[instruction.dst.tile].buffer == nki::Buffer::kHbm;
        if (!to_hbm && !used[instruction.dst.tile]) continue;
        keep[k] = true;
        for (int s = 0; s < instruction.sources; ++s) used[instruction.src[s].tile] = true;
    }
    keep_only(stream, keep);
}

namespace {

/// Returns whether an array was left as written because it would not fit SBUF.
bool run_passes(Stream& stream, const Machine& machine, Mechanisms mechanisms, bool spilled) {
    const auto on = [&](Mechanism mechanism) { return mechanisms.has(mechanism); };
    bool left_out = false;
    if (on(Mechanism::kMergeValues)) left_out = merge_values(stream, machine, spilled);
    if (on(Mechanism::kDeadCode)) remove_dead_code(stream);
    if (on(Mechanism::kStreamLoads)) stream_large_loads(stream, machine);
    if (on(Mechanism::kRenameTiles)) rename_rewritten_tiles(stream);
    if (on(Mechanism::kFoldCopies)) fold_copies(stream);
    if (on(Mechanism::kPsumBroadcasts)) read_broadcasts_from_psum(stream);
    if (on(Mechanism::kPsumTemporaries)) move_temporaries_to_psum(stream, machine);
    if (on(Mechanism::kVectorise)) vectorise_loops(stream, machine);
    if (on(Mechanism::kFuseLoops) && on(Mechanism::kSpills)) fuse_loops(stream, machine);
    if (on(Mechanism::kSpills)) insert_spills(stream, machine);
    return left_out;
}

double busiest_ns(const Stream& stream, const Machine& machine) {
    const BusyTimes busy = busy_times(stream, machine);
    return *std::max_element(std::begin(busy.unit_ns), std::end(busy.unit_ns));
}

}  // namespace

void compile(Stream& stream, const Machine& machine, Mechanisms mechanisms) {
    mechanisms = allowed_passes(stream, mechanisms);
    Stream hoisted;
    const bool choose = mechanisms.has(Mechanism::kHoistSpilled) &&
                        mechanisms.has(Mechanism::kMergeValues) &&
                        mechanisms.has(Mechanism::kSpills);
    if (choose) hoisted = stream;
    if (!run_passes(stream, machine, mechanisms, false) || !choose) return;
    run_passes(hoisted, machine, mechanisms, true);
    const double gain = 1 - busiest_ns(hoisted, machine) / busiest_ns(stream, machine);
    if (gain > machine.hoist_spilled_gain) stream = std::move(hoisted);
}

}  // namespace accelopt::trainium
