#include "trainium/iteration.h"

#include <fmt/format.h>

#include "core/error.h"

namespace accelopt::trainium::execution {

namespace {

// Terms come from kernels: their sums must not overflow whatever the coefficients.
__extension__ typedef __int128 Wide;

Wide floor_divide(Wide a, Wide b) {
    const Wide q = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

/// Cuts [begin, end) down to the indices where constant + coefficient * i >= 0.
void clip_axis(Wide constant, std::int64_t coefficient, std::int64_t& begin, std::int64_t& end) {
    if (begin >= end) return;
    if (coefficient > 0) {
        const Wide first = -floor_divide(constant, coefficient);
        begin = static_cast<std::int64_t>(std::clamp<Wide>(first, begin, end));
    } else {
        const Wide last = floor_divide(constant, -Wide(coefficient));
        end = static_cast<std::int64_t>(std::clamp<Wide>(last + 1, begin, end));
    }
}

/// A mask term over a box that starts at `begin`; its smallest and largest value there.
struct TermRange {
    Wide constant = 0;
    Wide low = 0;
    Wide high = 0;
};
TermRange range_of(const nki::MaskTerm& term, const Space& space) {
    TermRange range;
    range.constant = term.constant;
    for (int d = 0; d < space.rank; ++d) {
        range.constant += Wide(term.coefficients[d]) * space.begin[d];
    }
    range.low = range.high = range.constant;
    for (int d = 0; d < space.rank; ++d) {
        const Wide reach = Wide(term.coefficients[d]) * (space.count[d] - 1);
        (reach < 0 ? range.low : range.high) += reach;
    }
    return range;
}

}  // namespace

Space masked_space(const nki::View& view, const std::vector<nki::MaskTerm>& mask) {
    Space space;
    space.rank = view.rank;
    Extents end{};
    for (int d = 0; d < view.rank; ++d) {
        space.count[d] = end[d] = view.dims[d].count;
        if (end[d] <= 0) space.empty = true;
    }
    for (const nki::MaskTerm& term : mask) {
        int axes = 0;
        int axis = -1;
        for (int d = 0; d < view.rank; ++d) {
            if (term.coefficients[d] == 0 || view.dims[d].count == 1) continue;
            ++axes;
            axis = d;
        }
        if (axes == 0) {
            if (term.constant < 0) space.empty = true;
        } else if (axes == 1) {
            clip_axis(term.constant, term.coefficients[axis], space.begin[axis], end[axis]);
        }
    }
    for (int d = 0; d < view.rank; ++d) {
        space.count[d] = end[d] - space.begin[d];
        if (space.count[d] <= 0) space.empty = true;
    }
    if (space.empty) return space;
    for (const nki::MaskTerm& term : mask) {
        const TermRange range = range_of(term, space);
        if (range.high < 0) space.empty = true;
        if (range.low >= 0) continue;
        nki::MaskTerm moved = term;
        moved.constant =
            static_cast<std::int64_t>(std::clamp<Wide>(range.constant, INT64_MIN, INT64_MAX));
        space.coupled.push_back(moved);
    }
    return space;
}

Access lay_over(const nki::View& view, const nki::View& reference, const Space& space) {
    Access access{view.tensor, view.block, view.offset, {}};
    bool positional = view.rank <= reference.rank;
    for (int d = 0; positional && d < view.rank; ++d) {
        const std::int64_t count = view.dims[d].count;
        if (count != 1 && count != reference.dims[d].count) positional = false;
    }
    if (positional) {
        for (int d = 0; d < view.rank; ++d) {
            if (view.dims[d].count != 1) access.stride[d] = view.dims[d].stride;
        }
    } else {
        // Same elements in another arrangement: match the dims longer than 1 in order.
        int from = 0;
        for (int d = 0; d < reference.rank; ++d) {
            if (reference.dims[d].count == 1) continue;
            while (from < view.rank && view.dims[from].count == 1) ++from;
            if (from == view.rank || view.dims[from].count != reference.dims[d].count) break;
            access.stride[d] = view.dims[from++].stride;
        }
        while (from < view.rank && view.dims[from].count == 1) ++from;
        if (from != view.rank || view.count() != reference.count()) {
            throw Error(ErrorSource::kInternal, "shapes",
                        fmt::format("an operand of {} elements does not fit an operation of {}",
                                    view.count(), reference.count()));
        }
    }
    for (int d = 0; d < space.rank; ++d) access.offset += access.stride[d] * space.begin[d];
    return access;
}

Interval active_interval(const Space& space, const Extents& outer) {
    const int inner = space.rank - 1;
    Interval run{0, space.rank > 0 ? space.count[inner] : 1};
    for (const nki::MaskTerm& term : space.coupled) {
        Wide constant = term.constant;
        for (int d = 0; d < inner; ++d) constant += Wide(term.coefficients[d]) * outer[d];
        const std::int64_t coefficient = term.coefficients[inner];
        if (coefficient != 0) {
            clip_axis(constant, coefficient, run.begin, run.end);
        } else if (constant < 0) {
            return {0, 0};
        }
    }
    return run;
}

void collapse(int& rank, Extents& count, Extents* const* strides, int operands) {
    int kept = 0;
    for (int d = 0; d < rank; ++d) {
        if (count[d] == 1) continue;
        bool merge = kept > 0;
        for (int k = 0; merge && k < operands; ++k) {
            const Extents& stride = *strides[k];
            if (stride[kept - 1] != stride[d] * count[d]) merge = false;
        }
        if (merge) {
            count[kept - 1] *= count[d];
        } else {
            count[kept] = count[d];
        }
        for (int k = 0; k < operands; ++k) {
            (*strides[k])[merge ? kept - 1 : kept] = (*strides[k])[d];
        }
        if (!merge) ++kept;
    }
    rank = kept;
}

namespace {

/// Smallest and largest row and column that an access touches. Strides of whole rows count as
/// steps between rows, all others as steps within one.
struct Bounds {
    std::int64_t row_low, row_high, column_low, column_high;
};

Bounds bounds_of(const Access& access, const Space& space, std::int64_t row_elements) {
    const std::int64_t row = access.offset / row_elements;
    const std::int64_t column = access.offset % row_elements;
    Bounds bounds{row, row, column, column};
    for (int d = 0; d < space.rank; ++d) {
        const std::int64_t stride = access.stride[d];
        const std::int64_t steps = space.count[d] - 1;
        if (stride % row_elements == 0) {
            const std::int64_t reach = stride / row_elements * steps;
            (reach < 0 ? bounds.row_low : bounds.row_high) += reach;
        } else {
            (stride < 0 ? bounds.column_low : bounds.column_high) += stride * steps;
        }
    }
    if (bounds.column_low < 0 || bounds.column_high >= row_elements) {
        // The access leaves its rows: only the flat range is known.
        return {0, 0, bounds.row_low * row_elements + bounds.column_low,
                bounds.row_high * row_elements + bounds.column_high};
    }
    return bounds;
}

}  // namespace

bool may_overlap(const Access& a, const Space& space_a, const Access& b, const Space& space_b,
                 std::int64_t row_elements) {
    if (a.tensor != b.tensor || a.block != b.block) return false;
    row_elements = std::max<std::int64_t>(row_elements, 1);
    Bounds bounds_a = bounds_of(a, space_a, row_elements);
    Bounds bounds_b = bounds_of(b, space_b, row_elements);
    const bool flat_a = bounds_a.column_high >= row_elements || bounds_a.column_low < 0;
    const bool flat_b = bounds_b.column_high >= row_elements || bounds_b.column_low < 0;
    if (flat_a || flat_b) {
        bounds_a = bounds_of(a, space_a, INT64_MAX);
        bounds_b = bounds_of(b, space_b, INT64_MAX);
    }
    return bounds_a.row_low <= bounds_b.row_high && bounds_b.row_low <= bounds_a.row_high &&
           bounds_a.column_low <= bounds_b.column_high &&
           bounds_b.column_low <= bounds_a.column_high;
}

bool coincide(const Access& a, const Access& b, const Space& space) {
    if (a.tensor != b.tensor || a.block != b.block || a.offset != b.offset) return false;
    for (int d = 0; d < space.rank; ++d) {
        if (space.count[d] > 1 && a.stride[d] != b.stride[d]) return false;
    }
    return true;
}

}  // namespace accelopt::trainium::execution
