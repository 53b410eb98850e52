#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace accelopt::nki::interp {

/// Most dimensions an index expression may have.
inline constexpr int kMaxIndexDims = 8;

/// An affine expression over the axes of an index tensor: constant + sum(coefficient * i_axis),
/// with i_axis in [0, count). Built from nl.arange and nl.mgrid.
struct AffineExpr {
    struct Axis {
        std::int64_t coefficient = 0;
        std::int64_t count = 1;
    };
    std::int64_t constant = 0;
    int rank = 1;
    std::array<Axis, kMaxIndexDims> axes{};

    /// Smallest and largest value over all indices.
    std::int64_t minimum() const;
    std::int64_t maximum() const;
    std::vector<std::int64_t> shape() const;
};

/// The values start, start + 1, ... of nl.arange.
AffineExpr arange(std::int64_t start, std::int64_t stop);

/// Sums with numpy broadcasting of the axes; rejects shapes that do not broadcast.
AffineExpr add(const AffineExpr& a, const AffineExpr& b);
AffineExpr add(AffineExpr a, std::int64_t constant);
AffineExpr scale(AffineExpr a, std::int64_t factor);

/// A conjunction of affine inequalities: every term is >= 0 where the mask is true.
struct MaskExpr {
    std::vector<AffineExpr> terms;
    int comparisons = 0;  ///< how many were joined
    bool never = false;   ///< false everywhere (a comparison that is known at trace time)
};

/// Compares `a` with `b` by a Python comparator: < <= > >= ==.
MaskExpr compare(const AffineExpr& a, const AffineExpr& b, const std::string& comparator);

}  // namespace accelopt::nki::interp
