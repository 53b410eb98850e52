#include <atomic>
#include <cmath>

#include "trainium/vector_kernels.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "trainium/vector_arithmetic.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include "trainium/vector_map-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace accelopt::trainium::execution::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using nki::AluOp;

/// 1 where the mask is set, else 0.
template <class D, class M>
HWY_INLINE hn::Vec<D> truth(D d, M mask) {
    return hn::IfThenElseZero(mask, hn::Set(d, 1.0f));
}

template <class D, class V>
HWY_INLINE hn::Mask<D> is_true(D d, V x) {
    return hn::Not(hn::Eq(x, hn::Zero(d)));
}

// Both operands are selected for NaN by hand: x86 returns the second operand when one is NaN.
// Not(Eq) instead of Ne: on some levels Ne is false for NaN.
template <class V, class R>
HWY_INLINE V propagate_nan(V a, V b, R result) {
    return hn::IfThenElse(hn::Not(hn::Eq(a, a)), a,
                          hn::IfThenElse(hn::Not(hn::Eq(b, b)), b, result));
}

// clang-format off
#define ACCELOPT_VECTOR_OP(Name, expression)                     \
    struct Name {                                                \
        template <class D, class V>                              \
        HWY_INLINE V operator()([[maybe_unused]] D d, V a, [[maybe_unused]] V b) const { \
            return expression;                                   \
        }                                                        \
    };
ACCELOPT_VECTOR_OP(Add, hn::Add(a, b))
ACCELOPT_VECTOR_OP(Subtract, hn::Sub(a, b))
ACCELOPT_VECTOR_OP(Multiply, hn::Mul(a, b))
ACCELOPT_VECTOR_OP(Divide, hn::Div(a, b))
ACCELOPT_VECTOR_OP(Max, propagate_nan(a, b, hn::Max(a, b)))
ACCELOPT_VECTOR_OP(Min, propagate_nan(a, b, hn::Min(a, b)))
ACCELOPT_VECTOR_OP(AbsMax, propagate_nan(a, b, hn::Max(hn::Abs(a), hn::Abs(b))))
ACCELOPT_VECTOR_OP(Equal, truth(d, hn::Eq(a, b)))
ACCELOPT_VECTOR_OP(NotEqual, truth(d, hn::Not(hn::Eq(a, b))))
ACCELOPT_VECTOR_OP(Less, truth(d, hn::Lt(a, b)))
ACCELOPT_VECTOR_OP(LessEqual, truth(d, hn::Le(a, b)))
ACCELOPT_VECTOR_OP(Greater, truth(d, hn::Gt(a, b)))
ACCELOPT_VECTOR_OP(GreaterEqual, truth(d, hn::Ge(a, b)))
ACCELOPT_VECTOR_OP(LogicalAnd, truth(d, hn::And(is_true(d, a), is_true(d, b))))
ACCELOPT_VECTOR_OP(LogicalOr, truth(d, hn::Or(is_true(d, a), is_true(d, b))))
ACCELOPT_VECTOR_OP(LogicalXor, truth(d, hn::Xor(is_true(d, a), is_true(d, b))))
ACCELOPT_VECTOR_OP(Bypass, a)
#undef ACCELOPT_VECTOR_OP
// clang-format on

/// Remainder with the sign of the divisor, exact.
struct Mod {
    float operator()(float a, float b) const {
        const float r = std::fmod(a, b);
        if (r == 0.0f) return std::copysign(0.0f, b);
        return (r < 0.0f) != (b < 0.0f) ? r + b : r;
    }
};

/// Remainder with the sign of the dividend, exact.
struct Fmod {
    float operator()(float a, float b) const { return std::fmod(a, b); }
};

struct RsqrtOfFirst {
    float operator()(float a, float) const { return 1.0f / std::sqrt(a); }
};

struct Power {
    float operator()(float a, float b) const { return std::pow(a, b); }
};

template <class Op>
void vector_vector(const float* a, const float* b, float* out, std::size_t n) {
    map_binary<false, false>(a, b, out, n, Op());
}
template <class Op>
void vector_scalar(const float* a, const float* b, float* out, std::size_t n) {
    map_binary<false, true>(a, b, out, n, Op());
}
template <class Op>
void scalar_vector(const float* a, const float* b, float* out, std::size_t n) {
    map_binary<true, false>(a, b, out, n, Op());
}

template <class Op>
BinaryKernels vector_kernels() {
    return {vector_vector<Op>, vector_scalar<Op>, scalar_vector<Op>};
}

template <class Op>
BinaryKernels scalar_kernels() {
    return {[](const float* a, const float* b, float* out, std::size_t n) {
                for (std::size_t i = 0; i < n; ++i) out[i] = Op()(a[i], b[i]);
            },
            [](const float* a, const float* b, float* out, std::size_t n) {
                const float scalar = b[0];
                for (std::size_t i = 0; i < n; ++i) out[i] = Op()(a[i], scalar);
            },
            [](const float* a, const float* b, float* out, std::size_t n) {
                const float scalar = a[0];
                for (std::size_t i = 0; i < n; ++i) out[i] = Op()(scalar, b[i]);
            }};
}

// Exponents that kernels use all the time have exact or correctly rounded forms.
void power_vector_scalar(const float* a, const float* b, float* out, std::size_t n) {
    const float exponent = b[0];
    if (exponent == 2.0f) return map_binary<false, false>(a, a, out, n, Multiply());
    if (exponent == 1.0f) return map_binary<false, true>(a, b, out, n, Bypass());
    if (exponent == -1.0f) return map_unary(a, out, n, ReciprocalOf());
    if (exponent == 0.5f) return map_unary(a, out, n, SqrtForPower());
    if (exponent == -0.5f) return map_unary(a, out, n, RsqrtForPower());
    for (std::size_t i = 0; i < n; ++i) out[i] = Power()(a[i], exponent);
}

/// Combines in 64 lanes (element i goes to lane i mod 64), then the lanes by halves: the same
/// order whatever the vector width. Runs beyond kBlock are combined block by block.
template <class Op>
float reduce(const float* in, std::size_t n) {
    constexpr std::size_t kLanes = 64;
    constexpr std::size_t kBlock = 4096;
    const hn::CappedTag<float, kLanes / 4> d;
    const hn::CappedTag<float, 1> d1;
    const auto combine = [&](float a, float b) HWY_ATTR {
        return hn::GetLane(Op()(d1, hn::Set(d1, a), hn::Set(d1, b)));
    };
    const std::size_t width = hn::Lanes(d);
    HWY_ALIGN float lanes[kLanes];
    float total = 0.0f;
    for (std::size_t begin = 0; begin < n; begin += kBlock) {
        const float* block = in + begin;
        const std::size_t count = n - begin < kBlock ? n - begin : kBlock;
        std::size_t used = count < kLanes ? count : kLanes;
        for (std::size_t i = 0; i < used; ++i) lanes[i] = block[i];
        const std::size_t whole = count / kLanes * kLanes;
        for (std::size_t lane = 0; whole > kLanes && lane < kLanes; lane += 4 * width) {
            auto v0 = hn::LoadU(d, block + lane);
            auto v1 = hn::LoadU(d, block + lane + width);
            auto v2 = hn::LoadU(d, block + lane + 2 * width);
            auto v3 = hn::LoadU(d, block + lane + 3 * width);
            for (std::size_t i = kLanes + lane; i < whole; i += kLanes) {
                v0 = Op()(d, v0, hn::LoadU(d, block + i));
                v1 = Op()(d, v1, hn::LoadU(d, block + i + width));
                v2 = Op()(d, v2, hn::LoadU(d, block + i + 2 * width));
                v3 = Op()(d, v3, hn::LoadU(d, block + i + 3 * width));
            }
            hn::Store(v0, d, lanes + lane);
            hn::Store(v1, d, lanes + lane + width);
            hn::Store(v2, d, lanes + lane + 2 * width);
            hn::Store(v3, d, lanes + lane + 3 * width);
        }
        for (std::size_t i = whole > kLanes ? whole : kLanes; i < count; ++i) {
            lanes[i % kLanes] = combine(lanes[i % kLanes], block[i]);
        }
        while (used > 1) {
            const std::size_t half = (used + 1) / 2;
            std::size_t i = half;
            for (; i + width <= used; i += width) {
                float* low = lanes + (i - half);
                hn::StoreU(Op()(d, hn::LoadU(d, low), hn::LoadU(d, lanes + i)), d, low);
            }
            for (; i < used; ++i) lanes[i - half] = combine(lanes[i - half], lanes[i]);
            used = half;
        }
        total = begin == 0 ? lanes[0] : combine(total, lanes[0]);
    }
    return total;
}

void select_kernel(const float* predicate, const float* a, const float* b, float* out,
                   std::size_t n) {
    const hn::ScalableTag<float> d;
    const std::size_t width = hn::Lanes(d);
    std::size_t i = 0;
    for (; i + width <= n; i += width) {
        const auto mask = is_true(d, hn::LoadU(d, predicate + i));
        hn::StoreU(hn::IfThenElse(mask, hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, out + i);
    }
    for (; i < n; ++i) out[i] = predicate[i] != 0.0f ? a[i] : b[i];
}

void fill_kernel(float value, float* out, std::size_t n) {
    const hn::ScalableTag<float> d;
    const std::size_t width = hn::Lanes(d);
    const auto v = hn::Set(d, value);
    std::size_t i = 0;
    for (; i + width <= n; i += width) hn::StoreU(v, d, out + i);
    for (; i < n; ++i) out[i] = value;
}

ArithmeticTable make_arithmetic_table() {
    ArithmeticTable table;
    table.level = hwy::TargetName(HWY_TARGET);
    const auto binary = [&](AluOp op) -> BinaryKernels& {
        return table.binary[static_cast<std::size_t>(op)];
    };
    binary(AluOp::kNone) = vector_kernels<Bypass>();
    binary(AluOp::kBypass) = vector_kernels<Bypass>();
    binary(AluOp::kAdd) = vector_kernels<Add>();
    binary(AluOp::kSubtract) = vector_kernels<Subtract>();
    binary(AluOp::kMultiply) = vector_kernels<Multiply>();
    binary(AluOp::kDivide) = vector_kernels<Divide>();
    binary(AluOp::kMax) = vector_kernels<Max>();
    binary(AluOp::kMin) = vector_kernels<Min>();
    binary(AluOp::kAbsMax) = vector_kernels<AbsMax>();
    binary(AluOp::kEqual) = vector_kernels<Equal>();
    binary(AluOp::kNotEqual) = vector_kernels<NotEqual>();
    binary(AluOp::kLess) = vector_kernels<Less>();
    binary(AluOp::kLessEqual) = vector_kernels<LessEqual>();
    binary(AluOp::kGreater) = vector_kernels<Greater>();
    binary(AluOp::kGreaterEqual) = vector_kernels<GreaterEqual>();
    binary(AluOp::kLogicalAnd) = vector_kernels<LogicalAnd>();
    binary(AluOp::kLogicalOr) = vector_kernels<LogicalOr>();
    binary(AluOp::kLogicalXor) = vector_kernels<LogicalXor>();
    binary(AluOp::kMod) = scalar_kernels<Mod>();
    binary(AluOp::kFmod) = scalar_kernels<Fmod>();
    binary(AluOp::kRsqrt) = scalar_kernels<RsqrtOfFirst>();
    binary(AluOp::kPower) = scalar_kernels<Power>();
    binary(AluOp::kPower).vector_scalar = power_vector_scalar;
    const auto reduction = [&](AluOp op) -> ReduceKernel& {
        return table.reduce[static_cast<std::size_t>(op)];
    };
    reduction(AluOp::kAdd) = reduce<Add>;
    reduction(AluOp::kMultiply) = reduce<Multiply>;
    reduction(AluOp::kMax) = reduce<Max>;
    reduction(AluOp::kMin) = reduce<Min>;
    reduction(AluOp::kAbsMax) = reduce<AbsMax>;
    table.select = select_kernel;
    table.fill = fill_kernel;
    return table;
}

}  // namespace accelopt::trainium::execution::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace accelopt::trainium::execution {

HWY_EXPORT(make_arithmetic_table);

namespace {
std::atomic<bool> in_use{false};
}

bool kernels_in_use() { return in_use; }

const ArithmeticTable& arithmetic_table() {
    static const ArithmeticTable table = [] {
        in_use = true;
        return HWY_DYNAMIC_DISPATCH(make_arithmetic_table)();
    }();
    return table;
}

const BinaryKernels& binary_kernels(nki::AluOp op) {
    return arithmetic_table().binary[static_cast<std::size_t>(op)];
}

ReduceKernel reduce_kernel(nki::AluOp op) {
    return arithmetic_table().reduce[static_cast<std::size_t>(op)];
}

void select(const float* predicate, const float* a, const float* b, float* out, std::size_t n) {
    arithmetic_table().select(predicate, a, b, out, n);
}

void fill(float value, float* out, std::size_t n) { arithmetic_table().fill(value, out, n); }

}  // namespace accelopt::trainium::execution
#endif
