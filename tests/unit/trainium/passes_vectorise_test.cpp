#include <catch2/catch.hpp>

#include "timing_programs.h"
#include "trainium/passes.h"
#include "trainium/timing_costs.h"

using namespace accelopt;
using namespace accelopt::trainium;
using namespace accelopt::trainium::testing;
using nki::ActFunction;
using nki::AluOp;

namespace {

enum class Loop {
    kColumns,    ///< y[:, j] = x[:, j] + 1
    kStrided,    ///< the same, every second column
    kTemporary,  ///< with a tile of its own between the two steps of an iteration
    kBackwards,
    kWide,         ///< 16 columns at a time
    kUneven,       ///< steps of one and two columns
    kAccumulated,  ///< y[:, 0] += x[:, j]
    kRecurrence,   ///< y[:, j + 1] = y[:, j] + x[:, j]
    kCrossed,      ///< a recurrence through two tiles
    kOtherValue,   ///< adds j
    kBigBetween    ///< with an instruction of 512 columns in each iteration
};

/// Sixteen steps of a loop; returns how many instructions continue the one before them.
int vectorised(Loop loop, Machine machine = trn1()) {
    ProgramBuilder b;
    const auto x = b.tile(128, 512, 1);
    const auto y = b.tile(128, 512, 2);
    const auto z = b.tile(128, 512, 3);
    b.add(nki::Opcode::kMemset, b.whole(x)).line = 1;
    b.add(nki::Opcode::kMemset, b.whole(y)).line = 2;
    const auto column = [&](nki::TensorId t, int j, int n = 1) {
        return b.window(t, 0, 128, j, n);
    };
    for (int j = 0; j < 16; ++j) {
        switch (loop) {
            case Loop::kColumns:
                b.scalar(column(y, j), AluOp::kAdd, column(x, j), 1.0).line = 5;
                break;
            case Loop::kStrided:
                b.scalar(column(y, 2 * j), AluOp::kAdd, column(x, j), 1.0).line = 5;
                break;
            case Loop::kTemporary: {
                const auto t = b.tile(128, 1, 4);
                b.scalar(b.whole(t), AluOp::kAdd, column(x, j), 1.0).line = 5;
                b.tensor_tensor(column(y, j), AluOp::kMultiply, b.whole(t), column(x, j)).line = 6;
                break;
            }
            case Loop::kBackwards:
                b.scalar(column(y, 15 - j), AluOp::kAdd, column(x, j), 1.0).line = 5;
                break;
            case Loop::kWide:
                b.scalar(column(y, 16 * j, 16), AluOp::kAdd, column(x, 16 * j, 16), 1.0).line = 5;
                break;
            case Loop::kUneven:
                b.scalar(column(y, 3 * (j / 2) + j % 2), AluOp::kAdd, column(x, j), 1.0).line = 5;
                break;
            case Loop::kAccumulated:
                b.tensor_tensor(column(y, 0), AluOp::kAdd, column(y, 0), column(x, j)).line = 5;
                break;
            case Loop::kRecurrence:
                b.tensor_tensor(column(y, j + 1), AluOp::kAdd, column(y, j), column(x, j)).line = 5;
                break;
            case Loop::kCrossed:
                b.tensor_tensor(column(z, j), AluOp::kAdd, column(y, j), column(x, j)).line = 5;
                b.scalar(column(y, j + 1), AluOp::kMultiply, column(z, j), 2.0).line = 6;
                break;
            case Loop::kOtherValue:
                b.scalar(column(y, j), AluOp::kAdd, column(x, j), j).line = 5;
                break;
            case Loop::kBigBetween:
                b.scalar(column(y, j), AluOp::kAdd, column(x, j), 1.0).line = 5;
                b.activation(b.whole(z), ActFunction::kExp, b.whole(x)).line = 6;
                break;
        }
    }
    Stream stream = lower(b.program, machine);
    vectorise_loops(stream, machine);
    int n = 0;
    for (const Instruction& instruction : stream.instructions) n += instruction.vectorised;
    return n;
}

}  // namespace

TEST_CASE("independent tiny steps become one instruction") {
    CHECK(vectorised(Loop::kColumns) == 15);
    CHECK(vectorised(Loop::kStrided) == 15);
    CHECK(vectorised(Loop::kBackwards) == 15);
    CHECK(vectorised(Loop::kTemporary) == 30);
}

TEST_CASE("steps that depend on each other, differ or are not tiny stay alone") {
    CHECK(vectorised(Loop::kWide) == 0);
    CHECK(vectorised(Loop::kAccumulated) == 0);
    CHECK(vectorised(Loop::kRecurrence) == 0);
    CHECK(vectorised(Loop::kCrossed) == 0);
    CHECK(vectorised(Loop::kOtherValue) == 0);
    CHECK(vectorised(Loop::kBigBetween) == 0);
    CHECK(vectorised(Loop::kUneven) == 8);  // pairs
}

TEST_CASE("an instruction holds so many elements, then another begins") {
    Machine machine = trn1();
    machine.vectorised_elements = 4;
    CHECK(vectorised(Loop::kColumns, machine) == 12);
    machine.vectorised_elements = 0;
    CHECK(vectorised(Loop::kColumns, machine) == 0);
}

TEST_CASE("a vectorised instruction costs its elements, and stays a reason for doubt") {
    Stream stream;
    stream.tiles.resize(2);
    Instruction instruction;
    instruction.op = StreamOp::kTensorScalar;
    instruction.n = 4;
    instruction.sources = 1;
    instruction.src[0].tile = 0;
    instruction.dst.tile = 1;
    stream.instructions.push_back(instruction);
    const double alone = engine_ns(stream.instructions[0], stream, trn1());
    CHECK(alone == Approx((4 + 64) / 1.4));
    stream.instructions[0].vectorised = true;
    CHECK(engine_ns(stream.instructions[0], stream, trn1()) == Approx(4 / 1.4));
    CHECK(busy_times(stream, trn1()).tiny_ns == Approx(alone));
}
