#include <catch2/catch.hpp>

#include "timing_programs.h"
#include "trainium/passes.h"

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

Stream merged(const ProgramBuilder& b, const Machine& machine = trn1()) {
    Stream stream = lower(b.program, machine);
    merge_values(stream, machine);
    remove_dead_code(stream);
    return stream;
}

/// Loads `bytes` per partition as three tiles, twice over, and uses every one.
Stream two_sweeps(std::int64_t bytes) {
    ProgramBuilder b;
    const std::int64_t columns = bytes / 4;
    const auto in = b.input({128, columns});
    const auto out = b.output({256, columns});
    for (int sweep = 0; sweep < 2; ++sweep) {
        for (int k = 0; k < 3; ++k) {
            const std::int64_t first = columns * k / 3;
            const std::int64_t n = columns * (k + 1) / 3 - first;
            const auto x = b.tile(128, n, 1);
            const auto y = b.tile(128, n, 2);
            b.load(b.whole(x), b.window(in, 0, 128, first, n));
            b.activation(b.whole(y), nki::ActFunction::kExp, b.whole(x)).scale.immediate = sweep;
            b.store(b.window(out, 128 * sweep, 128, first, n), b.whole(y));
        }
    }
    return merged(b);
}

}  // namespace

TEST_CASE("loads of the same elements are merged while they fit SBUF, and not beyond") {
    CHECK(count_ops(two_sweeps(192 * 1024), StreamOp::kLoad) == 3);
    CHECK(count_ops(two_sweeps(192 * 1024 + 4), StreamOp::kLoad) == 6);
}

TEST_CASE("loads of other elements, or of HBM that the kernel writes, stay") {
    ProgramBuilder b;
    const auto in = b.input({128, 1024});
    const auto out = b.output({128, 2048});
    const auto scratch = b.hbm({128, 512}, nki::TensorRole::kScratch);
    auto use = [&](const nki::View& source, std::int64_t column) {
        const auto x = b.tile(128, 512, 1);
        b.load(b.whole(x), source);
        b.store(b.window(out, 0, 128, column, 512), b.whole(x));
    };
    use(b.window(in, 0, 128, 0, 512), 0);
    use(b.window(in, 0, 128, 512, 512), 512);
    const auto y = b.tile(128, 512, 2);
    b.add(nki::Opcode::kMemset, b.whole(y));
    b.store(b.whole(scratch), b.whole(y));
    use(b.whole(scratch), 1024);
    use(b.whole(scratch), 1536);
    CHECK(count_ops(merged(b), StreamOp::kLoad) == 4);
}

namespace {

/// Twice: load, transpose through the array (after multiplying by `factors` if given), copy, store.
ProgramBuilder transposed_twice(bool implicit, const std::vector<double>& factors = {}) {
    ProgramBuilder b;
    const auto in = b.input({128, 128});
    const auto out = b.output({256, 128});
    for (int i = 0; i < 2; ++i) {
        auto x = b.tile(128, 128, 1);
        b.load(b.whole(x), b.whole(in));
        if (!factors.empty()) {
            const auto scaled = b.tile(128, 128, 2);
            b.scalar(b.whole(scaled), AluOp::kMultiply, b.whole(x), factors[i]);
            x = scaled;
        }
        const auto p = b.psum(128, 128, 3);
        const auto t = b.tile(128, 128, 4);
        b.transpose(b.whole(p), b.whole(x), implicit);
        b.copy(b.whole(t), b.whole(p));
        b.store(b.window(out, 128 * i, 128, 0, 128), b.whole(t));
    }
    return b;
}

}  // namespace

TEST_CASE("explicit transposes are merged with their copies, those of nl.matmul are not") {
    const Stream explicit_ones = merged(transposed_twice(false));
    CHECK(count_ops(explicit_ones, StreamOp::kTranspose) == 1);
    CHECK(count_ops(explicit_ones, StreamOp::kCopy) == 1);
    CHECK(count_ops(explicit_ones, StreamOp::kStore) == 2);
    const Stream implicit_ones = merged(transposed_twice(true));
    CHECK(count_ops(implicit_ones, StreamOp::kTranspose) == 2);
    CHECK(count_ops(implicit_ones, StreamOp::kCopy) == 2);
    CHECK(count_ops(implicit_ones, StreamOp::kLoad) == 2);  // the data once, and the identity
}

TEST_CASE("immediates are part of a value: 0.1 g and 0.001 g do not merge") {
    CHECK(count_ops(merged(transposed_twice(false, {0.1, 0.1})), StreamOp::kTranspose) == 1);
    CHECK(count_ops(merged(transposed_twice(false, {0.1, 0.001})), StreamOp::kTranspose) == 2);
}

TEST_CASE("arithmetic of two statements is merged only where a merged transpose replaces it") {
    const Stream fed = merged(transposed_twice(false, {0.1, 0.1}));
    CHECK(count_ops(fed, StreamOp::kTensorScalar) == 1);
    ProgramBuilder b;
    const auto in = b.input({128, 128});
    const auto out = b.output({256, 128});
    for (int i = 0; i < 2; ++i) {
        const auto x = b.tile(128, 128, 1);
        const auto y = b.tile(128, 128, 2 + i);
        b.load(b.whole(x), b.whole(in));
        b.scalar(b.whole(y), AluOp::kMultiply, b.whole(x), 0.1);
        b.store(b.window(out, 128 * i, 128, 0, 128), b.whole(y));
    }
    CHECK(count_ops(merged(b), StreamOp::kTensorScalar) == 2);
    CHECK(count_ops(merged(b), StreamOp::kLoad) == 1);
}

TEST_CASE("copies of a buffer that is rewritten between them are never merged") {
    for (bool rewrite : {false, true}) {
        ProgramBuilder b;
        const auto in = b.input({128, 128});
        const auto out = b.output({256, 128});
        const auto x = b.tile(128, 128, 1);
        b.load(b.whole(x), b.whole(in));
        for (int i = 0; i < 2; ++i) {
            const auto y = b.tile(128, 128, 2);
            b.copy(b.whole(y), b.whole(x));
            b.store(b.window(out, 128 * i, 128, 0, 128), b.whole(y));
            if (rewrite && i == 0) b.scalar(b.whole(x), AluOp::kAdd, b.whole(x), 1.0);
        }
        CAPTURE(rewrite);
        CHECK(count_ops(merged(b), StreamOp::kCopy) == (rewrite ? 2 : 1));
    }
}

TEST_CASE("un-hoisting an array keeps the loads that feed it") {
    // The transposes do not fit, so their sources are loaded again too, although they would fit.
    for (std::int64_t tiles : {384, 385}) {  // x 512 bytes per partition = 192 KiB, or just above
        ProgramBuilder b;
        const auto in = b.input({128 * tiles, 16});
        const auto out = b.output({2 * 16 * tiles, 128});
        for (std::int64_t i = 0; i < 2 * tiles; ++i) {
            const auto x = b.tile(128, 16, 1);
            const auto p = b.psum(16, 128, 2);
            const auto t = b.tile(16, 128, 3);
            b.load(b.whole(x), b.window(in, 128 * (i % tiles), 128, 0, 16));
            b.transpose(b.whole(p), b.whole(x), false);
            b.copy(b.whole(t), b.whole(p));
            b.store(b.window(out, 16 * i, 16, 0, 128), b.whole(t));
        }
        const Stream stream = merged(b);
        const int times = tiles == 384 ? 1 : 2;
        CAPTURE(tiles);
        CHECK(count_ops(stream, StreamOp::kTranspose) == times * tiles);
        CHECK(count_ops(stream, StreamOp::kLoad) == times * tiles);
    }
}

TEST_CASE("dead code is removed through chains, stores never") {
    ProgramBuilder b;
    const auto in = b.input({128, 128});
    const auto out = b.output({128, 128});
    const auto x = b.tile(128, 128, 1);
    const auto y = b.tile(128, 128, 2);
    const auto z = b.tile(128, 128, 3);
    b.load(b.whole(x), b.whole(in));
    b.scalar(b.whole(y), AluOp::kAdd, b.whole(x), 1.0);
    b.scalar(b.whole(z), AluOp::kAdd, b.whole(y), 1.0);
    b.store(b.whole(out), b.whole(x));
    const Stream stream = merged(b);
    REQUIRE(stream.instructions.size() == 2);
    CHECK(stream.instructions[1].op == StreamOp::kStore);
}

namespace {

/// Three steps that compute the same product from what was loaded before them, at one site or at
/// one site each, with `bytes` per partition of it.
Stream invariant_product(bool one_site, bool same_operands) {
    ProgramBuilder b;
    const auto in = b.input({256, 512});
    const auto out = b.output({384, 512});
    const auto x = b.tile(128, 512, 1);
    const auto y = b.tile(128, 512, 2);
    b.load(b.whole(x), b.window(in, 0, 128, 0, 512));
    b.load(b.whole(y), b.window(in, 128, 128, 0, 512));
    for (int step = 0; step < 3; ++step) {
        const auto product = b.tile(128, 512, one_site ? 3 : 3 + step);
        const auto result = b.tile(128, 512, 9);
        b.tensor_tensor(b.whole(product), AluOp::kMultiply, b.whole(x),
                        b.whole(same_operands || step == 0 ? y : x));
        b.scalar(b.whole(result), AluOp::kAdd, b.whole(product), step);
        b.store(b.window(out, 128 * step, 128, 0, 512), b.whole(result));
    }
    return merged(b);
}

}  // namespace

TEST_CASE("arithmetic that a loop computes again is hoisted; that of other statements is not") {
    CHECK(count_ops(invariant_product(true, true), StreamOp::kTensorTensor) == 1);
    CHECK(count_ops(invariant_product(false, true), StreamOp::kTensorTensor) == 3);
    CHECK(count_ops(invariant_product(true, false), StreamOp::kTensorTensor) == 2);
}

TEST_CASE("arrays past SBUF are hoisted and spilled only when that relieves the busiest unit") {
    // Twelve passes over 64 transposes of 128 x 128 each; the hoisted array is 32 KiB per
    // partition, the machine holds less. Products make TensorE busy, or stores the DMAs.
    const auto transposes = [](bool stores) {
        ProgramBuilder b;
        const auto in = b.input({128 * 64, 128});
        const auto out = b.output({128 * 12, 512});
        const auto w = b.tile(128, 512, 1);
        b.load(b.whole(w), b.whole(b.input({128, 512})));
        for (int pass = 0; pass < 12; ++pass) {
            const auto sum = b.psum(128, 512, 2);
            for (int k = 0; k < 64; ++k) {
                const auto x = b.tile(128, 128, 3);
                const auto turned = b.psum(128, 128, 4);
                const auto xt = b.tile(128, 128, 5);
                b.load(b.whole(x), b.window(in, 128 * k, 128, 0, 128));
                b.transpose(b.whole(turned), b.whole(x), false);
                b.copy(b.whole(xt), b.whole(turned));
                b.matmul(b.whole(sum), b.whole(xt), b.whole(w), k > 0);
            }
            const auto result = b.tile(128, 512, 6);
            b.copy(b.whole(result), b.whole(sum));
            for (int n = 0; n < (stores ? 2000 : 1); ++n)
                b.store(b.window(out, 128 * pass, 128, 0, 512), b.whole(result));
        }
        Machine machine = trn1();
        machine.hoist_partition_bytes = 16 * 1024;
        machine.resident_partition_bytes = 16 * 1024;
        Stream stream = lower(b.program, machine);
        compile(stream, machine);
        return count_ops(stream, StreamOp::kTranspose);
    };
    CHECK(transposes(false) == 64);
    CHECK(transposes(true) == 12 * 64);
}
