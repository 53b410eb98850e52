#pragma once

#include <cstdint>

#include "nki/program.h"

namespace accelopt::trainium {

/// How one array keeps its elements. HBM arrays lie in the layout of their own dtype. On-chip
/// tiles hold every floating-point dtype as float32 values already rounded to that dtype, and
/// every integer dtype as 32-bit integers, so that integers are exact over their whole range.
struct NumberFormat {
    nki::DType storage = nki::DType::kFloat32;  ///< layout of one element in memory
    nki::DType value = nki::DType::kFloat32;    ///< what a written value is rounded to

    bool operator==(const NumberFormat&) const = default;
};

/// Returns the format of an HBM array of `dtype`.
NumberFormat hbm_format(nki::DType dtype);
/// Returns the format of an SBUF or PSUM tile of `dtype`.
NumberFormat on_chip_format(nki::DType dtype);

/// Bytes of one element in memory: 1, 2 or 4.
int storage_bytes(nki::DType storage);

/// True for the integer dtypes and bool.
bool is_integer(nki::DType dtype);

/// Smallest and largest value of an integer dtype; bool counts as 0..1.
std::int64_t integer_min(nki::DType dtype);
std::int64_t integer_max(nki::DType dtype);

/// Rounds to the nearest value of a floating-point dtype, ties to even. Overflow gives infinity;
/// float8_e4m3 is the variant with infinities and largest finite value 240. NaN stays NaN.
float round_to(nki::DType dtype, float value);

/// Converts a float to an integer dtype: nearest, ties to even, saturating; NaN gives 0. For bool
/// every value but 0 gives 1.
std::int64_t to_integer(nki::DType dtype, float value);
/// Saturates an integer to the range of an integer dtype; for bool every value but 0 gives 1.
std::int64_t saturate(nki::DType dtype, std::int64_t value);
/// Wraps an integer at the width of an integer dtype (two's complement); bool as saturate().
std::int64_t wrapped(nki::DType dtype, std::int64_t value);

/// Bit patterns of the small floating-point dtypes.
std::uint16_t encode_bfloat16(float value);
std::uint16_t encode_float16(float value);
std::uint8_t encode_float8(nki::DType dtype, float value);
float decode_bfloat16(std::uint16_t bits);
float decode_float16(std::uint16_t bits);
float decode_float8(nki::DType dtype, std::uint8_t bits);

/// The finite value that unwritten HBM memory holds: far outside what kernels compute, so that a
/// missing store can never look right. 1e30 where the dtype reaches it, else close to its largest
/// finite value; for bool it is true.
float poison_value(nki::DType dtype);

}  // namespace accelopt::trainium
