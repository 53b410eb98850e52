#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "nki/program.h"

/// Vector code on contiguous runs, compiled for every instruction-set level and chosen at run time
/// (Highway). Results depend on the level only where fused multiply-add does (transcendental
/// functions) and never on the number of threads: sums always use the same 64 lanes.
namespace accelopt::trainium::execution {

inline constexpr std::size_t kActFunctionCount =
    static_cast<std::size_t>(nki::ActFunction::kGeluApproxSigmoid) + 1;
inline constexpr std::size_t kAluOpCount = static_cast<std::size_t>(nki::AluOp::kRsqrt) + 1;
inline constexpr std::size_t kDTypeCount = static_cast<std::size_t>(nki::DType::kBool) + 1;

/// out[i] = f(in[i]); out may be in.
using UnaryKernel = void (*)(const float* in, float* out, std::size_t n);
/// out[i] = a[i] op b[i], where a scalar operand is one element; out may be a or b.
using BinaryKernel = void (*)(const float* a, const float* b, float* out, std::size_t n);
/// Combines n > 0 elements into one.
using ReduceKernel = float (*)(const float* in, std::size_t n);

/// One AluOp for the three pairs of operand forms.
struct BinaryKernels {
    BinaryKernel vector_vector = nullptr;
    BinaryKernel vector_scalar = nullptr;
    BinaryKernel scalar_vector = nullptr;
};

/// Returns the kernel of an activation function. kInvert works on values converted to int32.
UnaryKernel unary_kernel(nki::ActFunction function);
/// Returns the kernels of an operation; nullptr members for bitwise operations and shifts, which
/// work on integers.
const BinaryKernels& binary_kernels(nki::AluOp op);
/// Returns the reduction of an operation, or nullptr where it has none in vector code.
ReduceKernel reduce_kernel(nki::AluOp op);

/// out[i] = predicate[i] != 0 ? a[i] : b[i].
void select(const float* predicate, const float* a, const float* b, float* out, std::size_t n);
/// out[i] = value.
void fill(float value, float* out, std::size_t n);
/// Rounds values in place to a floating-point dtype (see round_to).
void round_values(nki::DType dtype, float* values, std::size_t n);

/// Reads n elements of `storage`, `stride` elements apart, as floats.
void decode(nki::DType storage, const std::byte* in, std::ptrdiff_t stride, float* out,
            std::size_t n);
/// Writes n floats as elements of `storage`, `stride` elements apart, converted to `value`.
void encode(nki::DType storage, nki::DType value, const float* in, std::byte* out,
            std::ptrdiff_t stride, std::size_t n);
/// The same for integers; floating-point storage is rounded to the nearest integer.
void decode_integers(nki::DType storage, const std::byte* in, std::ptrdiff_t stride,
                     std::int64_t* out, std::size_t n);
void encode_integers(nki::DType storage, nki::DType value, const std::int64_t* in, std::byte* out,
                     std::ptrdiff_t stride, std::size_t n);

/// True once kernels have been chosen: the level can no longer be changed.
bool kernels_in_use();

/// The kernels of one instruction-set level.
struct ArithmeticTable {
    const char* level = "";
    std::array<BinaryKernels, kAluOpCount> binary{};
    std::array<ReduceKernel, kAluOpCount> reduce{};
    void (*select)(const float*, const float*, const float*, float*, std::size_t) = nullptr;
    void (*fill)(float, float*, std::size_t) = nullptr;
};
struct FunctionTable {
    const char* level = "";
    std::array<UnaryKernel, kActFunctionCount> unary{};
};
struct FormatTable {
    const char* level = "";
    void (*round_bfloat16)(float*, std::size_t) = nullptr;
    void (*round_float16)(float*, std::size_t) = nullptr;
    void (*round_tfloat32)(float*, std::size_t) = nullptr;
    void (*decode_bfloat16)(const std::uint16_t*, float*, std::size_t) = nullptr;
    void (*encode_bfloat16)(const float*, std::uint16_t*, std::size_t) = nullptr;
    void (*decode_float16)(const std::uint16_t*, float*, std::size_t) = nullptr;
    void (*encode_float16)(const float*, std::uint16_t*, std::size_t) = nullptr;
};
const ArithmeticTable& arithmetic_table();
const FunctionTable& function_table();
const FormatTable& format_table();

}  // namespace accelopt::trainium::execution
