#include "trainium/timing_simulate.h"

#include <catch2/catch.hpp>
#include <functional>

#include "core/rng.h"
#include "timing_programs.h"
#include "trainium/timing_costs.h"
#include "trainium/timing_schedule.h"

using namespace accelopt;
using namespace accelopt::trainium;
using namespace accelopt::trainium::testing;
using nki::ActFunction;
using nki::AluOp;
using nki::Opcode;

namespace {

/// Simulates a program as written, without compiler passes.
SimulationResult run(const ProgramBuilder& b, const Machine& machine = trn1()) {
    const Stream stream = lower(b.program, machine);
    return simulate(stream, make_schedule(stream, machine), machine);
}

double act_ns(double n) { return (n + 64) / 1.4; }
double load_ns(const Machine& machine, double run_bytes) {
    return 8 * (run_bytes / machine.dma_queue_bytes_per_ns + machine.dma_descriptor_ns);
}

}  // namespace

TEST_CASE("an empty stream takes the startup time") {
    CHECK(run(ProgramBuilder{}).latency_ns == Approx(8000));
}

TEST_CASE("a dependent chain takes the sum of its parts") {
    const Machine machine = trn1();
    ProgramBuilder b;
    const auto in = b.input({128, 512});
    const auto out = b.output({128, 512});
    auto x = b.tile(128, 512, 1);
    b.load(b.whole(x), b.whole(in));
    for (int i = 0; i < 5; ++i) {
        const auto y = b.tile(128, 512, 2);
        b.activation(b.whole(y), ActFunction::kExp, b.whole(x));
        x = y;
    }
    b.store(b.whole(out), b.whole(x));
    const double transfers = 2 * (load_ns(machine, 2048) + 2000);
    CHECK(run(b).latency_ns == Approx(8000 + transfers + 5 * (act_ns(512) + 160)));
}

TEST_CASE("a matmul pipeline reaches the bound of the systolic array") {
    for (int group : {1, 8, 64}) {  // products accumulated per result
        ProgramBuilder b;
        const auto in = b.input({128, 512});
        const auto x = b.tile(128, 512, 1);
        b.load(b.whole(x), b.whole(in));
        const int products = 2048;
        for (int i = 0; i < products / group; ++i) {
            const auto p = b.psum(128, 512, 2);
            for (int k = 0; k < group; ++k)
                b.matmul(b.whole(p), b.window(x, 0, 128, 0, 128), b.whole(x), true);
            b.copy(b.whole(b.tile(128, 512, 3)), b.whole(p));
        }
        const SimulationResult result = run(b);
        const double bound = products * 4 * (512 + 80) / 2.8;
        CAPTURE(group);
        CHECK(result.busy_ns[static_cast<int>(Unit::kPe)] == Approx(bound));
        CHECK(result.latency_ns > bound);
        CHECK(result.latency_ns < 1.02 * bound + 8000);
    }
}

namespace {

/// Copies HBM to HBM through SBUF in tiles of 128 x `columns`.
ProgramBuilder copy_kernel(int tiles, std::int64_t columns) {
    ProgramBuilder b;
    const auto in = b.input({128 * tiles, columns});
    const auto out = b.output({128 * tiles, columns});
    for (int i = 0; i < tiles; ++i) {
        const auto x = b.tile(128, columns, 1);
        b.load(b.whole(x), b.window(in, 128 * i, 128, 0, columns));
        b.store(b.window(out, 128 * i, 128, 0, columns), b.whole(x));
    }
    return b;
}

double copy_bound_ns(const Machine& machine, int tiles, double columns) {
    return 2 * tiles * load_ns(machine, 4 * columns);
}

}  // namespace

TEST_CASE("a pure copy reaches the DMA bound, and slows down with the DMA rate as computed") {
    Machine machine = trn1();
    const ProgramBuilder b = copy_kernel(400, 2048);
    const double full = run(b, machine).latency_ns;
    const double full_bound = copy_bound_ns(machine, 400, 2048);
    CHECK(full > full_bound);
    CHECK(full < 1.02 * full_bound + 8000);
    machine.dma_queue_bytes_per_ns /= 2;
    const double half = run(b, machine).latency_ns;
    const double half_bound = copy_bound_ns(machine, 400, 2048);
    CHECK(half < 1.02 * half_bound + 8000);
    CHECK(half / full == Approx(half_bound / full_bound).epsilon(0.02));
}

TEST_CASE("a compute-bound kernel hardly notices half the DMA rate") {
    ProgramBuilder b;
    const auto in = b.input({128, 512});
    const auto x = b.tile(128, 512, 1);
    b.load(b.whole(x), b.whole(in));
    for (int i = 0; i < 500; ++i)
        b.activation(b.whole(b.tile(128, 512, 2)), ActFunction::kExp, b.whole(x));
    Machine machine = trn1();
    const double full = run(b, machine).latency_ns;
    machine.dma_queue_bytes_per_ns /= 2;
    CHECK(run(b, machine).latency_ns < 1.01 * full);
}

namespace {

/// `blocked` activations wait for a slow load; behind them stands a long independent one.
double with_blocked(int blocked) {
    ProgramBuilder b;
    const auto in = b.input({1, 16384});
    const auto late = b.tile(1, 16384, 1);
    const auto other = b.tile(128, 4096, 2);
    b.load(b.whole(late), b.whole(in));  // one queue: about 5.9 us
    for (int i = 0; i < blocked; ++i)
        b.activation(b.whole(b.tile(1, 8, 3)), ActFunction::kExp, b.window(late, 0, 1, 0, 8));
    b.activation(b.whole(b.tile(128, 4096, 4)), ActFunction::kExp, b.whole(other));
    Machine machine = trn1();
    machine.engine_window = 16;
    return run(b, machine).latency_ns;
}

}  // namespace

TEST_CASE("an engine looks as far ahead as its window and no farther") {
    const double load = 16384 * 4 / 17.0 + 15 + 2000;
    const double alone = act_ns(4096);
    // Fifteen waiting instructions leave the independent one in the window: it hides the load.
    CHECK(with_blocked(15) == Approx(8000 + load + 15 * act_ns(8) + 160));
    // Sixteen push it out: it starts when the first of them leaves the window.
    CHECK(with_blocked(16) == Approx(8000 + load + 16 * act_ns(8) + alone + 160).margin(1));
}

TEST_CASE("a write waits for readers, and a tile's halves do not wait for each other") {
    auto program = [](std::int64_t row) {
        ProgramBuilder b;
        const auto x = b.tile(128, 512, 1);
        const auto y = b.tile(128, 512, 2);
        b.activation(b.window(y, 0, 64, 0, 512), ActFunction::kExp, b.window(x, 0, 64, 0, 512));
        b.tensor_tensor(b.window(x, row, 64, 0, 512), AluOp::kAdd, b.window(x, row, 64, 0, 512),
                        b.window(x, row, 64, 0, 512));
        return run(b).latency_ns;
    };
    const double tensor_tensor = (2 * 512 + 64) / 1.12;
    CHECK(program(0) == Approx(8000 + act_ns(512) + tensor_tensor + 2 * 160));
    CHECK(program(64) == Approx(8000 + std::max(act_ns(512), tensor_tensor) + 160));
}

TEST_CASE("a kernel waits for what it wrote to HBM, piece by piece") {
    auto program = [](std::int64_t column) {
        ProgramBuilder b;
        const auto scratch = b.hbm({128, 1024}, nki::TensorRole::kScratch);
        const auto x = b.tile(128, 512, 1);
        const auto y = b.tile(128, 512, 2);
        b.store(b.window(scratch, 0, 128, 0, 512), b.whole(x));
        b.load(b.whole(y), b.window(scratch, 0, 128, column, 512));
        return run(b).latency_ns;
    };
    const double transfer = load_ns(trn1(), 2048);
    CHECK(program(0) == Approx(8000 + 2 * (transfer + 2000)));
    CHECK(program(512) == Approx(8000 + 2 * transfer + 2000));
}

TEST_CASE("eight PSUM banks can be open at once, a ninth waits for a free one") {
    auto program = [](int banks, int uses) {
        ProgramBuilder b;
        const auto x = b.tile(128, 512, 1);
        std::vector<nki::TensorId> open;
        for (int i = 0; i < banks; ++i) {
            open.push_back(b.psum(128, 512, 2));
            b.matmul(b.whole(open.back()), b.window(x, 0, 128, 0, 128), b.whole(x));
        }
        for (int use = 0; use < uses; ++use) {
            for (auto p : open) b.copy(b.whole(b.tile(128, 512, 3)), b.whole(p));
        }
        return run(b);
    };
    CHECK(program(8, 1).forced_allocations == 0);
    const SimulationResult nine = program(9, 1);
    CHECK(nine.forced_allocations == 0);  // the copies free a bank before the ninth product
    const double matmul = 4 * (512 + 80) / 2.8;
    CHECK(program(8, 1).latency_ns == Approx(8000 + 8 * matmul + act_ns(512) + 2 * 160));
    CHECK(nine.latency_ns >= 8000 + 9 * matmul + act_ns(512) + 2 * 160);
}

TEST_CASE("nine PSUM banks live at once are over-subscribed, eight are not") {
    auto program = [](int banks) {
        ProgramBuilder b;
        const auto x = b.tile(128, 512, 1);
        const auto y = b.tile(128, 512, 2);
        std::vector<nki::TensorId> open;
        for (int i = 0; i < banks; ++i) {
            open.push_back(b.psum(128, 512, 3));
            b.matmul(b.whole(open.back()), b.window(x, 0, 128, 0, 128), b.whole(x));
        }
        // One instruction chain that needs the last bank before any earlier one is released.
        b.activation(b.whole(y), ActFunction::kExp, b.whole(open.back()));
        for (auto p : open) b.tensor_tensor(b.whole(y), AluOp::kAdd, b.whole(y), b.whole(p));
        return run(b).forced_allocations;
    };
    CHECK(program(8) == 0);
    CHECK(program(9) > 0);
}

TEST_CASE("a PSUM tile of two banks takes two") {
    auto program = [](std::int64_t columns) {
        ProgramBuilder b;
        const auto x = b.tile(128, 128, 1);
        std::vector<nki::TensorId> open;
        for (int i = 0; i < 5; ++i) {
            open.push_back(b.psum(128, columns, 2));
            b.matmul(b.window(open.back(), 0, 128, 0, 128), b.whole(x), b.whole(x));
        }
        const auto y = b.tile(128, 128, 3);
        b.copy(b.whole(y), b.window(open.back(), 0, 128, 0, 128));
        for (auto p : open)
            b.tensor_tensor(b.whole(y), AluOp::kAdd, b.whole(y), b.window(p, 0, 128, 0, 128));
        return run(b).forced_allocations;
    };
    CHECK(program(512) == 0);
    CHECK(program(513) > 0);
}

TEST_CASE("arrays that DMAs fill are double-buffered, or rotate over the extra buffers") {
    auto program = [](int extra) {
        Machine machine = trn1();
        machine.rotation_extra_buffers = extra;
        ProgramBuilder b;
        const auto in = b.input({128 * 8, 512});
        for (int i = 0; i < 8; ++i) {
            const auto x = b.tile(128, 512, 1);
            b.load(b.whole(x), b.window(in, 128 * i, 128, 0, 512));
            b.activation(b.whole(b.tile(128, 512, 2)), ActFunction::kExp, b.whole(x));
        }
        return run(b, machine).latency_ns;
    };
    const double load = load_ns(trn1(), 2048) + 2000;
    CHECK(program(0) == program(1));
    CHECK(program(1) > 8000 + 4 * (load + act_ns(512) + 160));
    CHECK(program(1) < 8000 + 5 * (load + act_ns(512) + 160));
    CHECK(program(7) == Approx(8000 + 8 * (load - 2000) + 2000 + act_ns(512) + 160).margin(300));
}

TEST_CASE("no more DMAs are in flight than allowed") {
    auto program = [](int in_flight) {
        Machine machine = trn1();
        machine.dma_in_flight = in_flight;
        ProgramBuilder b;
        const auto in = b.input({8 * 16, 512});
        for (int i = 0; i < 16; ++i)
            b.load(b.whole(b.tile(8, 512, i)), b.window(in, 8 * i, 8, 0, 512));
        return run(b, machine).latency_ns;
    };
    const double one = load_ns(trn1(), 2048) + 2000;  // eight rows: one queue each
    CHECK(program(1) == Approx(8000 + 16 * one));
    CHECK(program(8) == Approx(8000 + 2 * one));
    CHECK(program(15) == Approx(8000 + 2 * one));
    CHECK(program(16) == Approx(8000 + one));
}

TEST_CASE("thousands of small writes to one tile are joined and still order the reader") {
    const Machine machine = trn1();
    ProgramBuilder b;
    const int writes = 3 * static_cast<int>(Schedule::kMaxAccesses);
    const auto x = b.tile(128, writes, 1);
    const auto out = b.output({128, writes});
    for (int i = 0; i < writes; ++i) b.add(Opcode::kMemset, b.window(x, 0, 128, i, 1));
    b.store(b.whole(out), b.whole(x));
    const Stream stream = lower(b.program, machine);
    const Schedule schedule = make_schedule(stream, machine);
    CHECK(schedule.nodes > schedule.instructions);
    CHECK(schedule.after_result.items.size() < 3u * writes);
    const double memsets = writes * (1 + 64) / 1.12;
    CHECK(simulate(stream, schedule, machine).latency_ns ==
          Approx(8000 + memsets + 160 + load_ns(machine, 4.0 * writes) + 2000));
}

namespace {

/// A random legal-looking program: every kind of engine, buffers reused and rewritten at will.
ProgramBuilder random_program(std::uint64_t seed, int length) {
    RandomStream random = RandomStream::keyed(seed, "timing/random_program");
    ProgramBuilder b;
    const auto in = b.input({1024, 512});
    const auto out = b.output({1024, 512});
    std::vector<nki::TensorId> sbuf;
    std::vector<nki::TensorId> psum;
    for (int i = 0; i < 12; ++i)
        sbuf.push_back(b.tile(128, 512, static_cast<int>(random.below(5))));
    for (int i = 0; i < 12; ++i) psum.push_back(b.psum(128, 512, 9));
    auto any = [&](const std::vector<nki::TensorId>& set) { return set[random.below(set.size())]; };
    auto part = [&](nki::TensorId t) {
        const auto column = static_cast<std::int64_t>(random.below(4)) * 128;
        return b.window(t, 0, 128, column, 128);
    };
    for (int i = 0; i < length; ++i) {
        const auto row = static_cast<std::int64_t>(random.below(8)) * 128;
        switch (random.below(7)) {
            case 0:
                b.load(b.whole(any(sbuf)), b.window(in, row, 128, 0, 512));
                break;
            case 1:
                b.store(b.window(out, row, 128, 0, 512), b.whole(any(sbuf)));
                break;
            case 2:
                b.matmul(b.whole(any(psum)), part(any(sbuf)), b.whole(any(sbuf)),
                         random.below(2) == 0);
                break;
            case 3:
                b.copy(part(any(sbuf)), part(any(psum)));
                break;
            case 4:
                b.tensor_tensor(part(any(sbuf)), AluOp::kAdd, part(any(sbuf)), part(any(psum)));
                break;
            case 5:
                b.activation(part(any(sbuf)), ActFunction::kExp, part(any(sbuf)));
                break;
            default:
                b.scalar(part(any(sbuf)), AluOp::kAdd, part(any(sbuf)), 1.0).engine =
                    nki::Engine::kGpSimd;
        }
        if (random.below(8) == 0) sbuf[random.below(sbuf.size())] = b.tile(128, 512, 1);
        if (random.below(8) == 0) psum[random.below(psum.size())] = b.psum(128, 512, 9);
    }
    return b;
}

}  // namespace

TEST_CASE("no random stream deadlocks, however small the memories; times stay within bounds") {
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
        const ProgramBuilder b = random_program(seed, 300);
        for (std::int64_t banks : {1, 2, 8}) {
            Machine machine = trn1();
            machine.psum_partition_bytes = banks * 2048;
            machine.sbuf_partition_bytes = banks * 4096;
            machine.engine_window = static_cast<int>(2 * banks);
            machine.dma_in_flight = static_cast<int>(banks);
            const SimulationResult result = run(b, machine);
            double most = 0;
            for (double busy : result.busy_ns) most = std::max(most, busy);
            CAPTURE(seed, banks);
            REQUIRE(result.latency_ns >= most + 8000 - 1);
            REQUIRE(run(b, machine).latency_ns == result.latency_ns);
        }
    }
}
