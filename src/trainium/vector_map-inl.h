// Applies an operation to runs of floats in vectors of the instruction-set level being compiled.
// Included once per level, hence the toggle instead of a pragma.
#if defined(ACCELOPT_VECTOR_MAP_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef ACCELOPT_VECTOR_MAP_INL
#undef ACCELOPT_VECTOR_MAP_INL
#else
#define ACCELOPT_VECTOR_MAP_INL
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace accelopt::trainium::execution::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// out[i] = f(in[i]). The last, incomplete vector goes through a buffer that repeats its first
/// element, so that no lane sees a value the caller did not pass.
template <class F>
HWY_INLINE void map_unary(const float* in, float* out, std::size_t n, F f) {
    const hn::ScalableTag<float> d;
    const std::size_t width = hn::Lanes(d);
    std::size_t i = 0;
    for (; i + width <= n; i += width) hn::StoreU(f(d, hn::LoadU(d, in + i)), d, out + i);
    if (i == n) return;
    HWY_ALIGN float lanes[hn::MaxLanes(d)];
    hn::Store(hn::Set(d, in[i]), d, lanes);
    for (std::size_t k = i; k < n; ++k) lanes[k - i] = in[k];
    hn::Store(f(d, hn::Load(d, lanes)), d, lanes);
    for (std::size_t k = i; k < n; ++k) out[k] = lanes[k - i];
}

/// out[i] = f(a[i], b[i]), where a scalar operand is read once.
template <bool kScalarA, bool kScalarB, class F>
HWY_INLINE void map_binary(const float* a, const float* b, float* out, std::size_t n, F f) {
    if (n == 0) return;
    const hn::ScalableTag<float> d;
    const std::size_t width = hn::Lanes(d);
    const auto scalar_a = hn::Set(d, a[0]);
    const auto scalar_b = hn::Set(d, b[0]);
    std::size_t i = 0;
    for (; i + width <= n; i += width) {
        const auto va = kScalarA ? scalar_a : hn::LoadU(d, a + i);
        const auto vb = kScalarB ? scalar_b : hn::LoadU(d, b + i);
        hn::StoreU(f(d, va, vb), d, out + i);
    }
    if (i == n) return;
    HWY_ALIGN float lanes_a[hn::MaxLanes(d)];
    HWY_ALIGN float lanes_b[hn::MaxLanes(d)];
    hn::Store(hn::Set(d, kScalarA ? a[0] : a[i]), d, lanes_a);
    hn::Store(hn::Set(d, kScalarB ? b[0] : b[i]), d, lanes_b);
    for (std::size_t k = i; !kScalarA && k < n; ++k) lanes_a[k - i] = a[k];
    for (std::size_t k = i; !kScalarB && k < n; ++k) lanes_b[k - i] = b[k];
    hn::Store(f(d, hn::Load(d, lanes_a), hn::Load(d, lanes_b)), d, lanes_a);
    for (std::size_t k = i; k < n; ++k) out[k] = lanes_a[k - i];
}

/// 1 / x, correctly rounded.
struct ReciprocalOf {
    template <class D, class V>
    HWY_INLINE V operator()(D d, V x) const {
        return hn::Div(hn::Set(d, 1.0f), x);
    }
};

/// sqrt(x), correctly rounded.
struct SqrtOf {
    template <class D, class V>
    HWY_INLINE V operator()(D, V x) const {
        return hn::Sqrt(x);
    }
};

/// 1 / sqrt(x): two correctly rounded steps.
struct RsqrtOf {
    template <class D, class V>
    HWY_INLINE V operator()(D d, V x) const {
        return hn::Div(hn::Set(d, 1.0f), hn::Sqrt(x));
    }
};

/// x to the power 1/2: as sqrt, but +0 for -0 and +infinity for -infinity (C Annex F).
struct SqrtForPower {
    template <class D, class V>
    HWY_INLINE V operator()(D d, V x) const {
        const auto infinity = hn::Set(d, std::numeric_limits<float>::infinity());
        const V root = hn::Sqrt(hn::Add(x, hn::Zero(d)));
        return hn::IfThenElse(hn::Eq(x, hn::Neg(infinity)), infinity, root);
    }
};

/// x to the power -1/2.
struct RsqrtForPower {
    template <class D, class V>
    HWY_INLINE V operator()(D d, V x) const {
        return hn::Div(hn::Set(d, 1.0f), SqrtForPower()(d, x));
    }
};

}  // namespace accelopt::trainium::execution::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
