#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "nki/program.h"

/// The iteration space of an operation, and how its operands lie in it.
namespace accelopt::trainium::execution {

using Extents = std::array<std::int64_t, nki::kMaxDims>;

/// A box of indices, innermost dimension last. `coupled` holds the mask terms that tie two or more
/// axes together, relative to the box; single-axis terms have become part of the box.
struct Space {
    int rank = 0;
    Extents count{};
    Extents begin{};  ///< where the box starts in the unmasked iteration space
    bool empty = false;
    std::vector<nki::MaskTerm> coupled;

    std::int64_t size() const {
        std::int64_t n = 1;
        for (int d = 0; d < rank; ++d) n *= count[d];
        return empty ? 0 : n;
    }
};

/// A view laid over a space: element strides per dimension of the space, 0 where it broadcasts.
struct Access {
    nki::TensorId tensor = -1;
    std::int64_t block = 0;
    std::int64_t offset = 0;
    Extents stride{};
};

/// Returns the space of `view`'s dims cut down by `mask`.
Space masked_space(const nki::View& view, const std::vector<nki::MaskTerm>& mask);

/// Lays `view` over the unmasked space of `reference` (dims of count 1 broadcast; where the ranks
/// or positions differ, the dims longer than 1 must agree in order) and moves it to the start of
/// the box. Throws Error(kInternal) when the shapes do not fit.
Access lay_over(const nki::View& view, const nki::View& reference, const Space& space);

/// Half-open interval of the innermost index that a mask leaves active, for the outer indices
/// `outer` (innermost entry ignored).
struct Interval {
    std::int64_t begin = 0;
    std::int64_t end = 0;
};
Interval active_interval(const Space& space, const Extents& outer);

/// Steps `index` over dims [0, rank) in row-major order; returns false after the last one.
inline bool advance(Extents& index, const Extents& count, int rank) {
    for (int d = rank - 1; d >= 0; --d) {
        if (++index[d] < count[d]) return true;
        index[d] = 0;
    }
    return false;
}

/// Calls body(outer index, begin, end) for every innermost run of active elements. A space of rank
/// 0 has one run of one element.
template <class Body>
void for_each_run(const Space& space, Body body) {
    if (space.empty) return;
    Extents index{};
    const int inner = space.rank - 1;
    const std::int64_t length = space.rank > 0 ? space.count[inner] : 1;
    do {
        Interval run{0, length};
        if (!space.coupled.empty()) run = active_interval(space, index);
        if (run.begin < run.end) body(index, run.begin, run.end);
    } while (advance(index, space.count, inner));
}

/// Element offset of an access at `index`.
inline std::int64_t offset_at(const Access& access, const Extents& index, int rank) {
    std::int64_t offset = access.offset;
    for (int d = 0; d < rank; ++d) offset += access.stride[d] * index[d];
    return offset;
}

/// Drops dims of count 1 and merges neighbours that all strides step over alike. `strides` are the
/// stride arrays of all operands. Only for spaces without coupled terms.
void collapse(int& rank, Extents& count, Extents* const* strides, int operands);

/// True when two accesses over the same space may touch a common element of one tile (exact for
/// boxes of whole strides, else on the safe side).
bool may_overlap(const Access& a, const Space& space_a, const Access& b, const Space& space_b,
                 std::int64_t row_elements);

/// True when both accesses touch the same element at every index.
bool coincide(const Access& a, const Access& b, const Space& space);

}  // namespace accelopt::trainium::execution
