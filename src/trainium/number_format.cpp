#include "trainium/number_format.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "core/error.h"

namespace accelopt::trainium {

using nki::DType;

namespace {

/// Layout of a floating-point dtype smaller than float32, with IEEE-like infinities and NaNs.
struct FloatLayout {
    int exponent_bits;
    int mantissa_bits;

    int bias() const { return (1 << (exponent_bits - 1)) - 1; }
    int min_exponent() const { return 1 - bias(); }
    int max_exponent() const { return bias(); }
};

constexpr FloatLayout kFloat16Layout{5, 10};
constexpr FloatLayout kFloat8E4M3Layout{4, 3};
constexpr FloatLayout kFloat8E5M2Layout{5, 2};

/// Rounds to nearest even in a format with subnormals and infinities. The product and the sum are
/// exact in double, so one rounding takes place.
float round_in(const FloatLayout& layout, float value) {
    if (!std::isfinite(value) || value == 0.0f) return value;
    int exponent = 0;
    std::frexp(value, &exponent);
    const int unit = std::max(exponent - 1, layout.min_exponent()) - layout.mantissa_bits;
    const double rounded = std::ldexp(std::nearbyint(std::ldexp(double(value), -unit)), unit);
    const double limit =
        std::ldexp(2.0 - std::ldexp(1.0, -layout.mantissa_bits), layout.max_exponent());
    if (std::fabs(rounded) > limit) {
        return std::copysign(std::numeric_limits<float>::infinity(), value);
    }
    return static_cast<float>(rounded);
}

std::uint32_t encode_in(const FloatLayout& layout, float value) {
    const std::uint32_t sign = (std::bit_cast<std::uint32_t>(value) >> 31)
                               << (layout.exponent_bits + layout.mantissa_bits);
    const std::uint32_t infinity = ((1u << layout.exponent_bits) - 1) << layout.mantissa_bits;
    if (std::isnan(value)) return sign | infinity | (1u << (layout.mantissa_bits - 1));
    const float rounded = std::fabs(round_in(layout, value));
    if (std::isinf(rounded)) return sign | infinity;
    if (rounded == 0.0f) return sign;
    int exponent = 0;
    std::frexp(rounded, &exponent);
    --exponent;
    if (exponent < layout.min_exponent()) {
        const double units =
            std::ldexp(double(rounded), layout.mantissa_bits - layout.min_exponent());
        return sign | static_cast<std::uint32_t>(units);
    }
    const double units = std::ldexp(double(rounded), layout.mantissa_bits - exponent);
    const std::uint32_t mantissa = static_cast<std::uint32_t>(units) - (1u << layout.mantissa_bits);
    const auto biased = static_cast<std::uint32_t>(exponent + layout.bias());
    return sign | (biased << layout.mantissa_bits) | mantissa;
}

float decode_in(const FloatLayout& layout, std::uint32_t bits) {
    const std::uint32_t mantissa_mask = (1u << layout.mantissa_bits) - 1;
    const std::uint32_t exponent_mask = (1u << layout.exponent_bits) - 1;
    const bool negative = ((bits >> (layout.exponent_bits + layout.mantissa_bits)) & 1u) != 0;
    const std::uint32_t biased = (bits >> layout.mantissa_bits) & exponent_mask;
    const std::uint32_t mantissa = bits & mantissa_mask;
    double magnitude = 0;
    if (biased == exponent_mask) {
        magnitude = mantissa != 0 ? std::numeric_limits<double>::quiet_NaN()
                                  : std::numeric_limits<double>::infinity();
    } else if (biased == 0) {
        magnitude = std::ldexp(double(mantissa), layout.min_exponent() - layout.mantissa_bits);
    } else {
        magnitude = std::ldexp(double(mantissa + (1u << layout.mantissa_bits)),
                               static_cast<int>(biased) - layout.bias() - layout.mantissa_bits);
    }
    return static_cast<float>(negative ? -magnitude : magnitude);
}

const FloatLayout& float8_layout(DType dtype) {
    return dtype == DType::kFloat8E4M3 ? kFloat8E4M3Layout : kFloat8E5M2Layout;
}

}  // namespace

NumberFormat hbm_format(DType dtype) {
    return {dtype == DType::kTFloat32 ? DType::kFloat32 : dtype, dtype};
}

NumberFormat on_chip_format(DType dtype) {
    if (dtype == DType::kUInt32) return {DType::kUInt32, dtype};
    return {is_integer(dtype) ? DType::kInt32 : DType::kFloat32, dtype};
}

int storage_bytes(DType storage) {
    switch (storage) {
        case DType::kFloat32:
        case DType::kTFloat32:
        case DType::kInt32:
        case DType::kUInt32:
            return 4;
        case DType::kBFloat16:
        case DType::kFloat16:
        case DType::kInt16:
        case DType::kUInt16:
            return 2;
        case DType::kFloat8E4M3:
        case DType::kFloat8E5M2:
        case DType::kInt8:
        case DType::kUInt8:
        case DType::kBool:
            return 1;
    }
    throw Error(ErrorSource::kInternal, "dtype", "unknown dtype");
}

bool is_integer(DType dtype) { return dtype >= DType::kInt8; }

std::int64_t integer_min(DType dtype) {
    switch (dtype) {
        case DType::kInt8:
            return std::numeric_limits<std::int8_t>::min();
        case DType::kInt16:
            return std::numeric_limits<std::int16_t>::min();
        case DType::kInt32:
            return std::numeric_limits<std::int32_t>::min();
        default:
            return 0;
    }
}

std::int64_t integer_max(DType dtype) {
    switch (dtype) {
        case DType::kInt8:
            return std::numeric_limits<std::int8_t>::max();
        case DType::kInt16:
            return std::numeric_limits<std::int16_t>::max();
        case DType::kInt32:
            return std::numeric_limits<std::int32_t>::max();
        case DType::kUInt8:
            return std::numeric_limits<std::uint8_t>::max();
        case DType::kUInt16:
            return std::numeric_limits<std::uint16_t>::max();
        case DType::kUInt32:
            return std::numeric_limits<std::uint32_t>::max();
        default:
            return 1;
    }
}

float round_to(DType dtype, float value) {
    switch (dtype) {
        case DType::kBFloat16:
            return decode_bfloat16(encode_bfloat16(value));
        case DType::kFloat16:
            return round_in(kFloat16Layout, value);
        case DType::kFloat8E4M3:
            return round_in(kFloat8E4M3Layout, value);
        case DType::kFloat8E5M2:
            return round_in(kFloat8E5M2Layout, value);
        case DType::kTFloat32: {
            // 10 explicit mantissa bits: drop 13 of 23.
            const auto bits = std::bit_cast<std::uint32_t>(value);
            if (std::isnan(value)) return value;
            return std::bit_cast<float>((bits + 0xFFFu + ((bits >> 13) & 1u)) & ~0x1FFFu);
        }
        default:
            return value;
    }
}

std::int64_t to_integer(DType dtype, float value) {
    if (dtype == DType::kBool) return value != 0.0f ? 1 : 0;
    if (std::isnan(value)) return 0;
    const double low = static_cast<double>(integer_min(dtype));
    const double high = static_cast<double>(integer_max(dtype));
    return static_cast<std::int64_t>(std::clamp(std::nearbyint(double(value)), low, high));
}

std::int64_t saturate(DType dtype, std::int64_t value) {
    if (dtype == DType::kBool) return value != 0 ? 1 : 0;
    return std::clamp(value, integer_min(dtype), integer_max(dtype));
}

std::int64_t wrapped(DType dtype, std::int64_t value) {
    switch (dtype) {
        case DType::kInt8:
            return static_cast<std::int8_t>(value);
        case DType::kInt16:
            return static_cast<std::int16_t>(value);
        case DType::kInt32:
            return static_cast<std::int32_t>(value);
        case DType::kUInt8:
            return static_cast<std::uint8_t>(value);
        case DType::kUInt16:
            return static_cast<std::uint16_t>(value);
        case DType::kUInt32:
            return static_cast<std::uint32_t>(value);
        default:
            return saturate(dtype, value);
    }
}

std::uint16_t encode_bfloat16(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    if (std::isnan(value)) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
    return static_cast<std::uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

float decode_bfloat16(std::uint16_t bits) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

std::uint16_t encode_float16(float value) {
    return static_cast<std::uint16_t>(encode_in(kFloat16Layout, value));
}

float decode_float16(std::uint16_t bits) { return decode_in(kFloat16Layout, bits); }

std::uint8_t encode_float8(DType dtype, float value) {
    return static_cast<std::uint8_t>(encode_in(float8_layout(dtype), value));
}

float decode_float8(DType dtype, std::uint8_t bits) {
    return decode_in(float8_layout(dtype), bits);
}

float poison_value(DType dtype) {
    switch (dtype) {
        case DType::kFloat16:
            return 60000.0f;
        case DType::kFloat8E4M3:
            return 240.0f;
        case DType::kFloat8E5M2:
            return 57344.0f;
        case DType::kInt8:
            return 101.0f;
        case DType::kUInt8:
            return 201.0f;
        case DType::kInt16:
            return 30101.0f;
        case DType::kUInt16:
            return 60101.0f;
        case DType::kInt32:
            return 2.0e9f;
        case DType::kUInt32:
            return 4.0e9f;
        case DType::kBool:
            return 1.0f;
        default:
            return round_to(dtype, 1.0e30f);
    }
}

}  // namespace accelopt::trainium
