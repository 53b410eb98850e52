#include "trainium/placed_tiles.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "timing_programs.h"
#include "trainium/passes.h"
#include "trainium/timing_schedule.h"
#include "trainium/timing_simulate.h"

using namespace accelopt;
using namespace accelopt::trainium;
using namespace accelopt::trainium::testing;
using nki::ActFunction;
using nki::Buffer;
using nki::TensorId;

namespace {

TensorId placed(ProgramBuilder& b, std::int64_t partitions, std::int64_t free, int partition,
                std::int64_t byte, Buffer buffer = Buffer::kSbuf) {
    const TensorId tile = b.tile(partitions, free, 1, buffer);
    b.program.tensors[tile].placements.push_back({partition, byte});
    return tile;
}

struct Where {
    int partition = 0;
    std::int64_t byte = 0;
};

/// Whether the load of a tile of 32 x 64 at `second` waits for who reads one at `first`.
bool waits(Where first, Where second) {
    ProgramBuilder b;
    const TensorId in = b.input({32, 128});
    const TensorId x = placed(b, 32, 64, first.partition, first.byte);
    const TensorId y = placed(b, 32, 64, second.partition, second.byte);
    b.load(b.whole(x), b.window(in, 0, 32, 0, 64));
    b.activation(b.whole(b.tile(32, 64, 2)), ActFunction::kExp, b.whole(x));
    b.load(b.whole(y), b.window(in, 0, 32, 64, 64));
    const Stream stream = lower(b.program, trn1());
    const Schedule schedule = make_schedule(stream, trn1());
    REQUIRE(schedule.instructions == 3);
    for (std::int32_t e = schedule.after_result.first[1]; e < schedule.after_result.first[2]; ++e)
        if (schedule.after_result.items[e] == 2) return true;
    return false;
}

/// Latency of `steps` steps that load 128 x 512 to the next of `buffers` places and sum it up.
double rotating_ns(int buffers, int steps, bool own_tensors) {
    ProgramBuilder b;
    const TensorId in = b.input({128, 512 * steps});
    const TensorId out = b.output({128, steps});
    std::vector<TensorId> tiles;
    for (int step = 0; step < steps; ++step) {
        if (own_tensors || step < buffers)
            tiles.push_back(placed(b, 128, 512, 0, 2048 * (step % buffers)));
        const TensorId x = tiles[own_tensors ? step : step % buffers];
        const TensorId sum = placed(b, 128, 1, 0, 100000 + 4 * step);
        b.load(b.whole(x), b.window(in, 0, 128, 512 * step, 512));
        b.reduce(b.whole(sum), nki::AluOp::kAdd, b.whole(x));
        b.store(b.window(out, 0, 128, step, 1), b.whole(sum));
    }
    const Stream stream = lower(b.program, trn1());
    return simulate(stream, make_schedule(stream, trn1()), trn1()).latency_ns;
}

}  // namespace

TEST_CASE("Placed tiles wait for each other where they share bytes of the same partitions") {
    CHECK(waits({0, 0}, {0, 0}));
    CHECK(waits({0, 0}, {0, 255}));
    CHECK_FALSE(waits({0, 0}, {0, 256}));
    CHECK(waits({0, 256}, {0, 1}));
    CHECK_FALSE(waits({0, 256}, {0, 0}));
    CHECK_FALSE(waits({0, 0}, {32, 0}));
}

TEST_CASE("Reads after writes, writes after reads and writes after writes go by the bytes") {
    ProgramBuilder b;
    const TensorId in = b.input({128, 64});
    const TensorId x = placed(b, 128, 64, 0, 512);
    const TensorId y = placed(b, 128, 32, 0, 512 + 128);
    b.load(b.whole(x), b.whole(in));
    b.scalar(b.whole(y), nki::AluOp::kMultiply, b.whole(b.tile(128, 32, 2)), 2.0);  // over it
    b.scalar(b.whole(b.tile(128, 32, 3)), nki::AluOp::kMultiply, b.whole(y), 2.0);
    b.scalar(b.whole(b.tile(128, 32, 4)), nki::AluOp::kMultiply, b.window(x, 0, 128, 0, 32), 2.0);
    const Stream stream = lower(b.program, trn1());
    const Schedule schedule = make_schedule(stream, trn1());
    const auto after = [&](int node) {
        const auto& edges = schedule.after_result;
        return std::vector<std::int32_t>(edges.items.begin() + edges.first[node],
                                         edges.items.begin() + edges.first[node + 1]);
    };
    // The first load stays visible beside what was written over it.
    CHECK(after(0) == std::vector<std::int32_t>{1, 2, 3});
    CHECK(after(1) == std::vector<std::int32_t>{2});
}

TEST_CASE("SBUF and PSUM of the same address share nothing") {
    ProgramBuilder b;
    const TensorId in = b.input({128, 64});
    const TensorId x = placed(b, 128, 64, 0, 0);
    const TensorId y = placed(b, 128, 64, 0, 0, Buffer::kPsum);
    b.load(b.whole(x), b.whole(in));
    b.copy(b.whole(y), b.whole(x));
    const Stream stream = lower(b.program, trn1());
    for (const Tile& tile : stream.tiles) CHECK(tile.shares == -1);
}

TEST_CASE("Tiles of several steps at one address are as far apart as one tile would be") {
    for (const int buffers : {1, 2, 4}) {
        INFO(buffers << " buffers");
        CHECK(rotating_ns(buffers, 32, true) == Approx(rotating_ns(buffers, 32, false)));
    }
    // One buffer: every step waits for the whole transfer of the next one.
    CHECK(rotating_ns(1, 32, true) > 1.5 * rotating_ns(2, 32, true));
    CHECK(rotating_ns(2, 32, true) > rotating_ns(4, 32, true));
}

TEST_CASE("Values that will be overwritten by another tile at their place are made again") {
    const auto loads = [](std::int64_t second_byte) {
        ProgramBuilder b;
        const TensorId in = b.input({128, 128});
        const TensorId out = b.output({128, 192});
        for (int step = 0; step < 3; ++step) {  // the first and the last load the same
            const TensorId x = placed(b, 128, 64, 0, second_byte * step);
            b.load(b.whole(x), b.window(in, 0, 128, 64 * (step % 2), 64));
            b.store(b.window(out, 0, 128, 64 * step, 64), b.whole(x));
        }
        Stream stream = lower(b.program, trn1());
        compile(stream, trn1());
        return std::count_if(stream.instructions.begin(), stream.instructions.end(),
                             [](const Instruction& i) { return i.op == StreamOp::kLoad; });
    };
    CHECK(loads(0) == 3);
    CHECK(loads(256) == 2);
}

TEST_CASE("The compiler neither spills nor moves tiles where the kernel allocates") {
    Stream stream;
    stream.tiles.resize(2);
    CHECK(allowed_passes(stream, {}) == Mechanisms{});
    stream.tiles[1].placed = true;
    CHECK_FALSE(allowed_passes(stream, {}).has(Mechanism::kSpills));
    CHECK_FALSE(allowed_passes(stream, {}).has(Mechanism::kPsumTemporaries));
    CHECK(allowed_passes(stream, {}).has(Mechanism::kMergeValues));
}
