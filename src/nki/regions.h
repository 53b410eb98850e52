#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "nki/program.h"

namespace accelopt::nki::interp {

/// The elements that a view touches: in each of the partitions [p_lo, p_hi) (on chip; HBM tensors
/// have one) runs of `run` elements, at `start` plus any sum of a multiple below `count` of every
/// stride. Strides are positive and ascend, so that views of the same elements in another order
/// are the same region.
struct Region {
    struct Dim {
        std::int64_t stride = 0;
        std::int64_t count = 1;
        bool operator==(const Dim&) const = default;
    };
    std::int64_t p_lo = 0;
    std::int64_t p_hi = 1;
    std::int64_t start = 0;
    std::int64_t end = 1;  ///< one past the last element
    std::int64_t run = 1;
    int rank = 0;
    std::array<Dim, kMaxDims> dims{};

    bool operator==(const Region&) const = default;
    std::uint64_t hash() const;
};

/// Raises resource_limit/memory for a view that reaches over more than 2^50 elements.
Region region_of(const View& view, const Tensor& tensor);

/// Says whether regions share an element, exactly. Comparing two of few dimensions takes a few
/// steps of arithmetic; a hostile pair takes any number of them, which a budget bounds.
class Overlaps {
  public:
    explicit Overlaps(std::int64_t budget) : limit_(budget), left_(budget) {}
    bool operator()(const Region& a, const Region& b);
    /// Counts work of the search for candidates. Raises resource_limit/steps beyond the budget, as
    /// does the comparison.
    void spend(std::int64_t work) {
        left_ -= work;
        if (left_ < 0) exceeded();
    }

  private:
    /// Integers x_k in [low, high], weight > 0: what the sum of weight * x_k is looked for.
    struct Term {
        std::int64_t weight = 0;
        std::int64_t low = 0;
        std::int64_t high = 0;
    };
    static bool decided_by_pitch(const Region& a, const Region& b, bool& result);
    bool search(int terms, std::int64_t low, std::int64_t high);
    [[noreturn]] void exceeded() const;

    std::int64_t limit_;
    std::int64_t left_;
    std::array<Term, 2 * kMaxDims> terms_{};
    std::array<std::int64_t, 2 * kMaxDims + 1> least_{};    ///< of the sum of the first k terms
    std::array<std::int64_t, 2 * kMaxDims + 1> most_{};     ///< likewise
    std::array<std::int64_t, 2 * kMaxDims + 1> divisor_{};  ///< of their weights
};

/// Numbers of regions of one tensor, found by the regions that may share an element with another.
/// Regions lie in the cells of grids whose rows are one stride of theirs apart and whose cells have
/// their size: each is in at most four cells, and all regions of a kernel that walks a tensor tile
/// by tile are in one grid.
class RegionIndex {
  public:
    void add(const Region& region, std::int32_t number);

    /// Calls f(number) until it returns true for what may overlap `region`, some of it repeatedly.
    /// `spend(n)` is told how much there is to look at.
    template <typename Spend, typename F>
    bool any_near(const Region& region, Spend&& spend, F&& f) const {
        for (const Grid& grid : grids_) {
            const Box box = box_of(region, grid);
            const std::int64_t cells = box.cells();
            if (cells > static_cast<std::int64_t>(grid.numbers.size())) {
                spend(static_cast<std::int64_t>(grid.numbers.size()));
                for (const std::int32_t number : grid.numbers)
                    if (f(number)) return true;
                continue;
            }
            spend(cells);
            for (std::int64_t r = box.row_lo; r <= box.row_hi; ++r) {
                for (std::int64_t c = box.column_lo; c <= box.column_hi; ++c) {
                    const auto head = grid.cells.find(Cell{r, c});
                    if (head == grid.cells.end()) continue;
                    for (std::int32_t k = head->second; k >= 0; k = links_[k].next) {
                        spend(1);
                        if (f(links_[k].number)) return true;
                    }
                }
            }
        }
        return false;
    }

  private:
    struct Cell {
        std::int64_t row;
        std::int64_t column;
        bool operator==(const Cell&) const = default;
    };
    struct CellHash {
        std::size_t operator()(const Cell& cell) const {
            return static_cast<std::size_t>(cell.row) * 0x9e3779b97f4a7c15ULL ^
                   static_cast<std::size_t>(cell.column) * 0xbf58476d1ce4e5b9ULL;
        }
    };
    /// Cells of 2^row_bits rows and 2^column_bits columns; rows are `pitch` elements long.
    struct Grid {
        std::int64_t pitch = 1;
        int row_bits = 0;
        int column_bits = 0;
        std::unordered_map<Cell, std::int32_t, CellHash> cells;  ///< into links_
        std::vector<std::int32_t> numbers;
    };
    struct Link {
        std::int32_t number;
        std::int32_t next;
    };
    struct Box {
        std::int64_t row_lo;
        std::int64_t row_hi;
        std::int64_t column_lo;
        std::int64_t column_hi;
        std::int64_t cells() const { return (row_hi - row_lo + 1) * (column_hi - column_lo + 1); }
    };
    static Box rows_and_columns(const Region& region, std::int64_t pitch);
    static Box box_of(const Region& region, const Grid& grid);
    Grid& grid_of(const Region& region);

    std::vector<Grid> grids_;
    std::vector<Link> links_;
};

}  // namespace accelopt::nki::interp
