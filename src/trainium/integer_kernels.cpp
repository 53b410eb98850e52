#include "trainium/integer_kernels.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "trainium/number_format.h"
#include "trainium/vector_kernels.h"

namespace accelopt::trainium::execution {

using nki::AluOp;

namespace {

template <class F>
void apply(const std::int64_t* a, bool a_scalar, const std::int64_t* b, bool b_scalar,
           std::int64_t* out, std::int64_t n, F f) {
    const std::int64_t step_a = a_scalar ? 0 : 1;
    const std::int64_t step_b = b_scalar ? 0 : 1;
    for (std::int64_t i = 0; i < n; ++i) out[i] = f(a[i * step_a], b[i * step_b]);
}

std::int64_t shift_left(std::int64_t a, std::int64_t b) {
    if (b < 0 || b > 31) return 0;
    const auto bits = static_cast<std::uint64_t>(a) << b;
    // Values of uint32 tiles stay non-negative; those of signed tiles wrap at 32 bits.
    return a > INT32_MAX ? static_cast<std::int64_t>(bits & 0xFFFFFFFFu)
                         : static_cast<std::int32_t>(static_cast<std::uint32_t>(bits));
}

std::int64_t shift_right(std::int64_t a, std::int64_t b) {
    if (b < 0 || b > 31) return a < 0 ? -1 : 0;
    return a >> b;
}

// The exact quotient of integers need not be one; it is rounded like every conversion.
std::int64_t divide(std::int64_t a, std::int64_t b) {
    if (b == 0) return a == 0 ? 0 : (a > 0 ? INT32_MAX : INT32_MIN);
    return static_cast<std::int64_t>(
        std::nearbyint(static_cast<double>(a) / static_cast<double>(b)));
}

std::int64_t modulo(std::int64_t a, std::int64_t b) {
    if (b == 0) return 0;
    const std::int64_t r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

std::int64_t power(std::int64_t a, std::int64_t b) {
    const double value = std::pow(static_cast<double>(a), static_cast<double>(b));
    if (std::isnan(value)) return 0;
    return static_cast<std::int64_t>(std::nearbyint(std::clamp(value, -4.0e18, 4.0e18)));
}

/// Products and sums of 32-bit values cannot overflow 64 bits, but chains of them could.
std::int64_t multiply(std::int64_t a, std::int64_t b) {
    std::int64_t result = 0;
    if (!__builtin_mul_overflow(a, b, &result)) return result;
    return (a < 0) == (b < 0) ? INT64_MAX : INT64_MIN;
}
std::int64_t add(std::int64_t a, std::int64_t b) {
    std::int64_t result = 0;
    if (!__builtin_add_overflow(a, b, &result)) return result;
    return a > 0 ? INT64_MAX : INT64_MIN;
}
std::int64_t subtract(std::int64_t a, std::int64_t b) {
    std::int64_t result = 0;
    if (!__builtin_sub_overflow(a, b, &result)) return result;
    return a > 0 ? INT64_MAX : INT64_MIN;
}
std::int64_t magnitude(std::int64_t a) { return a < 0 ? subtract(0, a) : a; }

}  // namespace

bool is_bitwise(AluOp op) {
    return op == AluOp::kBitwiseAnd || op == AluOp::kBitwiseOr || op == AluOp::kBitwiseXor ||
           op == AluOp::kShiftLeft || op == AluOp::kShiftRight;
}

void integer_binary(AluOp op, const std::int64_t* a, bool a_scalar, const std::int64_t* b,
                    bool b_scalar, std::int64_t* out, std::int64_t n) {
    using I = std::int64_t;
    const auto run = [&](auto f) { apply(a, a_scalar, b, b_scalar, out, n, f); };
    switch (op) {
        case AluOp::kNone:
        case AluOp::kBypass:
            return run([](I x, I) { return x; });
        case AluOp::kAdd:
            return run(add);
        case AluOp::kSubtract:
            return run(subtract);
        case AluOp::kMultiply:
            return run(multiply);
        case AluOp::kDivide:
            return run(divide);
        case AluOp::kMax:
            return run([](I x, I y) { return std::max(x, y); });
        case AluOp::kMin:
            return run([](I x, I y) { return std::min(x, y); });
        case AluOp::kPower:
            return run(power);
        case AluOp::kMod:
            return run(modulo);
        case AluOp::kEqual:
            return run([](I x, I y) -> I { return x == y; });
        case AluOp::kNotEqual:
            return run([](I x, I y) -> I { return x != y; });
        case AluOp::kLess:
            return run([](I x, I y) -> I { return x < y; });
        case AluOp::kLessEqual:
            return run([](I x, I y) -> I { return x <= y; });
        case AluOp::kGreater:
            return run([](I x, I y) -> I { return x > y; });
        case AluOp::kGreaterEqual:
            return run([](I x, I y) -> I { return x >= y; });
        case AluOp::kLogicalAnd:
            return run([](I x, I y) -> I { return x != 0 && y != 0; });
        case AluOp::kLogicalOr:
            return run([](I x, I y) -> I { return x != 0 || y != 0; });
        case AluOp::kBitwiseAnd:
            return run([](I x, I y) { return x & y; });
        case AluOp::kBitwiseOr:
            return run([](I x, I y) { return x | y; });
        case AluOp::kBitwiseXor:
            return run([](I x, I y) { return x ^ y; });
        case AluOp::kShiftLeft:
            return run(shift_left);
        case AluOp::kShiftRight:
            return run(shift_right);
        case AluOp::kAbsMax:
            return run([](I x, I y) { return std::max(magnitude(x), magnitude(y)); });
        case AluOp::kLogicalXor:
            return run([](I x, I y) -> I { return (x != 0) != (y != 0); });
        case AluOp::kFmod:
            return run([](I x, I y) -> I { return y == 0 || y == -1 ? 0 : x % y; });
        case AluOp::kRsqrt:
            return run([](I x, I) -> I { return x == 1 ? 1 : x > 0 ? 0 : INT32_MAX; });
    }
    throw Error(ErrorSource::kInternal, "alu_op", "unknown operation");
}

void integer_unary(nki::ActFunction function, const std::int64_t* in, std::int64_t* out,
                   std::int64_t n) {
    switch (function) {
        case nki::ActFunction::kCopy:
            std::copy_n(in, n, out);
            return;
        case nki::ActFunction::kInvert:
            for (std::int64_t i = 0; i < n; ++i) out[i] = ~in[i];
            return;
        default:
            for (std::int64_t i = 0; i < n; ++i) {
                float value = static_cast<float>(in[i]);
                unary_kernel(function)(&value, &value, 1);
                out[i] = to_integer(nki::DType::kInt32, value);
            }
    }
}

}  // namespace accelopt::trainium::execution
