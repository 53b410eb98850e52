#include <catch2/catch.hpp>
#include <vector>

#include "trainium/execute.h"
#include "unit/trainium/execute_builder.h"

using namespace accelopt;
using namespace accelopt::trainium;
using namespace accelopt::trainium::testing;
using nki::AluOp;
using nki::DType;
using nki::Opcode;

namespace {

/// Runs `add` on one int32 tile [1, n] and gives the elements of its result.
template <typename Add>
std::vector<double> run(const std::vector<double>& elements, std::int64_t results, Add add) {
    ProgramBuilder builder;
    const auto n = static_cast<std::int64_t>(elements.size());
    const auto x = builder.input({1, n}, DType::kInt32);
    const auto y = builder.output({1, results}, DType::kInt32);
    const auto a = builder.tile(nki::Buffer::kSbuf, 1, n, DType::kInt32);
    const auto b = builder.tile(nki::Buffer::kSbuf, 1, results, DType::kInt32);
    builder.load(a, x);
    add(builder, builder.whole(a), builder.whole(b));
    builder.store(y, b);
    const HostArray input = encode_array(DType::kInt32, elements);
    const std::vector<InputArray> inputs = {input.as_input()};
    auto outputs = execute(builder.program, inputs, {});
    REQUIRE(outputs);
    return decode_array(DType::kInt32, outputs->front().bytes);
}

// Not representable in float32.
const std::vector<double> kWide = {16777217, -50663801, 1073741823};

}  // namespace

TEST_CASE("a tensor_tensor of 32-bit integers is exact unless it asks for the Vector Engine") {
    const auto doubled = [](nki::Engine engine) {
        return run(kWide, 3, [engine](ProgramBuilder& builder, const auto& a, const auto& b) {
            auto& operation = builder.add(Opcode::kTensorTensor, b, {a, a});
            operation.op0 = AluOp::kAdd;
            operation.engine = engine;
        });
    };
    const std::vector<double> exact = {33554434, -101327602, 2147483646};
    CHECK(doubled(nki::Engine::kAuto) == exact);
    CHECK(doubled(nki::Engine::kGpSimd) == exact);
    CHECK(doubled(nki::Engine::kVector) != exact);
}

TEST_CASE("the Scalar Engine copies 32-bit integers through float32") {
    const auto copied = [](nki::Engine engine) {
        return run(kWide, 3, [engine](ProgramBuilder& builder, const auto& a, const auto& b) {
            builder.add(Opcode::kCopy, b, {a}).engine = engine;
        });
    };
    CHECK(copied(nki::Engine::kVector) == kWide);
    CHECK(copied(nki::Engine::kScalar) == std::vector<double>{16777216, -50663800, 1073741824});
}

TEST_CASE("integer results wrap at the width of their operands") {
    const auto computed = [](AluOp op, double operand) {
        return run({2147483647, -2147483647, 3}, 3,
                   [&](ProgramBuilder& builder, const auto& a, const auto& b) {
                       auto& operation = builder.add(Opcode::kTensorScalar, b, {a});
                       operation.op0 = op;
                       operation.operand0.immediate = operand;
                   });
    };
    CHECK(computed(AluOp::kShiftLeft, 1) == std::vector<double>{-2, 2, 6});
    const auto doubled = run({2147483647, -2147483648.0, 1 << 30}, 3,
                             [&](ProgramBuilder& builder, const auto& a, const auto& b) {
                                 builder.add(Opcode::kTensorTensor, b, {a, a}).op0 = AluOp::kAdd;
                             });
    CHECK(doubled == std::vector<double>{-2, 0, -2147483648.0});
}

TEST_CASE("a shift of 8-bit integers drops the bits that leave the pattern") {
    ProgramBuilder builder;
    const auto x = builder.input({1, 3}, DType::kInt8);
    const auto y = builder.output({1, 3}, DType::kInt8);
    const auto a = builder.tile(nki::Buffer::kSbuf, 1, 3, DType::kInt8);
    const auto b = builder.tile(nki::Buffer::kSbuf, 1, 3, DType::kInt8);
    builder.load(a, x);
    auto& shift = builder.add(Opcode::kTensorScalar, builder.whole(b), {builder.whole(a)});
    shift.op0 = AluOp::kShiftLeft;
    shift.operand0.immediate = 1;
    builder.store(y, b);
    const HostArray input = encode_array(DType::kInt8, {100, -100, 3});
    const std::vector<InputArray> inputs = {input.as_input()};
    auto outputs = execute(builder.program, inputs, {});
    REQUIRE(outputs);
    CHECK(decode_array(DType::kInt8, outputs->front().bytes) == std::vector<double>{-56, 56, 6});
}

TEST_CASE("a bitvec reduction keeps every bit") {
    const auto reduced = [](AluOp op) {
        return run(kWide, 1, [op](ProgramBuilder& builder, const auto& a, const auto& b) {
            auto& operation = builder.add(Opcode::kReduce, b, {a});
            operation.op0 = op;
            operation.axes = 2;
        });
    };
    CHECK(reduced(AluOp::kBitwiseXor).front() == (16777217 ^ -50663801 ^ 1073741823));
    CHECK(reduced(AluOp::kBitwiseOr).front() == (16777217 | -50663801 | 1073741823));
    CHECK(reduced(AluOp::kBitwiseAnd).front() == (16777217 & -50663801 & 1073741823));
}
