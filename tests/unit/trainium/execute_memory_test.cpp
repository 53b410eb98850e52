#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "core/error.h"
#include "trainium/number_format.h"
#include "unit/trainium/execute_builder.h"
#include "unit/trainium/execute_reference.h"

using namespace accelopt;
using namespace accelopt::trainium;
using namespace accelopt::trainium::testing;
using nki::AluOp;
using nki::Buffer;
using nki::DType;
using nki::Opcode;
using nki::View;

namespace {

std::vector<double> counting(std::int64_t n) {
    std::vector<double> values(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = double(i);
    return values;
}

/// Runs a program of one input and returns its first output's numbers.
std::vector<double> run(const ProgramBuilder& builder, const HostArray& input,
                        std::int64_t* unwritten = nullptr) {
    const std::vector<InputArray> arrays{input.as_input()};
    const auto result = execute(builder.program, arrays, {});
    REQUIRE(result.ok());
    if (unwritten != nullptr) *unwritten = result->at(0).unwritten_elements;
    return decode_array(result->at(0).dtype, result->at(0).bytes);
}

}  // namespace

TEST_CASE("elements that no store touches are counted and poisoned") {
    const DType dtype = GENERATE(DType::kFloat32, DType::kBFloat16, DType::kFloat16,
                                 DType::kFloat8E5M2, DType::kInt32, DType::kUInt8);
    ProgramBuilder b;
    const auto in = b.input({4, 200}, dtype);
    const auto tile = b.tile(Buffer::kSbuf, 4, 200, dtype);
    const auto out = b.output({10, 200}, dtype);
    b.load(tile, in);
    b.add(Opcode::kStore, b.part(out, 3, 4, 0, 200), {b.whole(tile)});
    // A masked store: row 0, columns below 5.
    auto& masked = b.add(Opcode::kStore, b.part(out, 0, 1, 0, 200), {b.part(tile, 0, 1, 0, 200)});
    nki::MaskTerm term;
    term.constant = 4;
    term.coefficients[1] = -1;
    masked.mask.push_back(term);
    std::vector<double> values(800, 1.0);
    std::int64_t unwritten = 0;
    const auto got = run(b, encode_array(dtype, values), &unwritten);
    REQUIRE(unwritten == 10 * 200 - 4 * 200 - 5);
    const double poison = is_integer(dtype)
                              ? double(saturate(dtype, std::int64_t(poison_value(dtype))))
                              : poison_value(dtype);
    std::int64_t poisoned = 0;
    for (const double value : got) {
        REQUIRE((value == 1.0 || value == poison));
        if (value == poison) ++poisoned;
    }
    REQUIRE(poisoned == unwritten);
}

TEST_CASE("strided and overlapping stores are counted once") {
    ProgramBuilder b;
    const auto in = b.input({2, 8});
    const auto tile = b.tile(Buffer::kSbuf, 2, 8);
    const auto out = b.output({4, 16});
    b.load(tile, in);
    View even = b.part(out, 1, 2, 0, 8);
    even.dims[1].stride = 2;
    b.add(Opcode::kStore, even, {b.whole(tile)});
    b.add(Opcode::kStore, b.part(out, 2, 2, 0, 8), {b.whole(tile)});
    std::int64_t unwritten = 0;
    run(b, encode_array(DType::kFloat32, counting(16)), &unwritten);
    // Row 1: 8 even columns. Row 2: columns 0..7 and 8, 10, 12, 14. Row 3: columns 0..7.
    REQUIRE(unwritten == 64 - 8 - 12 - 8);
}

TEST_CASE("short HBM rows are counted exactly") {
    ProgramBuilder b;
    const auto in = b.input({100});
    const auto tile = b.tile(Buffer::kSbuf, 100, 1);
    const auto out = b.output({1000});
    b.load(tile, in);
    b.add(Opcode::kStore, b.part(out, 250, 100, 0, 1), {b.whole(tile)});
    std::int64_t unwritten = 0;
    const auto got = run(b, encode_array(DType::kFloat32, counting(100)), &unwritten);
    REQUIRE(unwritten == 900);
    REQUIRE(got[250] == 0);
    REQUIRE(got[349] == 99);
    REQUIRE(got[350] == poison_value(DType::kFloat32));
}

TEST_CASE("inputs are never written") {
    ProgramBuilder b;
    const auto in = b.input({2, 4});
    const auto tile = b.tile(Buffer::kSbuf, 2, 4);
    b.load(tile, in);
    const auto out = b.output({2, 4});
    b.store(out, tile);
    b.add(Opcode::kStore, b.whole(in), {b.whole(tile)});
    const HostArray input = encode_array(DType::kFloat32, counting(8));
    const HostArray before = input;
    const std::vector<InputArray> arrays{input.as_input()};
    REQUIRE_THROWS_AS(execute(b.program, arrays, {}), Error);
    REQUIRE(input.bytes == before.bytes);
}

TEST_CASE("the memory limit counts live tiles, not all tiles") {
    ProgramBuilder b;
    const auto in = b.input({128, 1024});
    const auto out = b.output({128, 1024});
    // 100 tiles of 512 KiB, two alive at a time.
    nki::TensorId previous = b.tile(Buffer::kSbuf, 128, 1024);
    b.load(previous, in);
    for (int i = 0; i < 100; ++i) {
        const auto next = b.tile(Buffer::kSbuf, 128, 1024);
        auto& operation = b.add(Opcode::kTensorScalar, b.whole(next), {b.whole(previous)});
        operation.op0 = AluOp::kAdd;
        operation.operand0.immediate = 1;
        previous = next;
    }
    b.store(out, previous);
    const HostArray input = encode_array(DType::kFloat32, counting(128 * 1024));
    const std::vector<InputArray> arrays{input.as_input()};
    ExecutionLimits limits;
    limits.memory_bytes = 3 * 128 * 1024 * 4;
    const auto enough = execute(b.program, arrays, limits);
    REQUIRE(enough.ok());
    REQUIRE(decode_array(DType::kFloat32, enough->at(0).bytes)[5] == 105.0);

    limits.memory_bytes = 2 * 128 * 1024 * 4 - 1;
    const auto too_little = execute(b.program, arrays, limits);
    REQUIRE_FALSE(too_little.ok());
    REQUIRE(too_little.error().outcome == "resource_limit");
    REQUIRE(too_little.error().code == "memory");
    REQUIRE(too_little.error().limit == limits.memory_bytes);
    REQUIRE(too_little.error().line > 0);
}

TEST_CASE("an allocation beyond all memory is refused, not attempted") {
    ProgramBuilder b;
    const auto in = b.input({1, 1});
    const auto huge = b.scratch({1'000'000'000, 1'000'000'000});
    const auto out = b.output({1, 1});
    const auto tile = b.tile(Buffer::kSbuf, 1, 1);
    b.load(tile, in);
    b.add(Opcode::kStore, b.part(huge, 5, 1, 5, 1), {b.whole(tile)});
    b.store(out, tile);
    const HostArray input = encode_array(DType::kFloat32, {1.0});
    const std::vector<InputArray> arrays{input.as_input()};
    const auto result = execute(b.program, arrays, {});
    REQUIRE_FALSE(result.ok());
    REQUIRE(result.error().code == "memory");
}

TEST_CASE("a partly overlapping source is read before the destination is written") {
    // Shifts a row by one to the right and to the left, within one tile.
    for (const std::int64_t shift : {1, -1}) {
        ProgramBuilder b;
        const auto in = b.input({4, 3000});
        const auto tile = b.tile(Buffer::kSbuf, 4, 3000);
        const auto out = b.output({4, 3000});
        b.load(tile, in);
        const std::int64_t to = shift > 0 ? 1 : 0;
        auto& operation = b.add(Opcode::kTensorScalar, b.part(tile, 0, 4, to, 2999),
                                {b.part(tile, 0, 4, 1 - to, 2999)});
        operation.op0 = AluOp::kAdd;
        operation.operand0.immediate = 0.5;
        b.store(out, tile);
        const auto got = run(b, encode_array(DType::kFloat32, counting(4 * 3000)));
        for (std::int64_t p = 0; p < 4; ++p) {
            for (std::int64_t f = 0; f < 2999; ++f) {
                REQUIRE(got[p * 3000 + to + f] == double(p * 3000 + 1 - to + f) + 0.5);
            }
        }
    }
}

TEST_CASE("overlaps across partitions, broadcasts and scalars read first as well") {
    auto random = RandomStream::keyed(9, "overlap");
    for (int trial = 0; trial < 60; ++trial) {
        INFO("trial " << trial);
        ProgramBuilder b;
        const auto in = b.input({12, 40});
        const auto tile = b.tile(Buffer::kSbuf, 12, 40);
        const auto out = b.output({12, 40});
        b.load(tile, in);
        const std::int64_t rows = pick(random, 2, 6);
        const std::int64_t columns = pick(random, 2, 20);
        const auto somewhere = [&] {
            return b.part(tile, pick(random, 0, 12 - rows), rows, pick(random, 0, 40 - columns),
                          columns);
        };
        const View dst = somewhere();
        View a = somewhere();
        View c = somewhere();
        if (trial % 3 == 0) a.dims[1].stride = 0;
        if (trial % 4 == 0) c = dst;
        auto& operation =
            b.add(trial % 5 == 0 ? Opcode::kReduce : Opcode::kScalarTensorTensor, dst, {a, c});
        if (operation.opcode == Opcode::kReduce) {
            operation.op0 = AluOp::kMax;
            operation.axes = 2;
            operation.dst.dims[1].count = 1;
        } else {
            operation.op0 = AluOp::kMultiply;
            operation.op1 = AluOp::kSubtract;
            operation.operand0.vector = true;
            operation.operand0.view =
                b.part(tile, pick(random, 0, 12 - rows), rows, pick(random, 0, 39), 1);
        }
        b.store(out, tile);
        const HostArray input =
            encode_array(DType::kFloat32, random_values(random, DType::kFloat32, 480));
        const auto got = run(b, input);
        ReferenceMachine reference(b.program, {input.values});
        reference.run();
        const auto& want = reference.values(out);
        for (std::size_t i = 0; i < got.size(); ++i) REQUIRE(got[i] == want[i]);
    }
}

TEST_CASE("in-place operations work where source and destination coincide") {
    ProgramBuilder b;
    const auto in = b.input({128, 777});
    const auto tile = b.tile(Buffer::kSbuf, 128, 777);
    const auto out = b.output({128, 777});
    b.load(tile, in);
    auto& operation = b.add(Opcode::kTensorTensor, b.whole(tile), {b.whole(tile), b.whole(tile)});
    operation.op0 = AluOp::kMultiply;
    b.store(out, tile);
    const auto got = run(b, encode_array(DType::kFloat32, counting(128 * 777)));
    for (std::size_t i = 0; i < got.size(); ++i) {
        REQUIRE(got[i] == double(float(double(i) * double(i))));
    }
}

TEST_CASE("HBM scratch and constants hold their dtype") {
    ProgramBuilder b;
    const auto in = b.input({2, 3});
    const auto scratch = b.scratch({2, 3}, DType::kBFloat16);
    const auto constant = b.constant({1, 3}, {1.0f, 2.0f, 257.0f}, DType::kBFloat16);
    const auto tile = b.tile(Buffer::kSbuf, 2, 3);
    const auto other = b.tile(Buffer::kSbuf, 2, 3);
    const auto out = b.output({2, 3});
    b.load(tile, in);
    b.store(scratch, tile);
    b.load(tile, scratch);
    View broadcast = b.whole(constant);
    broadcast.dims[0] = {0, 2};
    b.add(Opcode::kLoad, b.whole(other), {broadcast});
    auto& operation = b.add(Opcode::kTensorTensor, b.whole(tile), {b.whole(tile), b.whole(other)});
    operation.op0 = AluOp::kAdd;
    b.store(out, tile);
    const auto got = run(b, encode_array(DType::kFloat32, {1.001, 2, 3, 4, 5, 6}));
    REQUIRE(got == std::vector<double>{2.0, 4.0, 259.0, 5.0, 7.0, 262.0});
}

TEST_CASE("large integers survive copies exactly") {
    ProgramBuilder b;
    const auto in = b.input({1, 4}, DType::kInt32);
    const auto tile = b.tile(Buffer::kSbuf, 1, 4, DType::kInt32);
    const auto copy = b.tile(Buffer::kSbuf, 1, 4, DType::kUInt32);
    const auto out = b.output({1, 4}, DType::kInt32);
    b.load(tile, in);
    b.add(Opcode::kCopy, b.whole(copy), {b.whole(tile)});
    b.store(out, copy);
    const std::vector<double> values{16777217, 2147483647, 5, 123456789};
    REQUIRE(run(b, encode_array(DType::kInt32, values)) == values);
}

TEST_CASE("bits of unsigned and boolean tiles are inverted within their dtype") {
    for (const auto& [dtype, value, inverted] :
         {std::tuple{DType::kUInt8, 5.0, 250.0}, std::tuple{DType::kInt8, 5.0, -6.0},
          std::tuple{DType::kBool, 1.0, 0.0}, std::tuple{DType::kUInt32, 1.0, 4294967294.0}}) {
        ProgramBuilder b;
        const auto in = b.input({1, 1}, dtype);
        const auto tile = b.tile(Buffer::kSbuf, 1, 1, dtype);
        const auto out = b.output({1, 1}, dtype);
        b.load(tile, in);
        auto& operation = b.add(Opcode::kActivation, b.whole(tile), {b.whole(tile)});
        operation.function = nki::ActFunction::kInvert;
        b.store(out, tile);
        REQUIRE(run(b, encode_array(dtype, {value}))[0] == inverted);
    }
}

TEST_CASE("a program whose views leave their tiles is an internal error, not a crash") {
    ProgramBuilder b;
    const auto in = b.input({4, 4});
    const auto tile = b.tile(Buffer::kSbuf, 4, 4);
    const auto out = b.output({4, 4});
    b.load(tile, in);
    b.add(Opcode::kStore, b.part(out, 2, 4, 0, 4), {b.whole(tile)});
    const HostArray input = encode_array(DType::kFloat32, counting(16));
    const std::vector<InputArray> arrays{input.as_input()};
    REQUIRE_THROWS_AS(execute(b.program, arrays, {}), Error);
}

TEST_CASE("an input of the wrong size is an internal error") {
    ProgramBuilder b;
    const auto in = b.input({4, 4});
    const auto tile = b.tile(Buffer::kSbuf, 4, 4);
    const auto out = b.output({4, 4});
    b.load(tile, in);
    b.store(out, tile);
    const HostArray input = encode_array(DType::kFloat32, counting(15));
    const std::vector<InputArray> arrays{input.as_input()};
    REQUIRE_THROWS_AS(execute(b.program, arrays, {}), Error);
}

TEST_CASE("an output read before all of it is written shows poison, not zeros") {
    ProgramBuilder b;
    const auto in = b.input({2, 100});
    const auto tile = b.tile(Buffer::kSbuf, 2, 100);
    const auto out = b.output({4, 100});
    b.load(tile, in);
    b.add(Opcode::kStore, b.part(out, 0, 2, 0, 100), {b.whole(tile)});
    // Rows 1 and 2, of which only the first is written, move to rows 2 and 3.
    b.add(Opcode::kDmaCopy, b.part(out, 2, 2, 0, 100), {b.part(out, 1, 2, 0, 100)});
    std::int64_t unwritten = 0;
    const auto got = run(b, encode_array(DType::kFloat32, counting(200)), &unwritten);
    REQUIRE(unwritten == 0);
    REQUIRE(got[2 * 100 + 5] == 105);
    REQUIRE(got[3 * 100 + 5] == poison_value(DType::kFloat32));
}
