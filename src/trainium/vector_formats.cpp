#include <cmath>
#include <cstring>
#include <type_traits>

#include "core/error.h"
#include "trainium/number_format.h"
#include "trainium/vector_kernels.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "trainium/vector_formats.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

// Branch-free integer loops, which the compiler turns into vector code of each level.
HWY_BEFORE_NAMESPACE();
namespace accelopt::trainium::execution::HWY_NAMESPACE {

HWY_INLINE std::uint32_t bits_of(float value) {
    std::uint32_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    return bits;
}

HWY_INLINE float float_of(std::uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
}

/// Rounds to nearest even, dropping `kDropped` mantissa bits; NaN stays a quiet NaN.
template <int kDropped>
HWY_INLINE std::uint32_t rounded_bits(std::uint32_t bits) {
    constexpr std::uint32_t kMask = (1u << kDropped) - 1;
    const std::uint32_t rounded = (bits + (kMask >> 1) + ((bits >> kDropped) & 1u)) & ~kMask;
    const std::uint32_t nan = (bits | 0x400000u) & ~kMask;
    return (bits & 0x7FFFFFFFu) > 0x7F800000u ? nan : rounded;
}

void round_bfloat16_kernel(float* values, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) values[i] = float_of(rounded_bits<16>(bits_of(values[i])));
}

void round_tfloat32_kernel(float* values, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) values[i] = float_of(rounded_bits<13>(bits_of(values[i])));
}

void encode_bfloat16_kernel(const float* in, std::uint16_t* out, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
        out[i] = static_cast<std::uint16_t>(rounded_bits<16>(bits_of(in[i])) >> 16);
    }
}

void decode_bfloat16_kernel(const std::uint16_t* in, float* out, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) out[i] = float_of(std::uint32_t{in[i]} << 16);
}

/// Rounds a magnitude to float16. Normal results are rounded in the bit pattern; subnormal ones by
/// adding a number whose last place is the smallest float16, which rounds in the adder.
HWY_INLINE float round_float16(float value) {
    const std::uint32_t bits = bits_of(value);
    const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
    const float absolute = float_of(magnitude);
    constexpr float kMagic = 0.5f;  // 2^-1 has last place 2^-24
    const float subnormal = (absolute + kMagic) - kMagic;
    const float normal = float_of(rounded_bits<13>(magnitude));
    float result = absolute < 6.103515625e-05f ? subnormal : normal;
    result = result > 65504.0f ? float_of(0x7F800000u) : result;
    result = magnitude > 0x7F800000u ? normal : result;
    return float_of(bits_of(result) | (bits & 0x80000000u));
}

void round_float16_kernel(float* values, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) values[i] = round_float16(values[i]);
}

void encode_float16_kernel(const float* in, std::uint16_t* out, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
        const std::uint32_t bits = bits_of(round_float16(in[i]));
        const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
        const std::uint32_t normal = (magnitude - (112u << 23)) >> 13;
        const auto subnormal = static_cast<std::uint32_t>(static_cast<std::int32_t>(
            float_of(magnitude < 0x38800000u ? magnitude : 0u) * 16777216.0f));
        std::uint32_t half = magnitude < 0x38800000u ? subnormal : normal;
        half = magnitude >= 0x7F800000u ? 0x7C00u | ((magnitude >> 13) & 0x3FFu) : half;
        out[i] = static_cast<std::uint16_t>(half | ((bits >> 16) & 0x8000u));
    }
}

void decode_float16_kernel(const std::uint16_t* in, float* out, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
        const std::uint32_t half = in[i];
        const std::uint32_t rest = half & 0x7FFFu;
        const float subnormal =
            static_cast<float>(static_cast<std::int32_t>(rest)) * 5.9604644775390625e-08f;
        const float normal = float_of((rest << 13) + (112u << 23));
        const float special = float_of((rest << 13) | 0x7F800000u);
        float value = rest < 0x400u ? subnormal : normal;
        value = rest >= 0x7C00u ? special : value;
        out[i] = float_of(bits_of(value) | ((half & 0x8000u) << 16));
    }
}

FormatTable make_format_table() {
    FormatTable table;
    table.level = hwy::TargetName(HWY_TARGET);
    table.round_bfloat16 = round_bfloat16_kernel;
    table.round_float16 = round_float16_kernel;
    table.round_tfloat32 = round_tfloat32_kernel;
    table.decode_bfloat16 = decode_bfloat16_kernel;
    table.encode_bfloat16 = encode_bfloat16_kernel;
    table.decode_float16 = decode_float16_kernel;
    table.encode_float16 = encode_float16_kernel;
    return table;
}

}  // namespace accelopt::trainium::execution::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace accelopt::trainium::execution {

using nki::DType;

HWY_EXPORT(make_format_table);

const FormatTable& format_table() {
    static const FormatTable table = HWY_DYNAMIC_DISPATCH(make_format_table)();
    return table;
}

namespace {

template <class T, class Out, class Convert>
void read_run(const std::byte* in, std::ptrdiff_t stride, Out* out, std::size_t n,
              Convert convert) {
    const T* source = reinterpret_cast<const T*>(in);
    if (stride == 1) {
        for (std::size_t i = 0; i < n; ++i) out[i] = convert(source[i]);
        return;
    }
    for (std::size_t i = 0; i < n; ++i, source += stride) out[i] = convert(*source);
}

template <class T, class In, class Convert>
void write_run(const In* in, std::byte* out, std::ptrdiff_t stride, std::size_t n,
               Convert convert) {
    T* target = reinterpret_cast<T*>(out);
    if (stride == 1) {
        for (std::size_t i = 0; i < n; ++i) target[i] = convert(in[i]);
        return;
    }
    for (std::size_t i = 0; i < n; ++i, target += stride) *target = convert(in[i]);
}

/// Calls `body` with a value of the C++ type that stores `storage`.
template <class Body>
void with_storage_type(DType storage, Body body) {
    switch (storage) {
        case DType::kFloat32:
        case DType::kTFloat32:
            return body(float{});
        case DType::kBFloat16:
        case DType::kFloat16:
        case DType::kUInt16:
            return body(std::uint16_t{});
        case DType::kFloat8E4M3:
        case DType::kFloat8E5M2:
        case DType::kUInt8:
        case DType::kBool:
            return body(std::uint8_t{});
        case DType::kInt8:
            return body(std::int8_t{});
        case DType::kInt16:
            return body(std::int16_t{});
        case DType::kInt32:
            return body(std::int32_t{});
        case DType::kUInt32:
            return body(std::uint32_t{});
    }
    throw Error(ErrorSource::kInternal, "dtype", "unknown storage dtype");
}

bool is_small_float(DType dtype) {
    return dtype == DType::kBFloat16 || dtype == DType::kFloat16 || dtype == DType::kFloat8E4M3 ||
           dtype == DType::kFloat8E5M2;
}

float decode_small(DType dtype, std::uint32_t bits) {
    if (dtype == DType::kBFloat16) return decode_bfloat16(static_cast<std::uint16_t>(bits));
    if (dtype == DType::kFloat16) return decode_float16(static_cast<std::uint16_t>(bits));
    return decode_float8(dtype, static_cast<std::uint8_t>(bits));
}

std::uint32_t encode_small(DType dtype, float value) {
    if (dtype == DType::kBFloat16) return encode_bfloat16(value);
    if (dtype == DType::kFloat16) return encode_float16(value);
    return encode_float8(dtype, value);
}

}  // namespace

void round_values(DType dtype, float* values, std::size_t n) {
    switch (dtype) {
        case DType::kBFloat16:
            return format_table().round_bfloat16(values, n);
        case DType::kFloat16:
            return format_table().round_float16(values, n);
        case DType::kTFloat32:
            return format_table().round_tfloat32(values, n);
        case DType::kFloat8E4M3:
        case DType::kFloat8E5M2:
            for (std::size_t i = 0; i < n; ++i) values[i] = round_to(dtype, values[i]);
            return;
        default:
            return;
    }
}

void decode(DType storage, const std::byte* in, std::ptrdiff_t stride, float* out, std::size_t n) {
    if (stride == 1 && storage == DType::kBFloat16) {
        return format_table().decode_bfloat16(reinterpret_cast<const std::uint16_t*>(in), out, n);
    }
    if (stride == 1 && storage == DType::kFloat16) {
        return format_table().decode_float16(reinterpret_cast<const std::uint16_t*>(in), out, n);
    }
    with_storage_type(storage, [&](auto element) {
        using T = decltype(element);
        if constexpr (std::is_same_v<T, std::uint16_t> || std::is_same_v<T, std::uint8_t>) {
            if (is_small_float(storage)) {
                return read_run<T>(in, stride, out, n,
                                   [storage](T bits) { return decode_small(storage, bits); });
            }
        }
        read_run<T>(in, stride, out, n, [](T value) { return static_cast<float>(value); });
    });
}

void encode(DType storage, DType value, const float* in, std::byte* out, std::ptrdiff_t stride,
            std::size_t n) {
    if (stride == 1 && storage == DType::kBFloat16) {
        return format_table().encode_bfloat16(in, reinterpret_cast<std::uint16_t*>(out), n);
    }
    if (stride == 1 && storage == DType::kFloat16) {
        return format_table().encode_float16(in, reinterpret_cast<std::uint16_t*>(out), n);
    }
    if (storage == DType::kFloat32) {
        if (value == DType::kFloat32) {
            return write_run<float>(in, out, stride, n, [](float x) { return x; });
        }
        return write_run<float>(in, out, stride, n,
                                [value](float x) { return round_to(value, x); });
    }
    with_storage_type(storage, [&](auto element) {
        using T = decltype(element);
        if constexpr (std::is_same_v<T, std::uint16_t> || std::is_same_v<T, std::uint8_t>) {
            if (is_small_float(storage)) {
                return write_run<T>(in, out, stride, n, [storage](float x) {
                    return static_cast<T>(encode_small(storage, x));
                });
            }
        }
        write_run<T>(in, out, stride, n,
                     [value](float x) { return static_cast<T>(to_integer(value, x)); });
    });
}

void decode_integers(DType storage, const std::byte* in, std::ptrdiff_t stride, std::int64_t* out,
                     std::size_t n) {
    with_storage_type(storage, [&](auto element) {
        using T = decltype(element);
        if constexpr (std::is_floating_point_v<T>) {
            read_run<T>(in, stride, out, n, [](T x) { return to_integer(DType::kInt32, x); });
        } else {
            if (is_small_float(storage)) {
                return read_run<T>(in, stride, out, n, [storage](T bits) {
                    return to_integer(DType::kInt32,
                                      decode_small(storage, static_cast<std::uint32_t>(bits)));
                });
            }
            read_run<T>(in, stride, out, n, [](T x) { return static_cast<std::int64_t>(x); });
        }
    });
}

void encode_integers(DType storage, DType value, const std::int64_t* in, std::byte* out,
                     std::ptrdiff_t stride, std::size_t n) {
    with_storage_type(storage, [&](auto element) {
        using T = decltype(element);
        if constexpr (std::is_floating_point_v<T>) {
            write_run<T>(in, out, stride, n, [value](std::int64_t x) {
                return round_to(value, static_cast<float>(x));
            });
        } else {
            if (is_small_float(storage)) {
                return write_run<T>(in, out, stride, n, [storage](std::int64_t x) {
                    return static_cast<T>(encode_small(storage, static_cast<float>(x)));
                });
            }
            write_run<T>(in, out, stride, n,
                         [value](std::int64_t x) { return static_cast<T>(saturate(value, x)); });
        }
    });
}

}  // namespace accelopt::trainium::execution
#endif
