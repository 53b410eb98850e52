#include <catch2/catch.hpp>

#include "timing_programs.h"
#include "trainium/passes.h"

using namespace accelopt;
using namespace accelopt::trainium;
using namespace accelopt::trainium::testing;
using nki::AluOp;

namespace {

/// temporary = op(x); y = temporary * x. Returns where the temporary ends up.
nki::Buffer place_of_temporary(std::int64_t columns, bool activation, int uses,
                               nki::Engine engine = nki::Engine::kAuto) {
    ProgramBuilder b;
    const auto x = b.tile(128, columns, 1);
    const auto t = b.tile(128, columns, 2);
    const auto y = b.tile(128, columns, 3);
    if (activation) {
        b.activation(b.whole(t), nki::ActFunction::kExp, b.whole(x));
    } else {
        b.add(nki::Opcode::kReciprocal, b.whole(t), {b.whole(x)});
    }
    for (int use = 0; use < uses; ++use)
        b.tensor_tensor(b.whole(y), AluOp::kMultiply, b.whole(x), b.whole(t)).engine = engine;
    Stream stream = lower(b.program, trn1());
    move_temporaries_to_psum(stream, trn1());
    return stream.tiles[stream.instructions[0].dst.tile].buffer;
}

}  // namespace

TEST_CASE("a single-use temporary of ScalarE moves to PSUM up to one bank") {
    using nki::Buffer;
    CHECK(place_of_temporary(512, true, 1) == Buffer::kPsum);
    CHECK(place_of_temporary(513, true, 1) == Buffer::kSbuf);
    CHECK(place_of_temporary(64, true, 1) == Buffer::kPsum);
    CHECK(place_of_temporary(63, true, 1) == Buffer::kSbuf);
    CHECK(place_of_temporary(512, true, 2) == Buffer::kSbuf);
    CHECK(place_of_temporary(512, false, 1) == Buffer::kSbuf);
    CHECK(place_of_temporary(512, true, 1, nki::Engine::kGpSimd) == Buffer::kSbuf);
}

TEST_CASE("only one operand of a tensor_tensor moves to PSUM") {
    ProgramBuilder b;
    const auto x = b.tile(128, 512, 1);
    const auto s = b.tile(128, 512, 2);
    const auto t = b.tile(128, 512, 3);
    b.scalar(b.whole(s), AluOp::kAdd, b.whole(x), 1.0);
    b.scalar(b.whole(t), AluOp::kAdd, b.whole(x), 2.0);
    b.tensor_tensor(b.whole(b.tile(128, 512, 4)), AluOp::kAdd, b.whole(s), b.whole(t));
    Stream stream = lower(b.program, trn1());
    move_temporaries_to_psum(stream, trn1());
    int moved = 0;
    for (const Tile& tile : stream.tiles) moved += tile.buffer == nki::Buffer::kPsum;
    CHECK(moved == 1);
}
