#include <catch2/catch.hpp>

#include "timing_programs.h"
#include "trainium/passes.h"
#include "trainium/timing_costs.h"

using namespace accelopt;
using namespace accelopt::trainium;
using namespace accelopt::trainium::testing;
using nki::AluOp;

namespace {

/// exp or a VectorE reciprocal of x, then a copy of it; returns what the copy costs, in ns.
double copy_ns(bool activation, std::int64_t copied, nki::DType dtype,
               nki::Engine engine = nki::Engine::kAuto) {
    ProgramBuilder b;
    const auto x = b.tile(128, 512, 1);
    const auto e = b.tile(128, 512, 2);
    const auto narrow = b.tile(128, copied, 3, nki::Buffer::kSbuf, 1, dtype);
    if (activation) {
        b.activation(b.whole(e), nki::ActFunction::kExp, b.whole(x));
    } else {
        b.add(nki::Opcode::kReciprocal, b.whole(e), {b.whole(x)});
    }
    b.copy(b.whole(narrow), b.window(e, 0, 128, 0, copied)).engine = engine;
    Stream stream = lower(b.program, trn1());
    fold_copies(stream);
    return engine_ns(stream.instructions.back(), stream, trn1());
}

constexpr double kIssue_ns = 64 / 1.4;
constexpr double kWhole_ns = (512 + 64) / 1.4;

}  // namespace

TEST_CASE("a copy of a whole activation result costs its issue only, cast or not") {
    CHECK(copy_ns(true, 512, nki::DType::kBFloat16) == Approx(kIssue_ns));
    CHECK(copy_ns(true, 512, nki::DType::kFloat32) == Approx(kIssue_ns));
}

TEST_CASE("other copies cost their elements") {
    CHECK(copy_ns(false, 512, nki::DType::kBFloat16) == Approx(kWhole_ns));
    CHECK(copy_ns(true, 511, nki::DType::kBFloat16) == Approx((511 + 64) / 1.4));
    CHECK(copy_ns(true, 512, nki::DType::kBFloat16, nki::Engine::kVector) ==
          Approx((512 + 64) / 1.12));
}

TEST_CASE("nki.isa's special prices: narrow sums and zeros, bn_aggr, sums on the way") {
    const Machine machine = trn1();
    const auto reduce_ns = [&](nki::DType in, nki::DType out, AluOp op, bool on_the_way) {
        ProgramBuilder b;
        const auto x = b.tile(128, 512, 1, nki::Buffer::kSbuf, 1, in);
        const auto y = b.tile(128, 1, 2, nki::Buffer::kSbuf, 1, out);
        b.reduce(b.whole(y), op, b.whole(x)).implicit = on_the_way;
        const Stream stream = lower(b.program, machine);
        return engine_ns(stream.instructions.back(), stream, machine);
    };
    constexpr auto kHalf = nki::DType::kBFloat16;
    constexpr auto kFull = nki::DType::kFloat32;
    CHECK(reduce_ns(kFull, kFull, AluOp::kAdd, false) == Approx((512 + 64) / 1.12));
    CHECK(reduce_ns(kHalf, kHalf, AluOp::kAdd, false) == Approx((256 + 64) / 1.12));
    CHECK(reduce_ns(kHalf, kHalf, AluOp::kMax, false) == Approx((256 + 64) / 1.12));
    CHECK(reduce_ns(kHalf, kHalf, AluOp::kMin, false) == Approx((512 + 64) / 1.12));
    CHECK(reduce_ns(kHalf, kFull, AluOp::kAdd, false) == Approx((512 + 64) / 1.12));
    CHECK(reduce_ns(kFull, kFull, AluOp::kAdd, true) == Approx(64 / 1.12));
}
