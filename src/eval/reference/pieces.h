#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "eval/problem.h"

namespace accelopt::eval {

/// A stretch of one axis.
struct PieceRange {
    std::int64_t first = 0;
    std::int64_t count = 0;
};

/// Into which pieces a problem's reference is cut. Every piece is as large as the next (the last
/// may be smaller): the whole in eight pieces, more where a piece would have above 64 MiB of
/// float64 inputs and outputs, fewer where the axes do not allow that many. Sizes are part of a
/// reference's bits (products of other shapes round differently): whoever changes them changes the
/// version in the store's keys.
class PiecePlan {
  public:
    explicit PiecePlan(const Problem& problem);

    std::int64_t pieces() const { return (units_ + per_piece_ - 1) / per_piece_; }
    /// What piece `index` takes of a cut axis of `extent` elements.
    PieceRange range(std::int64_t index, std::int64_t extent) const;
    /// The axis along which an output is cut; 0 where there is one piece only.
    std::size_t output_axis(std::size_t output) const;

  private:
    std::int64_t units_ = 1;
    std::int64_t per_piece_ = 1;
    std::vector<int> output_axes_;
};

/// Calls take(from, to, n) for each contiguous run of a piece of an array of `shape` in C order:
/// `n` elements that begin at `from` in the piece belong at `to` in the array.
void for_each_run(const std::vector<std::int64_t>& shape, std::size_t axis, const PieceRange& range,
                  const std::function<void(std::size_t, std::size_t, std::size_t)>& take);

}  // namespace accelopt::eval
