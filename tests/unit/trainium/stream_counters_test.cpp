#include "trainium/stream_counters.h"

#include <catch2/catch.hpp>

#include "timing_programs.h"

using namespace accelopt;
using namespace accelopt::trainium;
using namespace accelopt::trainium::testing;

namespace {

Counters counted(const ProgramBuilder& b) { return count(lower(b.program, trn1())); }

}  // namespace

TEST_CASE("loads and stores count their bytes in HBM and SBUF") {
    ProgramBuilder b;
    const auto in = b.input({128, 512});
    const auto out = b.output({128, 256});
    const auto x = b.tile(128, 512, 1);
    b.load(b.whole(x), b.whole(in));
    b.store(b.whole(out), b.window(x, 0, 128, 0, 256));
    const Counters c = counted(b);
    CHECK(c.hbm_read_bytes == 128 * 2048);
    CHECK(c.sbuf_write_bytes == 128 * 2048);
    CHECK(c.hbm_write_bytes == 128 * 1024);
    CHECK(c.sbuf_read_bytes == 128 * 1024);
    CHECK(c.hardware_flops == 0);
    CHECK(c.mm_arithmetic_intensity() == 0.0);
}

TEST_CASE("bytes of a load follow the HBM side's dtype") {
    ProgramBuilder b;
    const auto in = b.input({128, 512}, nki::DType::kBFloat16);
    b.load(b.whole(b.tile(128, 512, 1)), b.whole(in));
    CHECK(counted(b).hbm_read_bytes == 128 * 1024);
}

TEST_CASE("a transfer that casts reads the source's bytes and writes the destination's") {
    ProgramBuilder b;
    const auto in = b.input({128, 512}, nki::DType::kBFloat16);
    const auto out = b.hbm({128, 512}, nki::TensorRole::kOutput, nki::DType::kFloat32);
    b.add(nki::Opcode::kDmaCopy, b.whole(out), {b.whole(in)});
    const auto x = b.tile(128, 512, 1);
    b.load(b.whole(x), b.whole(in));
    const Counters c = counted(b);
    CHECK(c.hbm_read_bytes == 2 * 128 * 1024);
    CHECK(c.hbm_write_bytes == 128 * 2048);
    CHECK(c.sbuf_write_bytes == 128 * 2048);
}

TEST_CASE("fp32 products count twice, bf16 products and zero-one products once") {
    struct Case {
        nki::DType dtype;
        bool onezero;
        int times;
    };
    const Case cases[] = {{nki::DType::kFloat32, false, 2},
                          {nki::DType::kBFloat16, false, 1},
                          {nki::DType::kFloat32, true, 1}};
    for (const Case& c : cases) {
        ProgramBuilder b;
        const auto a = b.tile(64, 128, 1, nki::Buffer::kSbuf, 1, c.dtype);
        const auto w = b.tile(64, 512, 2, nki::Buffer::kSbuf, 1, c.dtype);
        b.matmul(b.whole(b.psum(128, 512, 3)), b.whole(a), b.whole(w)).moving_onezero = c.onezero;
        const Counters counters = counted(b);
        CHECK(counters.hardware_flops == std::int64_t{2} * 64 * 128 * 512 * c.times);
        CHECK(counters.psum_write_bytes == 512 * 4 * c.times);
        CHECK(counters.sbuf_read_bytes == (512 + 128) * nki::size_of(c.dtype) * c.times);
        CHECK(counters.transpose_flops == 0);
    }
}

TEST_CASE("a transpose counts as a product with the identity, flagged zero-one or not") {
    for (bool onezero : {false, true}) {
        ProgramBuilder b;
        const auto x = b.tile(128, 64, 1);
        b.transpose(b.whole(b.psum(64, 128, 2)), b.whole(x), false).moving_onezero = onezero;
        const Counters c = counted(b);
        CHECK(c.transpose_flops == std::int64_t{2} * 2 * 128 * 64 * 128);
        CHECK(c.hardware_flops == c.transpose_flops);
        CHECK(c.psum_write_bytes == 2 * 128 * 4);
        CHECK(c.sbuf_read_bytes == 2 * (128 + 64) * 4);
    }
}

TEST_CASE("one-operand engine instructions count per partition; tensor_tensor does not count") {
    ProgramBuilder b;
    const auto x = b.tile(128, 512, 1);
    const auto y = b.tile(128, 512, 2);
    const auto p = b.psum(128, 512, 3);
    b.copy(b.whole(y), b.whole(p));
    CHECK(counted(b).psum_read_bytes == 2048);
    CHECK(counted(b).sbuf_write_bytes == 2048);
    b.activation(b.whole(x), nki::ActFunction::kExp, b.whole(y));
    CHECK(counted(b).sbuf_read_bytes == 2048);
    CHECK(counted(b).sbuf_write_bytes == 4096);
    b.tensor_tensor(b.whole(x), nki::AluOp::kAdd, b.whole(x), b.whole(y));
    b.add(nki::Opcode::kMemset, b.whole(x));
    CHECK(counted(b).sbuf_read_bytes == 2048);
    CHECK(counted(b).sbuf_write_bytes == 4096);
    b.reduce(b.whole(b.tile(128, 1, 4)), nki::AluOp::kAdd, b.whole(x));
    CHECK(counted(b).sbuf_read_bytes == 4096);
    CHECK(counted(b).sbuf_write_bytes == 4100);
}

TEST_CASE("arithmetic intensity leaves transposes out") {
    ProgramBuilder b;
    const auto in = b.input({128, 512});
    const auto x = b.tile(128, 512, 1);
    b.load(b.whole(x), b.whole(in));
    b.transpose(b.whole(b.psum(128, 128, 2)), b.window(x, 0, 128, 0, 128), false);
    b.matmul(b.whole(b.psum(128, 512, 3)), b.window(x, 0, 128, 0, 128), b.whole(x));
    const double flops = 2.0 * 2 * 128 * 128 * 512;
    CHECK(counted(b).mm_arithmetic_intensity() == Approx(flops / (128 * 2048)));
}
