#include <cmath>
#include <limits>

#include "trainium/vector_kernels.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "trainium/vector_functions.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include <hwy/contrib/math/math-inl.h>
#include "trainium/vector_map-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace accelopt::trainium::execution::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;
using nki::ActFunction;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

template <class D>
HWY_INLINE hn::Vec<D> constant(D d, double value) {
    return hn::Set(d, static_cast<float>(value));
}

/// `result`, or x itself where x is NaN (on some levels Ne is false for NaN).
template <class V>
HWY_INLINE V keep_nan(V x, V result) {
    return hn::IfThenElse(hn::Not(hn::Eq(x, x)), x, result);
}

/// exp(high + low) for |low| < 1: the part below the precision of `high` joins after the range
/// reduction, so that squares keep their relative accuracy. Overflows to infinity, underflows
/// gradually to 0.
template <class D, class V>
HWY_INLINE V exp_sum(D d, V high, V low) {
    const hn::Rebind<std::int32_t, D> di;
    hn::impl::ExpImpl<float> impl;
    const V x = hn::Max(hn::Min(high, constant(d, 89.0)), constant(d, -105.0));
    const V half = hn::CopySignToAbs(constant(d, 0.5), x);
    const auto q = hn::ConvertTo(di, hn::MulAdd(x, constant(d, 1.442695040888963), half));
    const V r = hn::Add(impl.ExpReduce(d, x, q), low);
    const V y = impl.LoadExpShortRange(d, hn::Add(impl.ExpPoly(d, r), constant(d, 1.0)), q);
    return keep_nan(high, hn::IfThenElse(hn::Lt(high, constant(d, -104.0)), hn::Zero(d), y));
}

template <class D, class V>
HWY_INLINE V exp_of(D d, V x) {
    return exp_sum(d, x, hn::Zero(d));
}

/// exp(-a * a * scale) with the rounding error of the square carried along; scale is a power of 2.
template <class D, class V>
HWY_INLINE V exp_minus_square(D d, V a, double scale) {
    const hn::Rebind<std::uint32_t, D> du;
    // Beyond 16 both scales in use underflow; the clamp keeps infinity from making NaN.
    const V x = keep_nan(a, hn::Min(hn::Abs(a), constant(d, 16.0)));
    // The upper half of the mantissa squares exactly.
    const V top = hn::BitCast(d, hn::And(hn::BitCast(du, x), hn::Set(du, 0xFFFFF000u)));
    const V factor = constant(d, -scale);
    const V high = hn::Mul(hn::Mul(top, top), factor);
    const V low = hn::Mul(hn::Mul(hn::Sub(x, top), hn::Add(x, top)), factor);
    return exp_sum(d, high, low);
}

/// exp(z * z) * erfc(z) for z >= 0, after Shepherd and Laframboise (Mathematics of Computation 36,
/// 1981): (1 + 2 z) erfcx(z) as a polynomial in (z - 3) / (z + 3), fitted to 2.3e-9 up to 10.2,
/// where erfc underflows.
template <class D, class V>
HWY_INLINE V scaled_erfc(D d, V z) {
    constexpr double kCoefficients[] = {
        1.2530080587024957,    -0.13562114381121687,   -0.04756236061500588,  0.1296465527108616,
        -0.1192714844336795,   0.06829444441081337,    -0.02379565218702782,  0.002572504882030231,
        0.0020008959839131553, -0.0007844332168681136, -0.0002715313970685256};
    const V x = hn::Min(z, constant(d, 16.0));
    const V t = hn::Div(hn::Sub(x, constant(d, 3.0)), hn::Add(x, constant(d, 3.0)));
    V sum = constant(d, kCoefficients[10]);
    for (int k = 9; k >= 0; --k) sum = hn::MulAdd(sum, t, constant(d, kCoefficients[k]));
    return hn::Div(sum, hn::MulAdd(constant(d, 2.0), x, constant(d, 1.0)));
}

/// erfc(a / sqrt(1 / scale)) / 2 for a >= 0, where a * a * scale is the exponent.
template <class D, class V>
HWY_INLINE V half_erfc(D d, V a, double scale, double root) {
    const V z = hn::Mul(a, constant(d, root));
    return hn::Mul(constant(d, 0.5), hn::Mul(exp_minus_square(d, a, scale), scaled_erfc(d, z)));
}

/// The normal distribution function, with relative accuracy in its lower tail.
template <class D, class V>
HWY_INLINE V normal_cdf(D d, V x) {
    const V tail = half_erfc(d, hn::Abs(x), 0.5, 0.70710678118654752);
    return keep_nan(x,
                    hn::IfThenElse(hn::Lt(x, hn::Zero(d)), tail, hn::Sub(constant(d, 1.0), tail)));
}

/// 1 / (1 + exp(-x)) without an infinite intermediate.
template <class D, class V>
HWY_INLINE V sigmoid_of(D d, V x) {
    const V one = constant(d, 1.0);
    const V e = exp_of(d, hn::Neg(hn::Abs(x)));
    const V numerator = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), e, one);
    return keep_nan(x, hn::Div(numerator, hn::Add(one, e)));
}

/// x * weight, with the limit 0 where the weight vanishes at x = -infinity.
template <class D, class V>
HWY_INLINE V weighted(D d, V x, V weight) {
    return hn::Mul(hn::Max(x, constant(d, -std::numeric_limits<float>::max())), weight);
}

template <class D, class V>
HWY_INLINE V log_of(D d, V x) {
    const V special =
        hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Set(d, -kInfinity),
                       hn::IfThenElse(hn::Eq(x, hn::Set(d, kInfinity)), x,
                                      hn::Set(d, std::numeric_limits<float>::quiet_NaN())));
    const auto regular = hn::And(hn::Gt(x, hn::Zero(d)), hn::Lt(x, hn::Set(d, kInfinity)));
    return keep_nan(x, hn::IfThenElse(regular, hn::Log(d, x), special));
}

// clang-format off
#define ACCELOPT_FUNCTION(Name, body)                                     \
    struct Name {                                                         \
        template <class D, class V>                                       \
        HWY_INLINE V operator()([[maybe_unused]] D d, V x) const { body } \
    };
// clang-format on

ACCELOPT_FUNCTION(Identity, return x;)
ACCELOPT_FUNCTION(ExpOf, return exp_of(d, x);)
ACCELOPT_FUNCTION(LogOf, return log_of(d, x);)
ACCELOPT_FUNCTION(ArctanOf, return keep_nan(x, hn::Atan(d, x));)
ACCELOPT_FUNCTION(TanhOf, return keep_nan(x, hn::Tanh(d, x));)
ACCELOPT_FUNCTION(SigmoidOf, return sigmoid_of(d, x);)
ACCELOPT_FUNCTION(ReluOf, return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Zero(d), x);)
ACCELOPT_FUNCTION(SiluOf, return keep_nan(x, weighted(d, x, sigmoid_of(d, x)));)
ACCELOPT_FUNCTION(SquareOf, return hn::Mul(x, x);)
ACCELOPT_FUNCTION(AbsOf, return hn::Abs(x);)
ACCELOPT_FUNCTION(FloorOf, return keep_nan(x, hn::Floor(x));)
ACCELOPT_FUNCTION(CeilOf, return keep_nan(x, hn::Ceil(x));)
ACCELOPT_FUNCTION(TruncOf, return keep_nan(x, hn::Trunc(x));)
ACCELOPT_FUNCTION(LogicalNotOf,
                  return hn::IfThenElseZero(hn::Eq(x, hn::Zero(d)), constant(d, 1.0));)

struct SignOf {
    template <class D, class V>
    HWY_INLINE V operator()(D d, V x) const {
        const V one = hn::CopySign(constant(d, 1.0), x);
        return keep_nan(x, hn::IfThenElse(hn::Eq(x, hn::Zero(d)), x, one));
    }
};

/// x (sigmoid) derivative: s(x) (1 + x s(-x)).
struct SiluDxOf {
    template <class D, class V>
    HWY_INLINE V operator()(D d, V x) const {
        const V limit = constant(d, 200.0);
        const V y = hn::Max(hn::Min(x, limit), hn::Neg(limit));
        const V slope = hn::MulAdd(y, sigmoid_of(d, hn::Neg(y)), constant(d, 1.0));
        return keep_nan(x, hn::Mul(sigmoid_of(d, y), slope));
    }
};

/// log(1 + exp(x)) as max(x, 0) + log1p(exp(-|x|)).
struct SoftplusOf {
    template <class D, class V>
    HWY_INLINE V operator()(D d, V x) const {
        const V tail = hn::Log1p(d, exp_of(d, hn::Neg(hn::Abs(x))));
        return keep_nan(x, hn::Add(hn::Max(x, hn::Zero(d)), tail));
    }
};

/// x tanh(softplus(x)); the hyperbolic tangent of a logarithm is rational in e = exp(-|x|).
struct MishOf {
    template <class D, class V>
    HWY_INLINE V operator()(D d, V x) const {
        const V one = constant(d, 1.0);
        const V two = constant(d, 2.0);
        const V e = exp_of(d, hn::Neg(hn::Abs(x)));
        const auto negative = hn::Lt(x, hn::Zero(d));
        const V e2 = hn::Mul(e, e);
        const V numerator =
            hn::IfThenElse(negative, hn::MulAdd(two, e, e2), hn::MulAdd(two, e, one));
        const V rest = hn::IfThenElse(negative, two, hn::Mul(two, e2));
        return keep_nan(x, weighted(d, x, hn::Div(numerator, hn::Add(numerator, rest))));
    }
};

/// erf: odd polynomial up to 1 (fitted to 1.2e-9), 1 - erfc beyond.
struct ErfOf {
    template <class D, class V>
    HWY_INLINE V operator()(D d, V x) const {
        constexpr double kCoefficients[] = {1.1283791656893225,   -0.37612625567397284,
                                            0.11283582247967504,  -0.026853691098641625,
                                            0.00518809888735919,  -0.0008008189304985539,
                                            7.847259065293223e-05};
        const V a = hn::Abs(x);
        const V square = hn::Mul(x, x);
        V sum = constant(d, kCoefficients[6]);
        for (int k = 5; k >= 0; --k) sum = hn::MulAdd(sum, square, constant(d, kCoefficients[k]));
        const V tail = hn::Mul(constant(d, 2.0), half_erfc(d, a, 1.0, 1.0));
        const V outer = hn::CopySign(hn::Sub(constant(d, 1.0), tail), x);
        return keep_nan(x, hn::IfThenElse(hn::Le(a, constant(d, 1.0)), hn::Mul(x, sum), outer));
    }
};

/// 2 / sqrt(pi) * exp(-x * x).
struct ErfDxOf {
    template <class D, class V>
    HWY_INLINE V operator()(D d, V x) const {
        return hn::Mul(constant(d, 1.1283791670955126), exp_minus_square(d, x, 1.0));
    }
};

struct GeluOf {
    template <class D, class V>
    HWY_INLINE V operator()(D d, V x) const {
        return keep_nan(x, weighted(d, x, normal_cdf(d, x)));
    }
};

/// Derivative of gelu: cdf(x) + x pdf(x).
struct GeluDxOf {
    template <class D, class V>
    HWY_INLINE V operator()(D d, V x) const {
        const V y = hn::Max(hn::Min(x, constant(d, 16.0)), constant(d, -16.0));
        const V density = hn::Mul(constant(d, 0.3989422804014327), exp_minus_square(d, y, 0.5));
        return keep_nan(x, hn::MulAdd(y, density, normal_cdf(d, y)));
    }
};

/// x / 2 (1 + tanh(u)) = x sigmoid(2 u) with u = sqrt(2 / pi) (x + 0.044715 x^3).
struct GeluApproxTanhOf {
    template <class D, class V>
    HWY_INLINE V operator()(D d, V x) const {
        const V y = hn::Max(hn::Min(x, constant(d, 1.0e6)), constant(d, -1.0e6));
        const V cubic = hn::MulAdd(hn::Mul(y, y), hn::Mul(y, constant(d, 0.044715)), y);
        const V u = hn::Mul(cubic, constant(d, 1.5957691216057308));
        return keep_nan(x, weighted(d, x, sigmoid_of(d, u)));
    }
};

/// x sigmoid(1.702 x).
struct GeluApproxSigmoidOf {
    template <class D, class V>
    HWY_INLINE V operator()(D d, V x) const {
        return keep_nan(x, weighted(d, x, sigmoid_of(d, hn::Mul(x, constant(d, 1.702)))));
    }
};

template <class F>
void vector_function(const float* in, float* out, std::size_t n) {
    map_unary(in, out, n, F());
}

template <float (*f)(float)>
void scalar_function(const float* in, float* out, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) out[i] = f(in[i]);
}

inline float tan_scalar(float x) { return std::tan(x); }
inline float sin_scalar(float x) { return std::sin(x); }
inline float cos_scalar(float x) { return std::cos(x); }

/// ~x of x converted to a 32-bit integer.
inline float invert_scalar(float x) {
    if (!(std::fabs(x) <= 2147483520.0f)) return std::numeric_limits<float>::quiet_NaN();
    return static_cast<float>(~static_cast<std::int32_t>(std::nearbyint(x)));
}

struct SinVector {
    template <class D, class V>
    HWY_INLINE V operator()(D d, V x) const {
        return hn::Sin(d, x);
    }
};
struct CosVector {
    template <class D, class V>
    HWY_INLINE V operator()(D d, V x) const {
        return hn::Cos(d, x);
    }
};

/// The vector code holds up to 39000; beyond (rare) and for non-finite arguments libm takes over.
template <class F, float (*fallback)(float)>
void trigonometric(const float* in, float* out, std::size_t n) {
    constexpr std::size_t kBlock = 256;
    for (std::size_t begin = 0; begin < n; begin += kBlock) {
        const std::size_t count = n - begin < kBlock ? n - begin : kBlock;
        bool large = false;
        for (std::size_t i = 0; i < count; ++i) large |= !(std::fabs(in[begin + i]) < 39000.0f);
        if (large) {
            for (std::size_t i = 0; i < count; ++i) {
                const float x = in[begin + i];
                if (std::fabs(x) < 39000.0f) {
                    map_unary(&x, out + begin + i, 1, F());
                } else {
                    out[begin + i] = fallback(x);
                }
            }
        } else {
            map_unary(in + begin, out + begin, count, F());
        }
    }
}

FunctionTable make_function_table() {
    FunctionTable table;
    table.level = hwy::TargetName(HWY_TARGET);
    const auto entry = [&](ActFunction function) -> UnaryKernel& {
        return table.unary[static_cast<std::size_t>(function)];
    };
    entry(ActFunction::kCopy) = vector_function<Identity>;
    entry(ActFunction::kExp) = vector_function<ExpOf>;
    entry(ActFunction::kLog) = vector_function<LogOf>;
    entry(ActFunction::kSin) = trigonometric<SinVector, sin_scalar>;
    entry(ActFunction::kCos) = trigonometric<CosVector, cos_scalar>;
    entry(ActFunction::kTan) = scalar_function<tan_scalar>;
    entry(ActFunction::kArctan) = vector_function<ArctanOf>;
    entry(ActFunction::kTanh) = vector_function<TanhOf>;
    entry(ActFunction::kErf) = vector_function<ErfOf>;
    entry(ActFunction::kErfDx) = vector_function<ErfDxOf>;
    entry(ActFunction::kSigmoid) = vector_function<SigmoidOf>;
    entry(ActFunction::kRelu) = vector_function<ReluOf>;
    entry(ActFunction::kGelu) = vector_function<GeluOf>;
    entry(ActFunction::kGeluDx) = vector_function<GeluDxOf>;
    entry(ActFunction::kGeluApproxTanh) = vector_function<GeluApproxTanhOf>;
    entry(ActFunction::kGeluApproxSigmoid) = vector_function<GeluApproxSigmoidOf>;
    entry(ActFunction::kSilu) = vector_function<SiluOf>;
    entry(ActFunction::kSiluDx) = vector_function<SiluDxOf>;
    entry(ActFunction::kMish) = vector_function<MishOf>;
    entry(ActFunction::kSoftplus) = vector_function<SoftplusOf>;
    entry(ActFunction::kSqrt) = vector_function<SqrtOf>;
    entry(ActFunction::kRsqrt) = vector_function<RsqrtOf>;
    entry(ActFunction::kReciprocal) = vector_function<ReciprocalOf>;
    entry(ActFunction::kSquare) = vector_function<SquareOf>;
    entry(ActFunction::kAbs) = vector_function<AbsOf>;
    entry(ActFunction::kSign) = vector_function<SignOf>;
    entry(ActFunction::kFloor) = vector_function<FloorOf>;
    entry(ActFunction::kCeil) = vector_function<CeilOf>;
    entry(ActFunction::kTrunc) = vector_function<TruncOf>;
    entry(ActFunction::kInvert) = scalar_function<invert_scalar>;
    entry(ActFunction::kLogicalNot) = vector_function<LogicalNotOf>;
    return table;
}

}  // namespace accelopt::trainium::execution::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace accelopt::trainium::execution {

HWY_EXPORT(make_function_table);

const FunctionTable& function_table() {
    static const FunctionTable table = HWY_DYNAMIC_DISPATCH(make_function_table)();
    return table;
}

UnaryKernel unary_kernel(nki::ActFunction function) {
    return function_table().unary[static_cast<std::size_t>(function)];
}

}  // namespace accelopt::trainium::execution
#endif
