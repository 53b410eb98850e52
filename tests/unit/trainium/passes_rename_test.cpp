#include <algorithm>
#include <catch2/catch.hpp>
#include <set>

#include "timing_programs.h"
#include "trainium/passes.h"

using namespace accelopt;
using namespace accelopt::trainium;
using namespace accelopt::trainium::testing;
using nki::ActFunction;
using nki::AluOp;

namespace {

enum class Use { kSame, kPart, kBeyond, kInPlace, kMasked, kPlaced, kBeforeAnyWrite };

/// One tile of 128 x 512 that four steps load (the first 256 columns of it) and read; returns how
/// many tiles the loads fill.
std::size_t tiles_of_four_steps(Use use) {
    ProgramBuilder b;
    const auto in = b.input({512, 256});
    const auto buffer = b.tile(128, 512, 1);
    const auto columns = [&](std::int64_t n) { return b.window(buffer, 0, 128, 0, n); };
    if (use == Use::kPlaced) b.program.tensors[buffer].placements.emplace_back();
    if (use == Use::kBeforeAnyWrite)
        b.activation(b.whole(b.tile(128, 256, 2)), ActFunction::kExp, columns(256));
    for (int step = 0; step < 4; ++step) {
        auto& load = b.load(columns(256), b.window(in, 128 * step, 128, 0, 256));
        if (use == Use::kMasked) load.mask = {rows_below(0, 127)};
        if (use == Use::kInPlace) b.activation(columns(256), ActFunction::kExp, columns(256));
        const std::int64_t read = use == Use::kPart ? 100 : use == Use::kBeyond ? 257 : 256;
        b.activation(b.whole(b.tile(128, read, 2)), ActFunction::kExp, columns(read));
    }
    Stream stream = lower(b.program, trn1());
    rename_rewritten_tiles(stream);
    std::set<std::int32_t> tiles;
    for (const Instruction& instruction : stream.instructions) {
        if (instruction.op != StreamOp::kLoad) continue;
        tiles.insert(instruction.dst.tile);
        const auto reader = std::find_if(
            stream.instructions.begin() + (&instruction - stream.instructions.data()),
            stream.instructions.end(),
            [](const Instruction& other) { return other.op == StreamOp::kActivation; });
        CHECK(reader->src[0].tile == instruction.dst.tile);
    }
    return tiles.size();
}

}  // namespace

TEST_CASE("every value of a buffer that is loaded and read again gets a tile of its own") {
    CHECK(tiles_of_four_steps(Use::kSame) == 4);
    CHECK(tiles_of_four_steps(Use::kPart) == 4);
}

TEST_CASE("buffers that keep something across a write keep their name") {
    CHECK(tiles_of_four_steps(Use::kBeyond) == 1);
    CHECK(tiles_of_four_steps(Use::kInPlace) == 1);
    CHECK(tiles_of_four_steps(Use::kMasked) == 1);
    CHECK(tiles_of_four_steps(Use::kBeforeAnyWrite) == 1);
    CHECK(tiles_of_four_steps(Use::kPlaced) == 1);
}
