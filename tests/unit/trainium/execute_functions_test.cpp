#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "core/rng.h"
#include "trainium/execute.h"
#include "trainium/vector_kernels.h"
#include "unit/trainium/execute_reference.h"

using namespace accelopt;
using namespace accelopt::trainium;
using nki::ActFunction;
using nki::AluOp;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

float apply(ActFunction function, float x) {
    float y = 0;
    execution::unary_kernel(function)(&x, &y, 1);
    return y;
}

/// Distance in units of the last place of the exact result; subnormal results have the smallest
/// normal number's unit.
double error_ulp(float got, double exact) {
    if (std::isnan(exact)) return std::isnan(got) ? 0 : 1e9;
    if (std::fabs(exact) > std::numeric_limits<float>::max()) {
        return got == static_cast<float>(exact) ? 0 : 1e9;
    }
    const double magnitude = std::max(std::fabs(exact), 1.17549435e-38);
    const double ulp = std::ldexp(1.0, std::ilogb(magnitude) - 23);
    return std::fabs(double(got) - exact) / ulp;
}

struct Case {
    ActFunction function;
    double low;
    double high;
    double ulps;
};

}  // namespace

TEST_CASE("functions stay within their error bounds") {
    // The bounds are what was measured over all instruction-set levels, rounded up.
    const std::vector<Case> cases = {
        {ActFunction::kExp, -104, 88.7, 2},   {ActFunction::kLog, 0, 3e38, 1.5},
        {ActFunction::kLog, 0.5, 2, 1.5},     {ActFunction::kTan, -1.5, 1.5, 1},
        {ActFunction::kArctan, -50, 50, 3},   {ActFunction::kTanh, -10, 10, 3},
        {ActFunction::kTanh, -0.1, 0.1, 3},   {ActFunction::kErf, -4, 4, 3},
        {ActFunction::kErf, -0.01, 0.01, 3},  {ActFunction::kErfDx, -9, 9, 3},
        {ActFunction::kSigmoid, -88, 30, 3},  {ActFunction::kSilu, -80, 30, 4},
        {ActFunction::kGelu, -12, 8, 5},      {ActFunction::kGeluApproxTanh, -3, 8, 20},
        {ActFunction::kMish, -80, 30, 4},     {ActFunction::kSoftplus, -80, 50, 3},
        {ActFunction::kSqrt, 0, 1e30, 0.5},   {ActFunction::kReciprocal, -1e4, 1e4, 0.5},
        {ActFunction::kRsqrt, 0, 1e30, 1.5},  {ActFunction::kSquare, -1e9, 1e9, 0.5},
        {ActFunction::kAbs, -10, 10, 0},      {ActFunction::kRelu, -10, 10, 0},
        {ActFunction::kSign, -10, 10, 0},     {ActFunction::kFloor, -1e6, 1e6, 0},
        {ActFunction::kCeil, -1e6, 1e6, 0},   {ActFunction::kTrunc, -1e6, 1e6, 0},
        {ActFunction::kInvert, -1e6, 1e6, 0}, {ActFunction::kLogicalNot, -2, 2, 0},
        {ActFunction::kCopy, -2, 2, 0},
    };
    auto random = RandomStream::keyed(3, "functions");
    for (const Case& c : cases) {
        std::vector<float> in(20011);
        for (float& x : in) x = static_cast<float>(c.low + random.uniform() * (c.high - c.low));
        std::vector<float> out(in.size());
        execution::unary_kernel(c.function)(in.data(), out.data(), in.size());
        double worst = 0;
        float at = 0;
        for (std::size_t i = 0; i < in.size(); ++i) {
            const double error = error_ulp(out[i], testing::activation(c.function, in[i]));
            if (error > worst) {
                worst = error;
                at = in[i];
            }
        }
        INFO(nki::to_string(c.function) << " off by " << worst << " ulp near " << at);
        CHECK(worst <= c.ulps);
    }
}

TEST_CASE("functions with zeros of the result are accurate in absolute terms") {
    auto random = RandomStream::keyed(3, "absolute");
    for (const ActFunction function :
         {ActFunction::kSin, ActFunction::kCos, ActFunction::kSiluDx, ActFunction::kGeluDx}) {
        for (const double range : {4.0, 100.0, 30000.0, 1e6}) {
            std::vector<float> in(4001);
            for (float& x : in) x = static_cast<float>((random.uniform() * 2 - 1) * range);
            std::vector<float> out(in.size());
            execution::unary_kernel(function)(in.data(), out.data(), in.size());
            for (std::size_t i = 0; i < in.size(); ++i) {
                const double exact = testing::activation(function, in[i]);
                INFO(nki::to_string(function) << " of " << in[i]);
                REQUIRE(std::fabs(out[i] - exact) <= 4e-7);
            }
        }
    }
}

TEST_CASE("special values give the limits, and NaN stays NaN") {
    for (int k = 0; k < static_cast<int>(execution::kActFunctionCount); ++k) {
        const auto function = static_cast<ActFunction>(k);
        if (function == ActFunction::kLogicalNot) continue;
        INFO(nki::to_string(function));
        REQUIRE(std::isnan(apply(function, NAN)));
    }
    REQUIRE(apply(ActFunction::kExp, 89.0f) == kInfinity);
    REQUIRE(apply(ActFunction::kExp, kInfinity) == kInfinity);
    REQUIRE(apply(ActFunction::kExp, -kInfinity) == 0.0f);
    REQUIRE(apply(ActFunction::kExp, 0.0f) == 1.0f);
    REQUIRE(apply(ActFunction::kExp, 1e30f) == kInfinity);
    REQUIRE(apply(ActFunction::kLog, 0.0f) == -kInfinity);
    REQUIRE(apply(ActFunction::kLog, kInfinity) == kInfinity);
    REQUIRE(std::isnan(apply(ActFunction::kLog, -1.0f)));
    REQUIRE(apply(ActFunction::kSigmoid, kInfinity) == 1.0f);
    REQUIRE(apply(ActFunction::kSigmoid, -kInfinity) == 0.0f);
    REQUIRE(apply(ActFunction::kSigmoid, -100.0f) > 0.0f);
    REQUIRE(apply(ActFunction::kSilu, -kInfinity) == 0.0f);
    REQUIRE(apply(ActFunction::kSilu, -1000.0f) == 0.0f);
    REQUIRE(apply(ActFunction::kSilu, kInfinity) == kInfinity);
    REQUIRE(apply(ActFunction::kGelu, -kInfinity) == 0.0f);
    REQUIRE(apply(ActFunction::kGelu, kInfinity) == kInfinity);
    REQUIRE(apply(ActFunction::kGeluApproxTanh, -kInfinity) == 0.0f);
    REQUIRE(apply(ActFunction::kMish, -kInfinity) == 0.0f);
    REQUIRE(apply(ActFunction::kSoftplus, kInfinity) == kInfinity);
    REQUIRE(apply(ActFunction::kTanh, kInfinity) == 1.0f);
    REQUIRE(apply(ActFunction::kErf, -kInfinity) == -1.0f);
    REQUIRE(apply(ActFunction::kErfDx, kInfinity) == 0.0f);
    REQUIRE(apply(ActFunction::kRsqrt, 0.0f) == kInfinity);
    REQUIRE(std::isnan(apply(ActFunction::kSqrt, -1.0f)));
    REQUIRE(std::isnan(apply(ActFunction::kSin, kInfinity)));
}

TEST_CASE("maximum and minimum propagate NaN from either side") {
    for (const AluOp op : {AluOp::kMax, AluOp::kMin, AluOp::kAbsMax}) {
        const auto& kernels = execution::binary_kernels(op);
        const std::vector<float> a{NAN, 1, 2, NAN, 5};
        const std::vector<float> b{1, NAN, 3, NAN, 4};
        std::vector<float> out(5);
        kernels.vector_vector(a.data(), b.data(), out.data(), 5);
        REQUIRE(std::isnan(out[0]));
        REQUIRE(std::isnan(out[1]));
        REQUIRE(std::isnan(out[3]));
        REQUIRE(out[4] == (op == AluOp::kMin ? 4 : 5));
    }
}

TEST_CASE("powers match the library, also for the exponents with special code") {
    auto random = RandomStream::keyed(3, "power");
    for (const float exponent : {2.0f, 1.0f, -1.0f, 0.5f, -0.5f, 3.0f, 1.7f, -2.25f, 0.0f}) {
        std::vector<float> in(3001);
        for (float& x : in) x = static_cast<float>(random.uniform() * 100);
        in[0] = 0;
        in[1] = kInfinity;
        std::vector<float> out(in.size());
        execution::binary_kernels(AluOp::kPower)
            .vector_scalar(in.data(), &exponent, out.data(), in.size());
        for (std::size_t i = 0; i < in.size(); ++i) {
            INFO(in[i] << " to the power " << exponent);
            REQUIRE(error_ulp(out[i], std::pow(double(in[i]), double(exponent))) <= 2);
        }
    }
}

TEST_CASE("long sums keep their accuracy") {
    auto random = RandomStream::keyed(3, "sums");
    for (const std::size_t n : {1u, 2u, 63u, 64u, 65u, 127u, 128u, 1000u, 4096u, 4097u, 50000u}) {
        std::vector<float> in(n);
        double exact = 0;
        for (float& x : in) {
            x = static_cast<float>(random.uniform());
            exact += x;
        }
        const float sum = execution::reduce_kernel(AluOp::kAdd)(in.data(), n);
        // A running sum of 50,000 terms would be off by about 1e-4.
        INFO(n << " terms");
        REQUIRE(std::fabs(sum - exact) <= 4e-6 * exact + 1e-7);
    }
}

TEST_CASE("the instruction-set level has a name") {
    REQUIRE(simd_target() == execution::function_table().level);
    REQUIRE(simd_target() != "Unknown");
}
