#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>

#include "timing_programs.h"
#include "trainium/passes.h"
#include "trainium/timing_schedule.h"

using namespace accelopt;
using namespace accelopt::trainium;
using namespace accelopt::trainium::testing;
using nki::ActFunction;
using nki::AluOp;
using nki::TensorId;

namespace {

/// Loops as the front end notes them.
class Loops {
  public:
    explicit Loops(ProgramBuilder& builder) : program_(builder.program) {}

    /// Runs `body` for 0 to trips - 1 as one run of the loop `loop`.
    void run(int loop, int trips, const std::function<void(int)>& body) {
        const int run = runs_++;
        for (int i = 0; i < trips; ++i) {
            const auto here = program_.iterations.size();
            const auto now = static_cast<std::int32_t>(program_.operations.size());
            program_.iterations.push_back({loop, run, now, now});
            body(i);
            program_.iterations[here].end = static_cast<std::int32_t>(program_.operations.size());
        }
    }

  private:
    nki::Program& program_;
    int runs_ = 0;
};

constexpr int kTrips = 16;

/// Two loops: the first loads a row block and keeps its exponential, the second squares what the
/// first kept at `index(i)` and stores it. A block has `columns` fp32 per partition.
struct TwoLoops {
    int columns = 4096;  ///< 16 KiB: 16 of them do not fit SBUF
    int second_trips = kTrips;
    std::function<int(int)> index = [](int i) { return i; };
    std::function<void(ProgramBuilder&, TensorId kept)> between = [](ProgramBuilder&, TensorId) {};

    Stream lowered() const {
        ProgramBuilder b;
        Loops loops(b);
        const auto in = b.input({128 * kTrips, columns});
        const auto out = b.output({128 * kTrips, columns});
        const auto kept = b.tile(128, columns, 1, nki::Buffer::kSbuf, kTrips);
        loops.run(0, kTrips, [&](int i) {
            const auto x = b.tile(128, columns, 2);
            b.load(b.whole(x), b.window(in, 128 * i, 128, 0, columns));
            b.activation(b.whole(kept, i), ActFunction::kExp, b.whole(x));
        });
        between(b, kept);
        loops.run(1, second_trips, [&](int i) {
            const auto y = b.tile(128, columns, 3);
            b.activation(b.whole(y), ActFunction::kSquare, b.whole(kept, index(i)));
            b.store(b.window(out, 128 * i, 128, 0, columns), b.whole(y));
        });
        return lower(b.program, trn1());
    }
};

std::vector<std::int32_t> operations(const Stream& stream) {
    std::vector<std::int32_t> result;
    for (const Instruction& instruction : stream.instructions)
        result.push_back(instruction.operation);
    return result;
}

bool is_changed(Stream stream) {
    const std::vector<std::int32_t> before = operations(stream);
    fuse_loops(stream, trn1());
    std::vector<std::int32_t> after = operations(stream);
    const bool changed = before != after;
    std::sort(after.begin(), after.end());
    CHECK(after == before);  // nothing is lost
    return changed;
}

std::int64_t spilled_bytes(Stream stream) {
    insert_spills(stream, trn1());
    std::int64_t bytes = 0;
    for (const Instruction& instruction : stream.instructions) {
        if (instruction.op == StreamOp::kSpill || instruction.op == StreamOp::kReload)
            bytes += instruction.bytes;
    }
    return bytes;
}

}  // namespace

TEST_CASE("loops whose tiles would overflow SBUF take turns, iteration by iteration") {
    Stream stream = TwoLoops{}.lowered();
    CHECK(spilled_bytes(stream) > 0);
    fuse_loops(stream, trn1());
    CHECK(spilled_bytes(stream) == 0);
    std::vector<std::int32_t> expected;
    for (int i = 0; i < kTrips; ++i) {
        for (int k = 0; k < 2; ++k) expected.push_back(2 * i + k);
        for (int k = 0; k < 2; ++k) expected.push_back(2 * kTrips + 2 * i + k);
    }
    CHECK(operations(stream) == expected);
    CHECK(stream.iterations.empty());
}

TEST_CASE("loops whose tiles fit SBUF stay as written") {
    TwoLoops fits;
    fits.columns = 2048;  // 16 x 8 KiB, with 8 KiB for x or y: 136 of 156 KiB
    CHECK_FALSE(is_changed(fits.lowered()));
    fits.columns = 2560;  // 16 x 10 KiB
    CHECK(is_changed(fits.lowered()));
}

TEST_CASE("a loop that needs more than its own iteration of the other is not fused") {
    TwoLoops backwards;
    backwards.index = [](int i) { return kTrips - 1 - i; };
    CHECK_FALSE(is_changed(backwards.lowered()));
    TwoLoops ahead;
    ahead.index = [](int i) { return std::min(i + 1, kTrips - 1); };
    CHECK_FALSE(is_changed(ahead.lowered()));
    TwoLoops behind;
    behind.index = [](int i) { return std::max(i - 1, 0); };
    CHECK(is_changed(behind.lowered()));
    TwoLoops shorter;
    shorter.second_trips = kTrips - 1;
    CHECK_FALSE(is_changed(shorter.lowered()));
}

TEST_CASE("what stands between the loops goes before or after them, if it can") {
    TwoLoops constant;  // does not depend on the first loop, and the second could need it
    constant.between = [](ProgramBuilder& b, TensorId) {
        b.add(nki::Opcode::kMemset, b.whole(b.tile(128, 8, 4)));
    };
    Stream stream = constant.lowered();
    fuse_loops(stream, trn1());
    CHECK(stream.instructions.front().op == StreamOp::kMemset);

    TwoLoops sum;  // of what the first loop kept last; nothing in the second needs it
    sum.between = [](ProgramBuilder& b, TensorId kept) {
        b.reduce(b.whole(b.tile(128, 1, 4)), AluOp::kAdd, b.whole(kept, kTrips - 1));
    };
    stream = sum.lowered();
    fuse_loops(stream, trn1());
    CHECK(stream.instructions.back().op == StreamOp::kReduce);

    TwoLoops normalised;  // rewrites a tile that the second loop reads
    normalised.between = [](ProgramBuilder& b, TensorId kept) {
        const auto total = b.tile(128, 1, 4);
        b.reduce(b.whole(total), AluOp::kAdd, b.whole(kept, kTrips - 1));
        b.scalar(b.whole(kept, 0), AluOp::kMultiply, b.whole(kept, 0), b.whole(total));
    };
    CHECK_FALSE(is_changed(normalised.lowered()));
}

TEST_CASE("loops inside fused loops are fused where that is legal") {
    // Two outer iterations of eight blocks each, 2 x 128 KiB: only together do they fit.
    ProgramBuilder b;
    Loops loops(b);
    constexpr int kColumns = 4096;
    const auto in = b.input({128 * 32, kColumns});
    const auto out = b.output({128 * 32, kColumns});
    const auto kept = b.tile(128, kColumns, 1, nki::Buffer::kSbuf, 32);
    loops.run(0, 2, [&](int o) {
        loops.run(1, 16, [&](int i) {
            const auto x = b.tile(128, kColumns, 2);
            b.load(b.whole(x), b.window(in, 128 * (16 * o + i), 128, 0, kColumns));
            b.activation(b.whole(kept, 16 * o + i), ActFunction::kExp, b.whole(x));
        });
    });
    loops.run(2, 2, [&](int o) {
        loops.run(3, 16, [&](int i) {
            const auto y = b.tile(128, kColumns, 3);
            b.activation(b.whole(y), ActFunction::kSquare, b.whole(kept, 16 * o + i));
            b.store(b.window(out, 128 * (16 * o + i), 128, 0, kColumns), b.whole(y));
        });
    });
    Stream stream = lower(b.program, trn1());
    fuse_loops(stream, trn1());
    CHECK(spilled_bytes(stream) == 0);
    const std::vector<std::int32_t> order = operations(stream);
    CHECK(std::vector(order.begin(), order.begin() + 8) ==
          std::vector<std::int32_t>{0, 1, 64, 65, 2, 3, 66, 67});
}

TEST_CASE("a dependency through HBM keeps loops apart") {
    // The second loop reads the row that the next iteration of the first one stores.
    ProgramBuilder b;
    Loops loops(b);
    constexpr int kColumns = 4096;
    const auto in = b.input({128 * kTrips, kColumns});
    const auto scratch = b.hbm({128 * kTrips, kColumns}, nki::TensorRole::kScratch);
    const auto out = b.output({128 * kTrips, kColumns});
    const auto kept = b.tile(128, kColumns, 1, nki::Buffer::kSbuf, kTrips);
    const bool next = GENERATE(false, true);
    loops.run(0, kTrips, [&](int i) {
        b.load(b.whole(kept, i), b.window(in, 128 * i, 128, 0, kColumns));
        b.activation(b.whole(kept, i), ActFunction::kExp, b.whole(kept, i));
        b.store(b.window(scratch, 128 * i, 128, 0, kColumns), b.whole(kept, i));
    });
    loops.run(1, kTrips, [&](int i) {
        const auto x = b.tile(128, kColumns, 2);
        const auto y = b.tile(128, kColumns, 3);
        const int row = next ? (i + 1) % kTrips : i;
        b.load(b.whole(x), b.window(scratch, 128 * row, 128, 0, kColumns));
        b.tensor_tensor(b.whole(y), AluOp::kAdd, b.whole(x), b.whole(kept, i));
        b.store(b.window(out, 128 * i, 128, 0, kColumns), b.whole(y));
    });
    CHECK(is_changed(lower(b.program, trn1())) == !next);
}
