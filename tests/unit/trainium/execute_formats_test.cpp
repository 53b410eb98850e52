#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "core/rng.h"
#include "trainium/number_format.h"
#include "trainium/vector_kernels.h"

using namespace accelopt;
using namespace accelopt::trainium;
using nki::DType;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// All finite values of a dtype with their bit patterns, from its definition.
struct Code {
    double value;
    std::uint32_t bits;
};

std::vector<Code> codes(int exponent_bits, int mantissa_bits) {
    std::vector<Code> all;
    const int bias = (1 << (exponent_bits - 1)) - 1;
    for (int sign = 0; sign < 2; ++sign) {
        for (int e = 0; e < (1 << exponent_bits) - 1; ++e) {
            for (int m = 0; m < (1 << mantissa_bits); ++m) {
                const double fraction = std::ldexp(m, -mantissa_bits);
                const double magnitude =
                    e == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, e - bias);
                const auto bits = static_cast<std::uint32_t>(
                    (((sign << exponent_bits) | e) << mantissa_bits) | m);
                all.push_back({sign != 0 ? -magnitude : magnitude, bits});
            }
        }
    }
    return all;
}

float decode_bits(DType dtype, std::uint32_t bits) {
    if (dtype == DType::kBFloat16) return decode_bfloat16(static_cast<std::uint16_t>(bits));
    if (dtype == DType::kFloat16) return decode_float16(static_cast<std::uint16_t>(bits));
    return decode_float8(dtype, static_cast<std::uint8_t>(bits));
}

std::uint32_t encode_bits(DType dtype, float value) {
    if (dtype == DType::kBFloat16) return encode_bfloat16(value);
    if (dtype == DType::kFloat16) return encode_float16(value);
    return encode_float8(dtype, value);
}

}  // namespace

TEST_CASE("every value of the small float dtypes survives a round trip") {
    const auto [dtype, exponent, mantissa] =
        GENERATE(table<DType, int, int>({{DType::kBFloat16, 8, 7},
                                         {DType::kFloat16, 5, 10},
                                         {DType::kFloat8E4M3, 4, 3},
                                         {DType::kFloat8E5M2, 5, 2}}));
    for (const Code& code : codes(exponent, mantissa)) {
        REQUIRE(double(decode_bits(dtype, code.bits)) == code.value);
        REQUIRE(encode_bits(dtype, float(code.value)) == code.bits);
        REQUIRE(double(round_to(dtype, float(code.value))) == code.value);
    }
    REQUIRE(std::isnan(decode_bits(dtype, encode_bits(dtype, NAN))));
    REQUIRE(decode_bits(dtype, encode_bits(dtype, -kInfinity)) == -kInfinity);
}

TEST_CASE("rounding goes to the nearest value, ties to even") {
    const auto [dtype, exponent, mantissa] = GENERATE(table<DType, int, int>(
        {{DType::kFloat16, 5, 10}, {DType::kFloat8E4M3, 4, 3}, {DType::kFloat8E5M2, 5, 2}}));
    const auto all = codes(exponent, mantissa);
    const std::size_t positive = all.size() / 2;
    for (std::size_t i = 0; i + 1 < positive; ++i) {
        const double low = all[i].value;
        const double high = all[i + 1].value;
        const auto middle = static_cast<float>((low + high) / 2);
        const double even = (all[i].bits & 1) == 0 ? low : high;
        REQUIRE(double(round_to(dtype, middle)) == even);
        REQUIRE(double(round_to(dtype, -middle)) == -even);
        REQUIRE(double(round_to(dtype, std::nextafter(middle, 0.0f))) == low);
        REQUIRE(double(round_to(dtype, std::nextafter(middle, kInfinity))) == high);
    }
    const double largest = all[positive - 1].value;
    const double beyond = largest + (largest - all[positive - 2].value) / 2;
    REQUIRE(double(round_to(dtype, std::nextafter(float(beyond), 0.0f))) == largest);
    REQUIRE(round_to(dtype, float(beyond)) == kInfinity);
}

TEST_CASE("vector conversions equal the scalar ones") {
    auto random = RandomStream::keyed(7, "formats");
    std::vector<float> values;
    for (int i = 0; i < 40000; ++i) values.push_back(std::bit_cast<float>(random.next_u32()));
    // Dense around the float16 range, its subnormals and the ties.
    for (int e = -30; e < 18; ++e) {
        for (int i = 0; i < 400; ++i) {
            const float sign = random.below(2) == 0 ? 1.0f : -1.0f;
            const int mantissa = 4096 + static_cast<int>(random.below(4096));
            values.push_back(sign * std::ldexp(static_cast<float>(mantissa), e - 12));
        }
    }
    for (const float x : {0.0f, -0.0f, kInfinity, -kInfinity, 65504.0f, 65519.9f, 65520.0f}) {
        values.push_back(x);
    }
    const auto same = [](float a, float b) {
        return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b) ||
               (std::isnan(a) && std::isnan(b));
    };
    for (const DType dtype : {DType::kBFloat16, DType::kFloat16, DType::kTFloat32}) {
        std::vector<float> rounded = values;
        execution::round_values(dtype, rounded.data(), rounded.size());
        for (std::size_t i = 0; i < values.size(); ++i) {
            INFO(nki::to_string(dtype) << " of " << values[i]);
            REQUIRE(same(rounded[i], round_to(dtype, values[i])));
        }
    }
    for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
        std::vector<std::uint16_t> bits(values.size());
        std::vector<float> back(values.size());
        auto* raw = reinterpret_cast<std::byte*>(bits.data());
        execution::encode(dtype, dtype, values.data(), raw, 1, values.size());
        execution::decode(dtype, raw, 1, back.data(), values.size());
        for (std::size_t i = 0; i < values.size(); ++i) {
            INFO(nki::to_string(dtype) << " of " << values[i]);
            if (std::isnan(values[i])) {
                REQUIRE(std::isnan(back[i]));
            } else {
                REQUIRE(bits[i] == encode_bits(dtype, values[i]));
                REQUIRE(same(back[i], round_to(dtype, values[i])));
            }
        }
    }
}

TEST_CASE("floats become integers by rounding to even and saturating") {
    REQUIRE(to_integer(DType::kInt32, 2.5f) == 2);
    REQUIRE(to_integer(DType::kInt32, 3.5f) == 4);
    REQUIRE(to_integer(DType::kInt32, -2.5f) == -2);
    REQUIRE(to_integer(DType::kInt8, 300.0f) == 127);
    REQUIRE(to_integer(DType::kInt8, -300.0f) == -128);
    REQUIRE(to_integer(DType::kUInt8, -1.0f) == 0);
    REQUIRE(to_integer(DType::kInt32, kInfinity) == 2147483647);
    REQUIRE(to_integer(DType::kInt32, NAN) == 0);
    REQUIRE(to_integer(DType::kBool, 0.25f) == 1);
    REQUIRE(to_integer(DType::kBool, 0.0f) == 0);
}

TEST_CASE("poison is finite in every dtype") {
    for (int k = 0; k <= static_cast<int>(DType::kBool); ++k) {
        const auto dtype = static_cast<DType>(k);
        const float poison = poison_value(dtype);
        REQUIRE(std::isfinite(poison));
        if (is_integer(dtype)) {
            REQUIRE(saturate(dtype, static_cast<std::int64_t>(poison)) == poison);
        } else {
            REQUIRE(round_to(dtype, poison) == poison);
        }
    }
}
