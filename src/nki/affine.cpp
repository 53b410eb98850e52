#include "nki/affine.h"

#include <fmt/format.h>

#include <algorithm>

#include "nki/failure.h"

namespace accelopt::nki::interp {

std::int64_t AffineExpr::minimum() const {
    std::int64_t value = constant;
    for (int d = 0; d < rank; ++d) {
        const std::int64_t last = checked_multiply(axes[d].coefficient, axes[d].count - 1);
        if (last < 0) value = checked_add(value, last);
    }
    return value;
}

std::int64_t AffineExpr::maximum() const {
    std::int64_t value = constant;
    for (int d = 0; d < rank; ++d) {
        const std::int64_t last = checked_multiply(axes[d].coefficient, axes[d].count - 1);
        if (last > 0) value = checked_add(value, last);
    }
    return value;
}

std::vector<std::int64_t> AffineExpr::shape() const {
    std::vector<std::int64_t> shape;
    for (int d = 0; d < rank; ++d) shape.push_back(axes[d].count);
    return shape;
}

AffineExpr arange(std::int64_t start, std::int64_t stop) {
    if (stop <= start)
        rejected("value_error", fmt::format("nl.arange({}, {}) is empty", start, stop)).raise();
    AffineExpr result;
    result.constant = start;
    result.axes[0] = {1, checked_subtract(stop, start)};
    return result;
}

AffineExpr add(const AffineExpr& a, const AffineExpr& b) {
    AffineExpr result;
    result.rank = std::max(a.rank, b.rank);
    result.constant = checked_add(a.constant, b.constant);
    for (int d = 0; d < result.rank; ++d) {
        const int da = d - (result.rank - a.rank);
        const int db = d - (result.rank - b.rank);
        const AffineExpr::Axis x = da >= 0 ? a.axes[da] : AffineExpr::Axis{};
        const AffineExpr::Axis y = db >= 0 ? b.axes[db] : AffineExpr::Axis{};
        if (x.count != y.count && x.count != 1 && y.count != 1)
            rejected("value_error", "index shapes do not broadcast: " + shape_text(a.shape()) +
                                        " and " + shape_text(b.shape()))
                .shape(a.shape())
                .shape(b.shape())
                .raise();
        result.axes[d].count = std::max(x.count, y.count);
        result.axes[d].coefficient = checked_add(x.coefficient, y.coefficient);
        // One-element axes contribute their constant only.
        if (x.count == 1 && y.count != 1) result.axes[d].coefficient = y.coefficient;
        if (y.count == 1 && x.count != 1) result.axes[d].coefficient = x.coefficient;
    }
    return result;
}

AffineExpr add(AffineExpr a, std::int64_t constant) {
    a.constant = checked_add(a.constant, constant);
    return a;
}

AffineExpr scale(AffineExpr a, std::int64_t factor) {
    a.constant = checked_multiply(a.constant, factor);
    for (int d = 0; d < a.rank; ++d)
        a.axes[d].coefficient = checked_multiply(a.axes[d].coefficient, factor);
    return a;
}

MaskExpr compare(const AffineExpr& a, const AffineExpr& b, const std::string& comparator) {
    MaskExpr mask;
    mask.comparisons = 1;
    const auto less = [](const AffineExpr& x, const AffineExpr& y, std::int64_t slack) {
        return add(add(y, scale(x, -1)), slack);  // x < y is y - x - 1 >= 0
    };
    if (comparator == "<") {
        mask.terms.push_back(less(a, b, -1));
    } else if (comparator == "<=") {
        mask.terms.push_back(less(a, b, 0));
    } else if (comparator == ">") {
        mask.terms.push_back(less(b, a, -1));
    } else if (comparator == ">=") {
        mask.terms.push_back(less(b, a, 0));
    } else if (comparator == "==") {
        mask.terms.push_back(less(a, b, 0));
        mask.terms.push_back(less(b, a, 0));
    } else {
        rejected("unsupported_expression_in_mask",
                 "a mask cannot be made with '" + comparator + "'")
            .remedy("use <, <=, >, >= or ==, joined by &")
            .raise();
    }
    return mask;
}

}  // namespace accelopt::nki::interp
