#include <catch2/catch.hpp>

#include "timing_programs.h"
#include "trainium/passes.h"

using namespace accelopt;
using namespace accelopt::trainium;
using namespace accelopt::trainium::testing;
using nki::AluOp;
using nki::Buffer;

namespace {

enum class Reader { kVector, kGpSimd, kTwice, kProduct, kStore };

/// A row broadcast over 128 partitions and read as `reader` says.
Stream broadcast_and_read(std::int64_t columns, Reader reader) {
    ProgramBuilder b;
    const auto row = b.tile(1, columns, 1);
    const auto wide = b.tile(128, columns, 2);
    const auto x = b.tile(128, columns, 3);
    const auto y = b.tile(128, columns, 4);
    b.load(b.whole(row), b.whole(b.input({1, columns})));
    b.load(b.whole(x), b.whole(b.input({128, columns})));
    b.add(nki::Opcode::kPartitionBroadcast, b.whole(wide), {b.whole(row)});
    if (reader == Reader::kStore) {
        b.store(b.whole(b.output({128, columns})), b.whole(wide));
    } else if (reader == Reader::kProduct) {
        b.matmul(b.whole(b.psum(128, columns, 5)), b.window(x, 0, 128, 0, 128), b.whole(wide));
    } else {
        auto& read = b.tensor_tensor(b.whole(y), AluOp::kMultiply, b.whole(x), b.whole(wide));
        if (reader == Reader::kGpSimd) read.engine = nki::Engine::kGpSimd;
        if (reader == Reader::kTwice)
            b.tensor_tensor(b.whole(y), AluOp::kAdd, b.whole(y), b.whole(wide));
    }
    Stream stream = lower(b.program, trn1());
    read_broadcasts_from_psum(stream);
    return stream;
}

bool stays_in_psum(const Stream& stream) {
    bool copied = false;
    for (const Instruction& instruction : stream.instructions)
        copied = copied || instruction.op == StreamOp::kCopy;
    for (const Instruction& instruction : stream.instructions) {
        if (instruction.op != StreamOp::kBroadcastMatmul) continue;
        // The broadcast writes what the reader reads, or a temporary that is copied.
        const bool own = stream.tiles[instruction.dst.tile].tensor >= 0;
        CHECK(stream.tiles[instruction.dst.tile].buffer == Buffer::kPsum);
        CHECK(own != copied);
    }
    return !copied;
}

}  // namespace

TEST_CASE("a broadcast of one PSUM bank with one reader on VectorE stays in PSUM") {
    CHECK(stays_in_psum(broadcast_and_read(512, Reader::kVector)));
    CHECK_FALSE(stays_in_psum(broadcast_and_read(513, Reader::kVector)));
}

TEST_CASE("a broadcast is copied for readers without a port to PSUM, and for two readers") {
    CHECK_FALSE(stays_in_psum(broadcast_and_read(512, Reader::kGpSimd)));
    CHECK_FALSE(stays_in_psum(broadcast_and_read(512, Reader::kTwice)));
    CHECK_FALSE(stays_in_psum(broadcast_and_read(512, Reader::kProduct)));
    CHECK_FALSE(stays_in_psum(broadcast_and_read(512, Reader::kStore)));
}
