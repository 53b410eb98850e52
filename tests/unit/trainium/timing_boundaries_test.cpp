#include <catch2/catch.hpp>
#include <cmath>

#include "timing_programs.h"
#include "trainium/passes.h"
#include "trainium/timing_costs.h"
#include "trainium/timing_schedule.h"
#include "trainium/timing_simulate.h"

// A pair just below and just above each threshold that timing_costs, timing_simulate and the passes
// tests do not have beside their rule.

using namespace accelopt;
using namespace accelopt::trainium;
using namespace accelopt::trainium::testing;
using nki::ActFunction;
using nki::AluOp;
using nki::Buffer;

namespace {

SimulationResult run(const ProgramBuilder& b, const Machine& machine = trn1()) {
    const Stream stream = lower(b.program, machine);
    return simulate(stream, make_schedule(stream, machine), machine);
}

}  // namespace

TEST_CASE("run length: one element more in a row splits or joins descriptors as computed") {
    Machine machine = trn1();
    machine.dma_transfer_min_ns = 0;  // the price of a row has a test of its own
    // 128 rows of 512 bytes: as one run per row, or as two runs of which one is a single element.
    const double whole = dma_cost(dma(128 * 512, 512, 128, 4096), machine).queue_ns;
    const double split = dma_cost(dma(128 * 512, 508, 128, 4096), machine).queue_ns;
    CHECK(whole == Approx(8 * (512 / 17.0 + 15)));
    CHECK(split == Approx(std::ceil(128 * 512 / 508.0 / 16) * (508 / 17.0 + 15)));
    CHECK(split > whole);
    // Twice the run, half the descriptors.
    const double longer = dma_cost(dma(128 * 512, 1024, 128, 4096), machine).queue_ns;
    CHECK(longer == Approx(4 * (1024 / 17.0 + 15)));
    CHECK(longer < whole);
}

TEST_CASE("far stride: 512 KiB is far, a byte less is not; long runs do not notice") {
    const Machine machine = trn1();
    constexpr std::int64_t kFar = 512 * 1024;
    const DmaCost near = dma_cost(dma(128 * 2048, 2048, 128, kFar - 1), machine);
    const DmaCost far = dma_cost(dma(128 * 2048, 2048, 128, kFar), machine);
    CHECK_FALSE(near.far_stride);
    CHECK(far.far_stride);
    CHECK(near.queue_ns == Approx(8 * (2048 / 17.0 + 15)));
    CHECK(far.queue_ns == Approx(8 * 355));
    // 5780 bytes take 355 ns anyway.
    CHECK(dma_cost(dma(128 * 5776, 5776, 128, kFar), machine).far_stride);
    CHECK_FALSE(dma_cost(dma(128 * 5784, 5784, 128, kFar), machine).far_stride);
}

TEST_CASE("rows per queue: a ninth row takes a second queue, a 128th the sixteenth at most") {
    const Machine machine = trn1();
    const auto queues = [&](std::int32_t rows) {
        return dma_cost(dma(std::int64_t{rows} * 512, 512, rows, 512), machine).queues;
    };
    CHECK(queues(8) == 1);
    CHECK(queues(9) == 2);
    CHECK(queues(120) == 15);
    CHECK(queues(121) == 16);
    CHECK(queues(128) == 16);
}

namespace {

/// `blocked` loads wait for a store to HBM; behind them stands a long independent one.
double with_blocked_loads(int blocked) {
    ProgramBuilder b;
    const auto scratch = b.hbm({1, 16384}, nki::TensorRole::kScratch);
    const auto in = b.input({8, 2048});
    b.store(b.whole(scratch), b.whole(b.tile(1, 16384, 1)));  // one queue
    for (int i = 0; i < blocked; ++i)
        b.load(b.whole(b.tile(1, 8, 100 + i)), b.window(scratch, 0, 1, 8 * i, 8));
    b.load(b.whole(b.tile(8, 2048, 3)), b.whole(in));  // another one
    Machine machine = trn1();
    machine.dma_transfer_min_ns = 0;
    return run(b, machine).latency_ns;
}

}  // namespace

TEST_CASE("DMAs look sixteen transfers ahead and no farther") {
    const double store = 16384 * 4 / 17.0 + 15;
    const double late = 8 * (8192 / 17.0 + 15);
    const double small = 32 / 17.0 + 15;
    // In the window the long load runs beside the store; pushed out of it, it starts when the store
    // is complete and the first small load leaves.
    CHECK(with_blocked_loads(15) == Approx(8000 + store + 2000 + small + 2000));
    CHECK(with_blocked_loads(16) == Approx(8000 + store + 2000 + late + 2000).margin(2 * small));
}

TEST_CASE("a temporary of 64 elements moves to PSUM, one of 63 stays") {
    const auto moved = [](std::int64_t columns) {
        ProgramBuilder b;
        const auto x = b.tile(128, columns, 1);
        const auto y = b.tile(128, columns, 2);
        b.scalar(b.whole(y), AluOp::kMultiply, b.whole(x), 2.0);
        b.tensor_tensor(b.whole(b.tile(128, columns, 3)), AluOp::kAdd, b.whole(x), b.whole(y));
        Stream stream = lower(b.program, trn1());
        move_temporaries_to_psum(stream, trn1());
        const Instruction& last = stream.instructions.back();
        return stream.tiles[last.src[1].tile].buffer == Buffer::kPsum;
    };
    CHECK(moved(64));
    CHECK_FALSE(moved(63));
}

TEST_CASE("a slice that is used again within 48 instructions is loaded once, later twice") {
    const auto loads = [](int between) {
        ProgramBuilder b;
        const auto in = b.input({128, 49152});
        const auto slab = b.tile(128, 49152, 1);  // 192 KiB per partition: streamed
        b.load(b.whole(slab), b.whole(in));
        const auto y = b.tile(128, 64, 2);
        const auto use = [&] {
            b.activation(b.whole(y), ActFunction::kExp, b.window(slab, 0, 128, 0, 64));
        };
        use();
        for (int i = 0; i < between; ++i) b.activation(b.whole(y), ActFunction::kExp, b.whole(y));
        use();
        Stream stream = lower(b.program, trn1());
        stream_large_loads(stream, trn1());
        int count = 0;
        for (const Instruction& instruction : stream.instructions)
            count += instruction.op == StreamOp::kLoad ? 1 : 0;
        return count;
    };
    CHECK(loads(46) == 1);
    CHECK(loads(47) == 2);
}

TEST_CASE("a slow operand from SBUF, a fast one from PSUM, at one column and at many") {
    const auto ns = [](std::int64_t columns, Buffer buffer) {
        ProgramBuilder b;
        const auto x = b.tile(128, columns, 1, buffer);
        const auto y = b.tile(128, columns, 2);
        b.tensor_tensor(b.whole(b.tile(128, columns, 3)), AluOp::kAdd, b.whole(y), b.whole(x));
        const Stream stream = lower(b.program, trn1());
        return engine_ns(stream.instructions.back(), stream, trn1());
    };
    for (const std::int64_t columns : {1, 2, 512}) {
        const auto n = static_cast<double>(columns);
        CHECK(ns(columns, Buffer::kSbuf) - ns(columns, Buffer::kPsum) == Approx(n / 1.12));
    }
}

namespace {

/// VectorE and another engine copy 1000 elements each from SBUF into tiles of their own; returns
/// how long both took together over the longer one alone.
double overlap_of(Buffer vector_tile, nki::Engine other, Buffer other_tile, Machine machine) {
    machine.startup_ns = 0;
    machine.psum_partition_bytes *= 4;  // banks are not the point
    const auto latency = [&](bool first, bool second) {
        ProgramBuilder b;
        const auto make = [&](nki::Engine engine, Buffer buffer, int site) {
            const auto x = b.tile(128, 1000, site);
            const auto y = b.tile(128, 1000, site + 1, buffer);
            b.copy(b.whole(y), b.whole(x)).engine = engine;
        };
        if (first) make(nki::Engine::kVector, vector_tile, 1);
        if (second) make(other, other_tile, 3);
        return run(b, machine).latency_ns - machine.result_latency_ns;
    };
    return latency(true, true) / std::max(latency(true, false), latency(false, true));
}

}  // namespace

TEST_CASE("VectorE and ScalarE take turns at PSUM, and only there") {
    Machine machine = trn1();
    const double in_turn = 1 + (1064 / 1.4) / (1064 / 1.12);
    CHECK(overlap_of(Buffer::kPsum, nki::Engine::kScalar, Buffer::kPsum, machine) ==
          Approx(in_turn));
    CHECK(overlap_of(Buffer::kPsum, nki::Engine::kScalar, Buffer::kSbuf, machine) == Approx(1));
    CHECK(overlap_of(Buffer::kSbuf, nki::Engine::kScalar, Buffer::kPsum, machine) == Approx(1));
    machine.shared_psum_port = 0;
    CHECK(overlap_of(Buffer::kPsum, nki::Engine::kScalar, Buffer::kPsum, machine) == Approx(1));
}

TEST_CASE("VectorE and GpSimdE take turns at SBUF") {
    Machine machine = trn1();
    const double longer = std::max(1064 / 1.12, 1150 / 1.4);
    CHECK(overlap_of(Buffer::kSbuf, nki::Engine::kGpSimd, Buffer::kSbuf, machine) ==
          Approx((1064 / 1.12 + 1150 / 1.4) / longer));
    // ScalarE has a port of its own.
    CHECK(overlap_of(Buffer::kSbuf, nki::Engine::kScalar, Buffer::kSbuf, machine) == Approx(1));
    machine.shared_sbuf_port = 0;
    CHECK(overlap_of(Buffer::kSbuf, nki::Engine::kGpSimd, Buffer::kSbuf, machine) == Approx(1));
}

TEST_CASE("the oldest instruction gets a port that two engines want") {
    // Two instructions of VectorE and one of ScalarE between them, all at PSUM and ready: in turn.
    ProgramBuilder b;
    const auto copy = [&](nki::Engine engine, int site) {
        const auto x = b.tile(128, 500, site);
        const auto y = b.psum(128, 500, site + 1);
        b.copy(b.whole(y), b.whole(x)).engine = engine;
    };
    copy(nki::Engine::kVector, 1);
    copy(nki::Engine::kScalar, 3);
    copy(nki::Engine::kVector, 5);
    const Stream stream = lower(b.program, trn1());
    Timeline timeline;
    simulate(stream, make_schedule(stream, trn1()), trn1(), nullptr, &timeline);
    const auto& spans = timeline.spans;
    CHECK(spans[1].start_ns == Approx(spans[0].free_ns()));
    CHECK(spans[2].start_ns == Approx(spans[1].free_ns()));
    CHECK(spans[1].wait == Wait::kPort);
    CHECK(spans[1].waited_for == 0);
    CHECK(spans[2].wait == Wait::kPort);
    CHECK(spans[2].waited_for == 1);
}
