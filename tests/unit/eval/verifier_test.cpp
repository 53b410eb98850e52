#include "eval/verifier.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "core/error.h"
#include "eval/bounds.h"
#include "eval/kernel_checks.h"
#include "eval/measured.h"
#include "scratch_folder.h"

using namespace accelopt;
using eval::verify_published;

namespace {

constexpr double kTolerance = 2e-5;

std::vector<float> ramp(std::size_t n) {
    std::vector<float> values(n);
    for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<float>(i % 7) - 3.0f;
    return values;
}

}  // namespace

TEST_CASE("equal outputs pass and their error is zero") {
    const auto reference = ramp(1003);
    const auto verdict = verify_published(reference, reference, 0, kTolerance);
    CHECK(verdict.ok);
    CHECK(verdict.rel_l2 == 0.0);
    CHECK(verdict.reason.empty());
}

TEST_CASE("the tolerance is a strict bound on the relative error in the L2 norm") {
    // A unit reference and one difference d: the error is d / 2 for four ones.
    const std::vector<float> reference(4, 1.0f);
    const auto with = [&](float d) {
        std::vector<float> out = reference;
        out[2] += d;
        return verify_published(out, reference, 0, 0.25);
    };
    CHECK(with(0.4999f).ok);
    CHECK_FALSE(with(0.5f).ok);
    CHECK(with(0.5f).reason == "value");
    CHECK(with(0.5f).rel_l2 == 0.25);
    CHECK_FALSE(with(-0.75f).ok);
}

TEST_CASE("a single wrong element among many is seen wherever it stands") {
    const auto reference = ramp(4099);
    for (const std::size_t at : {std::size_t{0}, std::size_t{15}, std::size_t{4095},
                                 std::size_t{4096}, std::size_t{4098}}) {
        auto out = reference;
        out[at] += 1.0f;
        CHECK_FALSE(verify_published(out, reference, 0, kTolerance).ok);
    }
}

TEST_CASE("non-finite values fail before anything else is looked at") {
    const auto reference = ramp(64);
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
          -std::numeric_limits<float>::infinity()}) {
        auto out = reference;
        out[63] = bad;
        const auto verdict = verify_published(out, reference, 5, 1e30);
        CHECK_FALSE(verdict.ok);
        CHECK(verdict.reason == "nonfinite");
        // A reference that is not finite itself does not excuse it.
        CHECK(verify_published(out, out, 0, 1e30).reason == "nonfinite");
    }
}

TEST_CASE("elements that were never stored fail even when their values look right") {
    const auto reference = ramp(64);
    const auto verdict = verify_published(reference, reference, 1, kTolerance);
    CHECK_FALSE(verdict.ok);
    CHECK(verdict.reason == "unwritten_output");
    CHECK(verdict.message.find("1 of 64") == 0);
}

TEST_CASE("a zero reference is met by zeros alone") {
    const std::vector<float> zero(32, 0.0f);
    std::vector<float> out = zero;
    CHECK(verify_published(out, zero, 0, kTolerance).ok);
    out[3] = 1e-30f;
    CHECK_FALSE(verify_published(out, zero, 0, kTolerance).ok);
}

TEST_CASE("norms do not overflow for any float32 values") {
    const std::vector<float> huge(1000, std::numeric_limits<float>::max());
    CHECK(verify_published(huge, huge, 0, kTolerance).ok);
}

TEST_CASE("arrays of different sizes are a broken invariant") {
    CHECK_THROWS_AS(verify_published(ramp(3), ramp(4), 0, kTolerance), Error);
}

TEST_CASE("the textual ban sees code, not comments") {
    CHECK_FALSE(eval::find_precision_ban("x = 1  # float16 would be faster\n").has_value());
    const auto banned = eval::find_precision_ban("import x\ny = nl.bfloat16\n");
    REQUIRE(banned.has_value());
    CHECK(banned->outcome == "rejected");
    CHECK(banned->code == "precision_ban");
    CHECK(banned->line == 2);
    CHECK(banned->column == 9);
    CHECK(eval::find_precision_ban("t = 'float16'").has_value());
    CHECK_FALSE(eval::find_precision_ban("nl.float32").has_value());
}

TEST_CASE("source lines are found by number") {
    CHECK(eval::source_line("a\nb\r\nc", 1) == "a");
    CHECK(eval::source_line("a\nb\r\nc", 2) == "b");
    CHECK(eval::source_line("a\nb\r\nc", 3) == "c");
    CHECK(eval::source_line("a\nb\r\nc", 4).empty());
    CHECK(eval::source_line("a", 0).empty());
}

namespace {

/// A program that returns tensors of these roles, shapes and types.
nki::Program returning(const std::vector<nki::Tensor>& tensors) {
    nki::Program program;
    for (nki::Tensor tensor : tensors) {
        tensor.id = static_cast<nki::TensorId>(program.tensors.size());
        program.outputs.push_back(tensor.id);
        program.tensors.push_back(tensor);
    }
    return program;
}

nki::Tensor output_tensor(std::vector<std::int64_t> shape) {
    nki::Tensor tensor;
    tensor.name = "out";
    tensor.buffer = nki::Buffer::kHbm;
    tensor.role = nki::TensorRole::kOutput;
    tensor.shape = std::move(shape);
    return tensor;
}

eval::Problem one_output() {
    eval::Problem problem;
    problem.outputs = {{"y", {4096, 7168}, {128, 32, 7168}}};
    return problem;
}

std::string output_fault(const std::vector<nki::Tensor>& tensors) {
    const auto finding = eval::check_outputs(returning(tensors), one_output());
    if (!finding) return "";
    CHECK(finding->outcome == "rejected");
    return finding->code;
}

}  // namespace

TEST_CASE("a kernel must return the right number of float32 HBM tensors of the right shape") {
    CHECK(output_fault({output_tensor({128, 32, 7168})}).empty());
    CHECK(output_fault({output_tensor({4096, 7168})}).empty());
    CHECK(output_fault({output_tensor({32, 128, 7168})}) == "output_shape");
    CHECK(output_fault({output_tensor({1, 4096, 7168})}) == "output_shape");
    CHECK(output_fault({}) == "output_shape");
    CHECK(output_fault({output_tensor({4096, 7168}), output_tensor({4096, 7168})}) ==
          "output_shape");

    nki::Tensor wide = output_tensor({4096, 7168});
    wide.dtype = nki::DType::kBFloat16;
    CHECK(output_fault({wide}) == "output_type");
    nki::Tensor tile = output_tensor({4096, 7168});
    tile.buffer = nki::Buffer::kSbuf;
    tile.role = nki::TensorRole::kOnChip;
    CHECK(output_fault({tile}) == "output_type");
    nki::Tensor input = output_tensor({4096, 7168});
    input.role = nki::TensorRole::kInput;
    CHECK(output_fault({input}) == "output_alias");
}

TEST_CASE("one tensor cannot stand for two outputs") {
    eval::Problem problem = one_output();
    problem.outputs.push_back(problem.outputs[0]);
    nki::Program program = returning({output_tensor({4096, 7168})});
    program.outputs.push_back(program.outputs[0]);
    const auto finding = eval::check_outputs(program, problem);
    REQUIRE(finding.has_value());
    CHECK(finding->code == "output_alias");
}

TEST_CASE("measured profiles keep absent figures absent") {
    const ScratchFolder folder;
    const std::string file = folder.write(
        "m.csv", "problem,shape,latency_ms,hbm_read_bytes,psum_read_bytes\nsilu,x,1.5,100,\n");
    const auto profile = eval::read_measured(file, "silu");
    REQUIRE(profile.has_value());
    CHECK(profile->latency == 1.5);
    CHECK(profile->hbm_read_bytes == 100);
    CHECK_FALSE(profile->psum_read_bytes.has_value());
    CHECK_FALSE(eval::read_measured(file, "adamw").has_value());
    CHECK_FALSE(eval::read_measured(folder.path() + "/none.csv", "silu").has_value());
    const std::string torn = folder.write("t.csv", "problem,latency_ms\nsilu\n");
    CHECK_THROWS_WITH(eval::read_measured(torn, "silu"), Catch::Contains("t.csv:2"));
    const std::string text = folder.write("u.csv", "problem,latency_ms\nsilu,fast\n");
    CHECK_THROWS_WITH(eval::read_measured(text, "silu"), Catch::Contains("'fast'"));
}

namespace {

/// One output with S = 1 everywhere, stored as a reference would be.
struct Judged {
    explicit Judged(const std::vector<double>& reference, std::vector<double> scale = {}) {
        value.resize(reference.size());
        residual.resize(reference.size());
        stored.resize(reference.size());
        if (scale.empty()) scale.assign(reference.size(), 1.0);
        eval::store_reference(reference, value, residual);
        const auto fault = eval::store_scale(scale, value, stored);
        REQUIRE_FALSE(fault.has_value());
    }
    eval::OutputVerdict judge(const std::vector<float>& output, double constant = 4,
                              std::vector<std::int64_t> shape = {}) const {
        if (shape.empty()) shape = {static_cast<std::int64_t>(output.size())};
        return eval::verify_conditioned(output, {value, residual, stored}, shape, 0, constant);
    }
    std::vector<float> value;
    std::vector<std::uint16_t> residual, stored;
};

constexpr double kU = 0x1p-24;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

}  // namespace

TEST_CASE("the conditioned bound is c units of 2^-24 S, element by element") {
    for (const std::size_t n : {std::size_t{1}, std::size_t{16}, std::size_t{1003}}) {
        for (const std::size_t at : {std::size_t{0}, n / 2, n - 1}) {
            const Judged judged(std::vector<double>(n, 0.0));
            std::vector<float> out(n, 0.0f);
            out[at] = static_cast<float>(4 * kU);
            const auto inside = judged.judge(out);
            CHECK(inside.ok);
            CHECK(inside.max_conditioned == 4.0);
            out[at] = std::nextafter(out[at], 1.0f);
            const auto outside = judged.judge(out);
            CHECK_FALSE(outside.ok);
            CHECK(outside.failing == 1);
            CHECK(outside.message.find("[" + std::to_string(at) + "]") != std::string::npos);
            out[at] = -out[at];
            CHECK_FALSE(judged.judge(out).ok);
        }
    }
}

TEST_CASE("the reference is finer than float32, so that half an ulp counts as half an ulp") {
    const double third = 1.0 / 3;
    const Judged judged({third}, {third});
    const auto verdict = judged.judge({static_cast<float>(third)});
    CHECK(verdict.ok);
    const double error = std::abs(static_cast<double>(static_cast<float>(third)) - third);
    CHECK(*verdict.max_conditioned == Approx(error / (kU * third)).epsilon(0.01));
}

TEST_CASE("infinities and NaN must be where the reference has them, and equal", "[X04]") {
    const Judged judged({-kInfinity, kInfinity, 1.0, kNan}, {0, 0, 1, 0});
    CHECK(judged.judge({-kInfinity, kInfinity, 1.0f, kNan}).ok);
    for (const std::vector<float>& wrong : {std::vector<float>{kInfinity, kInfinity, 1.0f, kNan},
                                            {-3e38f, kInfinity, 1.0f, kNan},
                                            {-kInfinity, kInfinity, kNan, kNan},
                                            {-kInfinity, kInfinity, kInfinity, kNan},
                                            {-kInfinity, kInfinity, 1.0f, 0.0f},
                                            {kNan, kInfinity, 1.0f, kNan}}) {
        const auto verdict = judged.judge(wrong);
        CHECK_FALSE(verdict.ok);
        CHECK(verdict.reason == "nonfinite");
    }
}

TEST_CASE("where nothing is added up only zero is right, down to underflow", "[X04]") {
    const Judged judged(std::vector<double>(20, 0.0), std::vector<double>(20, 0.0));
    std::vector<float> out(20, 0.0f);
    const auto exact = judged.judge(out);
    CHECK(exact.ok);
    CHECK(exact.rel_l2 == 0.0);
    out[3] = -0.0f;
    out[4] = 1e-45f;  // less than the smallest normal number: flushing may make it or lose it
    CHECK(judged.judge(out).ok);
    out[5] = 1e-30f;
    CHECK_FALSE(judged.judge(out).ok);
}

TEST_CASE("elements never stored are named before any value") {
    const Judged judged({1.0, 2.0});
    const auto verdict = eval::verify_conditioned(
        std::vector<float>{1.0f, 2.0f}, {judged.value, judged.residual, judged.stored}, {2}, 1, 4);
    CHECK_FALSE(verdict.ok);
    CHECK(verdict.reason == "unwritten_output");
}

TEST_CASE("failures confined to the last tile of a dimension are a tail", "[X10]") {
    const std::vector<std::int64_t> shape = {300, 4};  // tiles of 128, 128 and 44 rows
    const Judged judged(std::vector<double>(1200, 1.0));
    const auto with = [&](std::initializer_list<int> rows) {
        std::vector<float> out(1200, 1.0f);
        for (const int row : rows) out[static_cast<std::size_t>(row * 4 + 1)] = 2.0f;
        return judged.judge(out, 4, shape);
    };
    CHECK(with({256}).reason == "tail");
    CHECK(with({256, 299}).reason == "tail");
    CHECK(with({255}).reason == "value");
    CHECK(with({0, 299}).reason == "value");
    CHECK(with({299}).message.find("dimension 0") != std::string::npos);
    // A dimension of a single tile has no tail.
    CHECK(judged.judge(std::vector<float>(1200, 2.0f), 4, {100, 12}).reason == "value");
}
