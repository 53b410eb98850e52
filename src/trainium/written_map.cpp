#include "trainium/written_map.h"

#include <bit>
#include <cstdlib>
#include <numeric>

namespace accelopt::trainium::execution {

namespace {

/// Calls body(word index, mask) for the bits [begin, begin + count).
template <class Body>
void for_each_word(std::int64_t begin, std::int64_t count, Body body) {
    std::int64_t end = begin + count;
    for (std::int64_t word = begin / 64; begin < end; ++word) {
        const std::int64_t stop = std::min(end, (word + 1) * 64);
        const std::int64_t length = stop - begin;
        const std::uint64_t mask =
            (length == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << length) - 1) << (begin % 64);
        body(word, mask);
        begin = stop;
    }
}

void set_range(std::vector<std::uint64_t>& bits, std::int64_t begin, std::int64_t count) {
    for_each_word(begin, count, [&](std::int64_t word, std::uint64_t mask) { bits[word] |= mask; });
}

bool test_range(const std::vector<std::uint64_t>& bits, std::int64_t begin, std::int64_t count) {
    bool all = true;
    for_each_word(begin, count, [&](std::int64_t word, std::uint64_t mask) {
        all = all && (bits[word] & mask) == mask;
    });
    return all;
}

/// Dimensions without order: sets do not care in which order their elements are named, so that
/// negative strides are turned round, and the smallest stride goes innermost.
struct Lattice {
    std::int64_t offset = 0;
    int rank = 0;
    Extents count{};
    Extents stride{};
};

Lattice lattice_of(const Access& access, const Space& space, int first_dim) {
    Lattice lattice;
    lattice.offset = access.offset;
    for (int d = first_dim; d < space.rank; ++d) {
        if (space.count[d] == 1 || access.stride[d] == 0) continue;
        std::int64_t stride = access.stride[d];
        if (stride < 0) {
            lattice.offset += stride * (space.count[d] - 1);
            stride = -stride;
        }
        int at = lattice.rank++;
        for (; at > 0 && lattice.stride[at - 1] < stride; --at) {
            lattice.stride[at] = lattice.stride[at - 1];
            lattice.count[at] = lattice.count[at - 1];
        }
        lattice.stride[at] = stride;
        lattice.count[at] = space.count[d];
    }
    Extents* strides[] = {&lattice.stride};
    collapse(lattice.rank, lattice.count, strides, 1);
    return lattice;
}

/// Calls body(begin, count) for the contiguous runs of a lattice.
template <class Body>
void for_each_stretch(const Lattice& lattice, Body body) {
    int outer = lattice.rank;
    std::int64_t length = 1;
    if (outer > 0 && lattice.stride[outer - 1] == 1) length = lattice.count[--outer];
    Extents index{};
    do {
        std::int64_t begin = lattice.offset;
        for (int d = 0; d < outer; ++d) begin += lattice.stride[d] * index[d];
        body(begin, length);
    } while (advance(index, lattice.count, outer));
}

}  // namespace

bool WrittenMap::row_pattern(const Access& access, const Space& space, RowPattern& pattern) {
    if (!space.coupled.empty() || space.rank == 0 || columns_ == 0) return false;
    const std::int64_t row_stride = space.count[0] > 1 ? access.stride[0] : columns_;
    if (row_stride != columns_ && row_stride != 0) return false;
    pattern.first_row = access.offset / columns_;
    pattern.row_count = row_stride == 0 ? 1 : space.count[0];
    Lattice lattice = lattice_of(access, space, 1);
    std::int64_t last = lattice.offset;
    for (int d = 0; d < lattice.rank; ++d) last += lattice.stride[d] * (lattice.count[d] - 1);
    const std::int64_t row_begin = pattern.first_row * columns_;
    if (lattice.offset < row_begin || last >= row_begin + columns_) return false;
    lattice.offset -= row_begin;
    if (lattice.rank == 1 && lattice.stride[0] == 1 && lattice.count[0] == columns_) {
        pattern.columns = columns_;
        return true;
    }
    pattern_.assign(static_cast<std::size_t>(words()), 0);
    for_each_stretch(lattice, [&](std::int64_t begin, std::int64_t count) {
        set_range(pattern_, begin, count);
    });
    pattern.columns = 0;
    for (const std::uint64_t word : pattern_) pattern.columns += std::popcount(word);
    return true;
}

void WrittenMap::spread() {
    if (state_ == State::kRows) return;
    std::vector<std::uint64_t> row =
        state_ == State::kAlike ? bits_ : std::vector<std::uint64_t>(words(), 0);
    if (state_ == State::kAll) set_range(row, 0, columns_);
    bits_.clear();
    bits_.reserve(static_cast<std::size_t>(rows_ * words()));
    for (std::int64_t r = 0; r < rows_; ++r) bits_.insert(bits_.end(), row.begin(), row.end());
    state_ = State::kRows;
}

void WrittenMap::write(const Access& access, const Space& space) {
    if (space.empty || state_ == State::kAll) return;
    RowPattern pattern;
    if (!row_pattern(access, space, pattern)) return write_elements(access, space);
    if (pattern.row_count == rows_ && pattern.columns == columns_) {
        state_ = State::kAll;
        bits_ = {};
        return;
    }
    if (pattern.columns == columns_) {
        pattern_.assign(static_cast<std::size_t>(words()), 0);
        set_range(pattern_, 0, columns_);
    }
    if (pattern.row_count == rows_ && state_ != State::kRows) {
        if (state_ == State::kNothing) bits_.assign(static_cast<std::size_t>(words()), 0);
        state_ = State::kAlike;
        std::int64_t columns = 0;
        for (std::int64_t w = 0; w < words(); ++w) {
            columns += std::popcount(bits_[w] |= pattern_[w]);
        }
        if (columns == columns_) {
            state_ = State::kAll;
            bits_ = {};
        }
        return;
    }
    spread();
    for (std::int64_t r = 0; r < pattern.row_count; ++r) {
        std::uint64_t* row = bits_.data() + (pattern.first_row + r) * words();
        for (std::int64_t w = 0; w < words(); ++w) row[w] |= pattern_[w];
    }
}

bool WrittenMap::written(const Access& access, const Space& space) {
    if (space.empty || state_ == State::kAll) return true;
    if (state_ == State::kNothing) return false;
    RowPattern pattern;
    if (!row_pattern(access, space, pattern)) return elements_written(access, space);
    if (pattern.columns == columns_) {
        pattern_.assign(static_cast<std::size_t>(words()), 0);
        set_range(pattern_, 0, columns_);
    }
    const std::int64_t distinct = state_ == State::kAlike ? 1 : pattern.row_count;
    const std::int64_t first = state_ == State::kAlike ? 0 : pattern.first_row;
    for (std::int64_t r = 0; r < distinct; ++r) {
        const std::uint64_t* row = bits_.data() + (first + r) * words();
        for (std::int64_t w = 0; w < words(); ++w) {
            if ((pattern_[w] & ~row[w]) != 0) return false;
        }
    }
    if (pattern.row_count == rows_ && pattern.columns == columns_) {
        state_ = State::kAll;
        bits_ = {};
    }
    return true;
}

namespace {

/// Calls body(row, first column, count) for the pieces that an access touches in each row.
template <class Body>
void for_each_piece(const Access& access, const Space& space, std::int64_t columns, Body body) {
    const auto pieces = [&](std::int64_t begin, std::int64_t count) {
        while (count > 0) {
            const std::int64_t column = begin % columns;
            const std::int64_t length = std::min(count, columns - column);
            body(begin / columns, column, length);
            begin += length;
            count -= length;
        }
    };
    if (space.coupled.empty()) {
        for_each_stretch(lattice_of(access, space, 0), pieces);
        return;
    }
    const std::int64_t stride = access.stride[space.rank - 1];
    for_each_run(space, [&](const Extents& index, std::int64_t begin, std::int64_t end) {
        const std::int64_t start = offset_at(access, index, space.rank - 1);
        if (stride == 1) return pieces(start + begin, end - begin);
        for (std::int64_t i = begin; i < end; ++i) pieces(start + i * stride, 1);
    });
}

}  // namespace

void WrittenMap::write_elements(const Access& access, const Space& space) {
    bool any = false;
    for_each_piece(access, space, columns_,
                   [&](std::int64_t row, std::int64_t column, std::int64_t count) {
                       if (!any) spread();
                       any = true;
                       set_range(bits_, row * words() * 64 + column, count);
                   });
}

bool WrittenMap::elements_written(const Access& access, const Space& space) const {
    bool all = true;
    for_each_piece(access, space, columns_,
                   [&](std::int64_t row, std::int64_t column, std::int64_t count) {
                       const std::int64_t base = state_ == State::kAlike ? 0 : row * words() * 64;
                       all = all && test_range(bits_, base + column, count);
                   });
    return all;
}

bool WrittenMap::element(std::int64_t offset) const {
    if (state_ == State::kAll || state_ == State::kNothing) return state_ == State::kAll;
    const std::int64_t row = state_ == State::kAlike ? 0 : offset / columns_;
    const std::int64_t column = offset % columns_;
    return (bits_[row * words() + column / 64] >> (column % 64) & 1) != 0;
}

void WrittenMap::clear(std::int64_t offset) {
    if (!element(offset)) return;
    spread();
    const std::int64_t column = offset % columns_;
    bits_[offset / columns_ * words() + column / 64] &= ~(std::uint64_t{1} << (column % 64));
}

std::int64_t WrittenMap::unwritten() const {
    if (state_ == State::kAll) return 0;
    std::int64_t written = 0;
    for (const std::uint64_t word : bits_) written += std::popcount(word);
    return rows_ * columns_ - (state_ == State::kAlike ? written * rows_ : written);
}

}  // namespace accelopt::trainium::execution
