#include "trainium/timing_costs.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "core/error.h"
#include "timing_programs.h"

using namespace accelopt;
using namespace accelopt::trainium;
using namespace accelopt::trainium::testing;
using nki::AluOp;
using nki::Buffer;
using nki::Engine;

namespace {

double cost_of_last(const ProgramBuilder& b) {
    const Machine machine = trn1();
    const Stream stream = lower(b.program, machine);
    return engine_ns(stream.instructions.back(), stream, machine);
}

double tensor_tensor_ns(Buffer buffer, nki::DType dtype = nki::DType::kFloat32,
                        Engine engine = Engine::kAuto) {
    ProgramBuilder b;
    const auto x = b.tile(128, 512, 1, buffer, 1, dtype);
    const auto y = b.tile(128, 512, 2, Buffer::kSbuf, 1, dtype);
    b.tensor_tensor(b.whole(b.tile(128, 512, 3)), AluOp::kAdd, b.whole(y), b.whole(x)).engine =
        engine;
    return cost_of_last(b);
}

double matmul_ns(std::int64_t m, std::int64_t n, nki::DType dtype = nki::DType::kFloat32,
                 bool onezero = false) {
    ProgramBuilder b;
    const auto x = b.tile(128, m, 1, Buffer::kSbuf, 1, dtype);
    const auto y = b.tile(128, n, 2, Buffer::kSbuf, 1, dtype);
    b.matmul(b.whole(b.psum(m, n, 3)), b.whole(x), b.whole(y)).stationary_onezero = onezero;
    return cost_of_last(b);
}

}  // namespace

TEST_CASE("a matmul costs passes times columns plus overhead") {
    CHECK(matmul_ns(128, 512) == Approx(4 * (512 + 80) / 2.8));
    CHECK(matmul_ns(128, 512, nki::DType::kBFloat16) == Approx((512 + 80) / 2.8));
    CHECK(matmul_ns(128, 512, nki::DType::kFloat32, true) == Approx(2 * (512 + 80) / 2.8));
}

TEST_CASE("few moving columns cost as many as the stationary operand has, up to 64") {
    CHECK(matmul_ns(128, 65) > matmul_ns(128, 64));
    CHECK(matmul_ns(128, 64) == Approx(4 * 144 / 2.8));
    CHECK(matmul_ns(128, 32) == Approx(4 * 144 / 2.8));
    CHECK(matmul_ns(63, 32) == Approx(4 * 143 / 2.8));
    CHECK(matmul_ns(32, 32) == Approx(4 * 112 / 2.8));
}

TEST_CASE("a transpose takes four passes in fp32 even with a zero-one identity") {
    ProgramBuilder b;
    const auto x = b.tile(128, 128, 1);
    b.transpose(b.whole(b.psum(128, 128, 2)), b.whole(x), false).moving_onezero = true;
    CHECK(cost_of_last(b) == Approx(4 * (128 + 80) / 2.8));
}

TEST_CASE("tensor_tensor reads two SBUF operands in turn, and hides one in PSUM") {
    CHECK(tensor_tensor_ns(Buffer::kSbuf) == Approx((2 * 512 + 64) / 1.12));
    CHECK(tensor_tensor_ns(Buffer::kPsum) == Approx((512 + 64) / 1.12));
    CHECK(tensor_tensor_ns(Buffer::kSbuf, nki::DType::kBFloat16) == Approx((512 + 64) / 1.12));
    CHECK(tensor_tensor_ns(Buffer::kSbuf, nki::DType::kFloat32, Engine::kGpSimd) ==
          Approx((2 * 512 + 150) / 1.4));
}

TEST_CASE("the other engine instructions cost their documented or fitted factor") {
    ProgramBuilder b;
    const auto x = b.tile(128, 512, 1);
    const auto y = b.tile(128, 512, 2);
    b.copy(b.whole(y), b.whole(x));
    CHECK(cost_of_last(b) == Approx((512 + 64) / 1.4));
    b.activation(b.whole(y), nki::ActFunction::kExp, b.whole(x));
    CHECK(cost_of_last(b) == Approx((512 + 64) / 1.4));
    b.add(nki::Opcode::kReciprocal, b.whole(y), {b.whole(x)});
    CHECK(cost_of_last(b) == Approx((2.6 * 512 + 64) / 1.12));
    b.add(nki::Opcode::kScan, b.whole(y), {b.whole(x), b.whole(x)});
    CHECK(cost_of_last(b) == Approx((2 * 512 + 64) / 1.12));
    b.reduce(b.whole(b.tile(128, 1, 3)), AluOp::kAdd, b.whole(x));
    CHECK(cost_of_last(b) == Approx((512 + 64) / 1.12));
    b.add(nki::Opcode::kMemset, b.whole(y));
    CHECK(cost_of_last(b) == Approx((512 + 64) / 1.12));
    b.add(nki::Opcode::kIota, b.whole(y));
    CHECK(cost_of_last(b) == Approx((512 + 150) / 1.4));
}

namespace {

/// Cycles per element of a VectorE copy of 512 columns, without its overhead.
double copy_factor(const Machine& machine, nki::DType from, nki::DType to,
                   Buffer source = Buffer::kSbuf, std::int64_t stride = 1) {
    ProgramBuilder b;
    const auto x = b.tile(128, 512 * stride, 1, source, 1, from);
    const auto y = b.tile(128, 512, 2, Buffer::kSbuf, 1, to);
    b.copy(b.whole(y), b.view(x, 0, {512 * stride, 128}, {stride, 512})).engine = Engine::kVector;
    const Stream stream = lower(b.program, machine);
    const double cycles = engine_ns(stream.instructions.back(), stream, machine) * 1.12;
    return (cycles - 64) / 512;
}

}  // namespace

TEST_CASE("performance modes of VectorE copies are by element size, memory and access pattern") {
    using nki::DType;
    const Machine v2 = trn1();
    Machine v3 = trn1();
    v3.vector_copy_factor = 0.5;
    v3.vector_copy_two_byte_factor = 0.25;
    v3.vector_copy_two_byte_strided_factor = 0.6;
    CHECK(copy_factor(v2, DType::kBFloat16, DType::kBFloat16) == Approx(1));
    CHECK(copy_factor(v3, DType::kFloat32, DType::kFloat32) == Approx(0.5));
    CHECK(copy_factor(v3, DType::kFloat32, DType::kFloat32, Buffer::kPsum) == Approx(1));
    CHECK(copy_factor(v3, DType::kFloat32, DType::kFloat32, Buffer::kSbuf, 2) == Approx(1));
    CHECK(copy_factor(v3, DType::kBFloat16, DType::kBFloat16) == Approx(0.25));
    CHECK(copy_factor(v3, DType::kBFloat16, DType::kFloat16) == Approx(0.25));
    CHECK(copy_factor(v3, DType::kBFloat16, DType::kBFloat16, Buffer::kSbuf, 2) == Approx(0.6));
    CHECK(copy_factor(v3, DType::kBFloat16, DType::kBFloat16, Buffer::kPsum) == Approx(0.6));
    CHECK(copy_factor(v3, DType::kBFloat16, DType::kFloat32) == Approx(0.5));
}

TEST_CASE("fp32 transposes have passes of their own, products keep theirs") {
    Machine v3 = trn1();
    v3.tensor_fp32_transpose_passes = 2;
    ProgramBuilder b;
    const auto x = b.tile(128, 128, 1);
    b.transpose(b.whole(b.psum(128, 128, 2)), b.whole(x), false);
    const Stream transposes = lower(b.program, v3);
    CHECK(engine_ns(transposes.instructions.back(), transposes, v3) == Approx(2 * 208 / 2.8));
    b.matmul(b.whole(b.psum(128, 128, 3)), b.whole(x), b.whole(x));
    const Stream products = lower(b.program, v3);
    CHECK(engine_ns(products.instructions.back(), products, v3) == Approx(4 * 208 / 2.8));
}

TEST_CASE("the compiler's engine choice holds unless the source asks for one") {
    ProgramBuilder b;
    const auto x = b.tile(128, 512, 1);
    const auto y = b.tile(128, 512, 2);
    auto unit = [&] { return unit_of(lower(b.program, trn1()).instructions.back()); };
    nki::Operation& copy = b.copy(b.whole(y), b.whole(x));
    CHECK(unit() == Unit::kAct);
    copy.engine = Engine::kVector;
    CHECK(unit() == Unit::kDve);
    copy.engine = Engine::kGpSimd;
    CHECK(unit() == Unit::kPool);
    b.scalar(b.whole(y), AluOp::kAdd, b.whole(x), 1.0);
    CHECK(unit() == Unit::kAct);
    b.scalar(b.whole(y), AluOp::kAdd, b.whole(x), 1.0).engine = Engine::kVector;
    CHECK(unit() == Unit::kDve);
    b.tensor_tensor(b.whole(y), AluOp::kAdd, b.whole(x), b.whole(y));
    CHECK(unit() == Unit::kDve);
    b.tensor_tensor(b.whole(y), AluOp::kAdd, b.whole(x), b.whole(y)).engine = Engine::kGpSimd;
    CHECK(unit() == Unit::kPool);
    b.matmul(b.whole(b.psum(128, 512, 3)), b.whole(x), b.whole(y)).engine = Engine::kVector;
    CHECK(unit() == Unit::kPe);
}

TEST_CASE("a DMA uses one queue per eight rows, at most sixteen") {
    const Machine machine = trn1();
    const int expected[][2] = {{1, 1}, {8, 1}, {9, 2}, {16, 2}, {17, 3}, {128, 16}, {129, 16}};
    for (const auto& [rows, queues] : expected) {
        CAPTURE(rows);
        CHECK(dma_cost(dma(rows * 1024, 1024, rows, 1024), machine).queues == queues);
    }
}

TEST_CASE("a DMA costs its descriptors, spread over its queues") {
    const Machine machine = trn1();
    const DmaCost cost = dma_cost(dma(128 * 2048, 2048, 128, 4096), machine);
    CHECK(cost.queue_ns == Approx(8 * (2048 / 17.0 + 15)));
    CHECK_FALSE(cost.far_stride);
}

TEST_CASE("a transfer keeps its queues busy for a microsecond at least") {
    const Machine machine = trn1();
    const auto queue_ns = [&](std::int64_t row, std::int64_t run) {
        return dma_cost(dma(128 * row, run, 128, 4096), machine).queue_ns;
    };
    // Eight rows a queue: 1870 bytes each take 1000 ns, shorter rows as long, longer ones longer.
    CHECK(queue_ns(1868, 1868) == Approx(1000.0));
    CHECK(queue_ns(1872, 1872) == Approx(8 * (1872 / 17.0 + 15)));
    CHECK(queue_ns(4, 4) == Approx(1000.0));
    // Rows in pieces: 32 pieces of 64 bytes fit in the same microsecond, 64 of them do not.
    CHECK(queue_ns(256, 64) == Approx(1000.0));
    CHECK(queue_ns(512, 64) == Approx(64 * (64 / 17.0 + 15)));
}

TEST_CASE("the far-stride rule holds from 512 KiB on and never makes a descriptor cheaper") {
    const Machine machine = trn1();
    const DmaCost near = dma_cost(dma(128 * 2048, 2048, 128, 512 * 1024 - 4), machine);
    const DmaCost far = dma_cost(dma(128 * 2048, 2048, 128, 512 * 1024), machine);
    CHECK_FALSE(near.far_stride);
    CHECK(near.queue_ns == Approx(8 * (2048 / 17.0 + 15)));
    CHECK(far.far_stride);
    CHECK(far.queue_ns == Approx(8 * 355.0));
    const DmaCost large = dma_cost(dma(128 * 65536, 65536, 128, 512 * 1024), machine);
    CHECK_FALSE(large.far_stride);
    CHECK(large.queue_ns == Approx(8 * (65536 / 17.0 + 15)));
}

TEST_CASE("busy times tell tiny and single-element work apart") {
    ProgramBuilder b;
    const auto in = b.input({128, 128});
    const auto small = b.tile(128, 15, 1);
    const auto large = b.tile(128, 16, 2);
    b.copy(b.whole(small), b.whole(small));
    b.copy(b.whole(large), b.whole(large));
    b.load(b.whole(b.tile(128, 128, 3)), b.view(in, 0, {1, 128}, {128, 128}));  // transposed
    b.load(b.whole(b.tile(128, 1, 4)), b.window(in, 0, 128, 0, 1));             // a column vector
    const Stream stream = lower(b.program, trn1());
    const BusyTimes busy = busy_times(stream, trn1());
    CHECK(busy.tiny_ns == Approx((15 + 64) / 1.4));
    CHECK(busy.engines_ns() == Approx((15 + 64 + 16 + 64) / 1.4));
    const DmaCost transposed = dma_cost(stream.instructions[2], trn1());
    CHECK(busy.dma_single_element_ns == Approx(transposed.queue_ns * transposed.queues / 16));
}

TEST_CASE("a DMA has no engine time") {
    CHECK_THROWS_AS(engine_ns(dma(4, 4, 1, 4), Stream{}, trn1()), Error);
}

TEST_CASE("a narrow operand makes no wide one cheaper", "[X23]") {
    const auto pair_ns = [](nki::DType first, nki::DType second) {
        ProgramBuilder b;
        const auto x = b.tile(128, 512, 1, Buffer::kSbuf, 1, first);
        const auto y = b.tile(128, 512, 2, Buffer::kSbuf, 1, second);
        b.tensor_tensor(b.whole(b.tile(128, 512, 3)), AluOp::kAdd, b.whole(x), b.whole(y));
        return cost_of_last(b);
    };
    const auto product_ns = [](nki::DType first, nki::DType second, bool onezero) {
        ProgramBuilder b;
        const auto x = b.tile(128, 128, 1, Buffer::kSbuf, 1, first);
        const auto y = b.tile(128, 512, 2, Buffer::kSbuf, 1, second);
        b.matmul(b.whole(b.psum(128, 512, 3)), b.whole(x), b.whole(y)).stationary_onezero = onezero;
        return cost_of_last(b);
    };
    using enum nki::DType;
    CHECK(pair_ns(kBFloat16, kFloat32) == pair_ns(kFloat32, kFloat32));
    CHECK(pair_ns(kInt8, kFloat32) == pair_ns(kFloat32, kFloat32));
    CHECK(pair_ns(kBFloat16, kBFloat16) < pair_ns(kFloat32, kFloat32));
    CHECK(product_ns(kBFloat16, kFloat32, false) == product_ns(kFloat32, kFloat32, false));
    // "no impact for non-float32 stationary" (nki.isa.nc_matmul)
    CHECK(product_ns(kBFloat16, kFloat32, true) == product_ns(kFloat32, kFloat32, false));
    CHECK(product_ns(kFloat32, kFloat32, true) < product_ns(kFloat32, kFloat32, false));
}

TEST_CASE("an operation split in two is never cheaper, nor faster than its lanes", "[X23]") {
    const auto elementwise_ns = [](nki::Opcode opcode, std::int64_t n, Engine engine) {
        ProgramBuilder b;
        const auto x = b.tile(128, n, 1);
        const auto y = b.tile(128, n, 2);
        auto& operation = opcode == nki::Opcode::kTensorTensor || opcode == nki::Opcode::kScan
                              ? b.add(opcode, b.whole(b.tile(128, n, 3)), {b.whole(x), b.whole(y)})
                              : b.add(opcode, b.whole(b.tile(128, n, 3)), {b.whole(x)});
        operation.engine = engine;
        return cost_of_last(b);
    };
    const Machine machine = trn1();
    const double fastest_ghz =
        std::max({machine.scalar_ghz, machine.vector_ghz, machine.gpsimd_ghz});
    for (const nki::Opcode opcode :
         {nki::Opcode::kMemset, nki::Opcode::kCopy, nki::Opcode::kActivation,
          nki::Opcode::kTensorScalar, nki::Opcode::kTensorTensor, nki::Opcode::kReciprocal,
          nki::Opcode::kScan, nki::Opcode::kSelect, nki::Opcode::kRandom}) {
        INFO(nki::to_string(opcode));
        for (const Engine engine : {Engine::kAuto, Engine::kVector, Engine::kGpSimd}) {
            const double whole = elementwise_ns(opcode, 512, engine);
            CHECK(whole >= 512 / fastest_ghz);
            for (const std::int64_t part : {1, 8, 128, 256}) {
                const double split = elementwise_ns(opcode, part, engine) +
                                     elementwise_ns(opcode, 512 - part, engine);
                CHECK(split >= whole);
            }
        }
    }
    for (const std::int64_t part : {1, 64, 128, 256})
        CHECK(matmul_ns(128, part) + matmul_ns(128, 512 - part) >= matmul_ns(128, 512));
    for (const std::int64_t part : {1, 32, 64})
        CHECK(matmul_ns(part, 512) + matmul_ns(128 - part, 512) >= matmul_ns(128, 512));
}

TEST_CASE("a DMA is charged its bytes, and splitting it saves none", "[X23]") {
    const Machine machine = trn1();
    const auto queues_ns = [&](std::int64_t bytes, std::int64_t run, std::int32_t rows) {
        const DmaCost cost = dma_cost(dma(bytes, run, rows, 4096), machine);
        return cost.queue_ns * cost.queues;
    };
    for (const std::int64_t run : {4, 64, 2048, 65536}) {
        INFO(run);
        const double whole = queues_ns(run * 128, run, 128);
        CHECK(whole >= static_cast<double>(run) * 128 / machine.dma_queue_bytes_per_ns);
        CHECK(queues_ns(run * 64, run, 64) * 2 >= whole);
        CHECK(queues_ns(run, run, 1) * 128 >= whole);
        if (run > 4) CHECK(queues_ns(run * 64, run / 2, 128) * 2 >= whole);
    }
}

namespace {

/// A transposing load (or within SBUF) of [free, partitions] to [partitions, free], as
/// nl.load_transpose2d and nisa.dma_transpose lower.
double turned_ns(std::int64_t partitions, std::int64_t free, const Machine& machine,
                 bool in_sbuf = false, const char* api = "nisa.dma_transpose",
                 nki::DType dtype = nki::DType::kFloat32) {
    ProgramBuilder b;
    b.program.api_names.push_back(api);
    const auto to = b.tile(partitions, free, 1, Buffer::kSbuf, 1, dtype);
    if (in_sbuf) {
        auto& op = b.transpose(
            b.whole(to), b.whole(b.tile(free, partitions, 2, Buffer::kSbuf, 1, dtype)), false);
        op.engine = Engine::kDma;
        op.api = 0;
    } else {
        const auto from = b.input({free, partitions}, dtype);
        b.load(b.whole(to), b.view(from, 0, {1, partitions}, {partitions, free})).api = 0;
    }
    const Stream stream = lower(b.program, machine);
    return dma_cost(stream.instructions.at(0), machine).queue_ns;
}

Machine with_dma_transposes() {
    Machine machine = trn1();
    machine.dma_transpose_hbm_share = 0.9;
    machine.dma_transpose_sbuf_share = 0.5;
    machine.dma_transfer_min_ns = 0;
    return machine;
}

}  // namespace

TEST_CASE("DMA engines transpose at a share of their rate, in tiles of 128 partitions by 16") {
    const Machine machine = with_dma_transposes();
    const double whole = 128 * 512 * 4 / 16 / (17 * 0.9);
    CHECK(turned_ns(128, 512, machine) == Approx(whole));
    CHECK(turned_ns(128, 512, machine, false, "nl.load_transpose2d") == Approx(whole));
    CHECK(turned_ns(128, 512, machine, true) == Approx(whole * 0.9 / 0.5));
    CHECK(turned_ns(128, 497, machine) == Approx(whole));
    CHECK(turned_ns(128, 496, machine) == Approx(whole * 496 / 512));
    CHECK(turned_ns(127, 512, machine) == Approx(whole));
    CHECK(turned_ns(1, 512, machine) == Approx(whole));
    CHECK(turned_ns(128, 512, machine, false, "nisa.dma_transpose", nki::DType::kBFloat16) ==
          Approx(whole / 2));
}

TEST_CASE("without DMA transposes the price is that of rows, as of one-byte or plain loads") {
    Machine without = with_dma_transposes();
    without.dma_transpose_hbm_share = 0;
    const Machine machine = with_dma_transposes();
    const double rows = 128 / 16 * (4 * 512 / 17.0 + 15);
    CHECK(turned_ns(128, 512, without) == Approx(rows));
    CHECK(turned_ns(128, 512, without, true) == turned_ns(128, 512, machine, true));
    CHECK(turned_ns(128, 512, machine, false, "nl.load") == Approx(rows));
    CHECK(turned_ns(128, 512, machine, false, "nisa.dma_transpose", nki::DType::kInt8) ==
          Approx(128 / 16 * (512 / 17.0 + 15)));
}

TEST_CASE("a transfer that casts takes as long as its larger side, either way") {
    const auto cost = [](nki::DType from, nki::DType to) {
        ProgramBuilder b;
        const auto x = b.input({128, 1024}, from);
        const auto y = b.hbm({128, 1024}, nki::TensorRole::kOutput, to);
        b.add(nki::Opcode::kDmaCopy, b.whole(y), {b.whole(x)});
        Machine machine = trn1();
        machine.dma_transfer_min_ns = 0;
        return dma_cost(lower(b.program, machine).instructions.at(0), machine).queue_ns;
    };
    const auto wide = nki::DType::kFloat32;
    const auto narrow = nki::DType::kBFloat16;
    CHECK(cost(wide, narrow) == Approx(cost(wide, wide)));
    CHECK(cost(narrow, wide) == Approx(cost(wide, wide)));
    CHECK(cost(narrow, narrow) < cost(wide, wide));
}

TEST_CASE("the mask of a shuffle costs no second pass") {
    const auto n_of = [](bool one_statement) {
        ProgramBuilder b;
        const auto x = b.tile(32, 512, 1);
        const auto whole = b.tile(32, 512, 2);
        const auto y = b.tile(32, 512, 3);
        b.program.extras.emplace_back();
        auto& shuffle = b.add(nki::Opcode::kShuffle, b.whole(whole), {b.whole(x)});
        shuffle.extra = 0;
        const int line = shuffle.line;
        auto& copy = b.copy(b.window(y, 0, 32, 0, 256), b.window(whole, 0, 32, 0, 256));
        if (one_statement) copy.line = line;
        return cost_of_last(b);
    };
    CHECK(n_of(false) == Approx((256 + 64) / 1.4));
    CHECK(n_of(true) == Approx(64 / 1.4));
}
