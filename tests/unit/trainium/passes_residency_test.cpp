#include <catch2/catch.hpp>

#include "timing_programs.h"
#include "trainium/passes.h"
#include "trainium/stream_counters.h"

using namespace accelopt;
using namespace accelopt::trainium;
using namespace accelopt::trainium::testing;
using nki::AluOp;

namespace {

int count_ops(const Stream& stream, StreamOp op) {
    int n = 0;
    for (const Instruction& instruction : stream.instructions) n += instruction.op == op;
    return n;
}

/// Loads tiles of `bytes` per partition in all, then uses each of them twice, in order.
Stream loaded_array(std::int64_t bytes, bool other_writer) {
    ProgramBuilder b;
    const std::int64_t columns = bytes / 4;
    const auto in = b.input({128, columns});
    const auto out = b.output({256, columns});
    nki::TensorId tiles[4];
    std::int64_t first[5];
    for (int k = 0; k < 5; ++k) first[k] = columns * k / 4;
    for (int k = 0; k < 4; ++k) {
        tiles[k] = b.tile(128, first[k + 1] - first[k], 1);
        b.load(b.whole(tiles[k]), b.window(in, 0, 128, first[k], first[k + 1] - first[k]));
        if (other_writer) b.scalar(b.whole(tiles[k]), AluOp::kAdd, b.whole(tiles[k]), 1.0);
    }
    for (int use = 0; use < 2; ++use) {
        for (int k = 0; k < 4; ++k) {
            b.store(b.window(out, 128 * use, 128, first[k], first[k + 1] - first[k]),
                    b.whole(tiles[k]));
        }
    }
    return lower(b.program, trn1());
}

}  // namespace

TEST_CASE("a loaded array stays while it fits 156 KiB and is re-loaded per use beyond") {
    Stream fits = loaded_array(156 * 1024, false);
    stream_large_loads(fits, trn1());
    CHECK(count_ops(fits, StreamOp::kLoad) == 4);
    Stream large = loaded_array(156 * 1024 + 4, false);
    stream_large_loads(large, trn1());
    CHECK(count_ops(large, StreamOp::kLoad) == 4);  // one use burst: both uses within 48
    Machine machine = trn1();
    machine.stream_reuse_instructions = 4;
    large = loaded_array(156 * 1024 + 4, false);
    stream_large_loads(large, machine);
    CHECK(count_ops(large, StreamOp::kLoad) == 8);
    CHECK(count(large).hbm_read_bytes == 2 * 128 * (156 * 1024 + 4));
}

TEST_CASE("an array with another writer is not re-loaded") {
    Stream stream = loaded_array(156 * 1024 + 4, true);
    Machine machine = trn1();
    machine.stream_reuse_instructions = 4;
    stream_large_loads(stream, machine);
    CHECK(count_ops(stream, StreamOp::kLoad) == 4);
}

TEST_CASE("tiles are spilled beyond 172 KiB per partition and not at 172 KiB") {
    Stream fits = loaded_array(172 * 1024, true);
    insert_spills(fits, trn1());
    CHECK(count(fits).spill_save_bytes == 0);
    CHECK(count(fits).spill_reload_bytes == 0);
    Stream large = loaded_array(172 * 1024 + 4, true);
    insert_spills(large, trn1());
    const Counters c = count(large);
    // Tile 2 leaves for tile 3, tile 1 for tile 2; tile 1 comes back in place of a used-up tile.
    CHECK(c.spill_save_bytes == 2 * 128 * 43 * 1024);
    CHECK(c.spill_reload_bytes == c.spill_save_bytes);
    CHECK(c.hbm_write_bytes == 2 * 128 * (172 * 1024 + 4) + c.spill_save_bytes);
}

TEST_CASE("a tile that was only loaded is dropped, not spilled, and loaded again") {
    Stream stream = loaded_array(172 * 1024 + 4, false);
    insert_spills(stream, trn1());
    CHECK(count_ops(stream, StreamOp::kSpill) == 0);
    CHECK(count_ops(stream, StreamOp::kReload) == 2);
    CHECK(count(stream).spill_reload_bytes == 0);
    CHECK(count(stream).hbm_read_bytes == 128 * (172 * 1024 + 4 + 2 * 43 * 1024));
}

TEST_CASE("the farthest used tile is the one that is spilled") {
    ProgramBuilder b;
    const std::int64_t columns = 16 * 1024;  // 64 KiB: two fit
    const auto out = b.output({384, columns});
    nki::TensorId t[3];
    for (auto& tile : t) {
        tile = b.tile(128, columns, 1);
        b.add(nki::Opcode::kMemset, b.whole(tile));
    }
    int row = 0;
    for (int use : {2, 1, 0}) b.store(b.window(out, 128 * row++, 128, 0, columns), b.whole(t[use]));
    Stream stream = lower(b.program, trn1());
    insert_spills(stream, trn1());
    REQUIRE(count_ops(stream, StreamOp::kSpill) == 1);
    for (const Instruction& instruction : stream.instructions) {
        if (instruction.op == StreamOp::kSpill)
            CHECK(instruction.src[0].tile == stream.instructions[0].dst.tile);
    }
    CHECK(stream.instructions[stream.instructions.size() - 2].op == StreamOp::kReload);
}

TEST_CASE("a loaded tile goes before a computed one unless that is used four times farther ahead") {
    // A loaded and a computed tile of 64 KiB, used again after `loaded` and `computed` steps; a
    // third needs room in between.
    const auto spills = [](int loaded, int computed) {
        ProgramBuilder b;
        const std::int64_t columns = 16 * 1024;
        const auto in = b.input({128, columns});
        const auto out = b.output({512, columns});
        const auto load = b.tile(128, columns, 1);
        const auto sum = b.tile(128, columns, 2);
        const auto third = b.tile(128, columns, 3);
        const auto small = b.tile(128, 1, 4);
        b.load(b.whole(load), b.whole(in));
        b.add(nki::Opcode::kMemset, b.whole(sum));
        b.add(nki::Opcode::kMemset, b.whole(third));  // needs room: instruction 2
        b.store(b.window(out, 0, 128, 0, columns), b.whole(third));
        for (int step = 4; step <= std::max(loaded, computed) + 2; ++step) {
            if (step == loaded + 2) {
                b.store(b.window(out, 128, 128, 0, columns), b.whole(load));
            } else if (step == computed + 2) {
                b.store(b.window(out, 256, 128, 0, columns), b.whole(sum));
            } else {
                b.add(nki::Opcode::kMemset, b.whole(small));
            }
        }
        Stream stream = lower(b.program, trn1());
        insert_spills(stream, trn1());
        return count_ops(stream, StreamOp::kSpill);
    };
    CHECK(spills(10, 20) == 0);
    CHECK(spills(5, 20) == 0);  // 5 against 20 / 4: the load goes
    CHECK(spills(5, 21) == 1);
    CHECK(spills(20, 10) == 0);
}

TEST_CASE("one instruction that needs more than the capacity still goes through") {
    ProgramBuilder b;
    const auto x = b.tile(128, 25 * 1024, 1);
    const auto y = b.tile(128, 25 * 1024, 2);
    b.add(nki::Opcode::kMemset, b.whole(x));
    b.copy(b.whole(y), b.whole(x));
    Stream stream = lower(b.program, trn1());
    insert_spills(stream, trn1());
    CHECK(stream.instructions.size() == 2);
}
