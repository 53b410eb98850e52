#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "trainium/iteration.h"

namespace accelopt::trainium::execution {

/// Which elements of one tile or HBM tensor have been written. Exact to the element, yet cheap:
/// whole-tile writes are one flag, a tile whose rows (partitions) were all written alike keeps a
/// single row of bits, and only tiles written partition by partition keep all rows.
class WrittenMap {
  public:
    WrittenMap() = default;
    /// A tile of `rows` partitions of `columns` elements, nothing written.
    WrittenMap(std::int64_t rows, std::int64_t columns) : rows_(rows), columns_(columns) {}

    /// Marks what an access touches.
    void write(const Access& access, const Space& space);
    /// Returns whether all that an access touches has been written.
    bool written(const Access& access, const Space& space);
    /// Returns whether the element at an offset has been written.
    bool element(std::int64_t offset) const;
    /// Forgets that the element at an offset has been written.
    void clear(std::int64_t offset);
    /// Number of elements never written.
    std::int64_t unwritten() const;
    /// Marks everything.
    void write_all() { state_ = State::kAll; }
    bool anything() const { return state_ != State::kNothing; }
    /// Calls body(first element, count) for stretches of elements never written, in row-major
    /// order.
    template <class Body>
    void for_each_gap(Body body) const;

  private:
    enum class State { kNothing, kAlike, kRows, kAll };

    /// An access as a range of rows that all touch the same columns.
    struct RowPattern {
        std::int64_t first_row = 0;
        std::int64_t row_count = 0;
        std::int64_t columns = 0;  ///< distinct columns touched
    };

    std::int64_t words() const { return (columns_ + 63) / 64; }
    bool row_pattern(const Access& access, const Space& space, RowPattern& pattern);
    void spread();
    void write_elements(const Access& access, const Space& space);
    bool elements_written(const Access& access, const Space& space) const;

    std::int64_t rows_ = 0;
    std::int64_t columns_ = 0;
    State state_ = State::kNothing;
    std::vector<std::uint64_t> bits_;     ///< one row (kAlike) or all rows (kRows)
    std::vector<std::uint64_t> pattern_;  ///< scratch: the columns of one access
};

template <class Body>
void WrittenMap::for_each_gap(Body body) const {
    if (state_ == State::kAll) return;
    if (state_ == State::kNothing) return body(std::int64_t{0}, rows_ * columns_);
    for (std::int64_t row = 0; row < rows_; ++row) {
        const std::uint64_t* bits = bits_.data() + (state_ == State::kAlike ? 0 : row * words());
        for (std::int64_t column = 0; column < columns_;) {
            const std::uint64_t rest = bits[column / 64] >> (column % 64);
            const std::int64_t left = std::min<std::int64_t>(64 - column % 64, columns_ - column);
            const std::int64_t set = std::min<std::int64_t>(std::countr_one(rest), left);
            if (set > 0) {
                column += set;
                continue;
            }
            const std::int64_t clear = std::min<std::int64_t>(std::countr_zero(rest), left);
            body(row * columns_ + column, clear);
            column += clear;
        }
    }
}

}  // namespace accelopt::trainium::execution
