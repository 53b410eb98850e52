#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "nki/affine.h"
#include "nki/program.h"
#include "nki/tile.h"

namespace accelopt::nki::interp {

/// One affine form over an iteration space: constant + sum(step[d] * i_d).
struct Lane {
    std::int64_t constant = 0;
    std::array<std::int64_t, kMaxTileDims> step{};
};

/// An operand on its way from a Tile to a View: the address and the indices that need a mask, as
/// affine forms over the space it has been fitted to.
struct Draft {
    const Tile* tile = nullptr;
    int rank = 0;
    std::array<std::int64_t, kMaxTileDims> count{};
    Lane address;
    struct Bound {
        Lane index;
        std::int64_t size = 0;
        int axis = 0;
    };
    std::vector<Bound> bounds;
    bool vector = false;  ///< [P, 1]: follows the partitions only
    bool result_of_reduce = false;
};

/// Reads a tile as [partition, free...]; raises failed_to_infer_tile_from_local_tensor when an
/// on-chip view has no such form. `free_elements` is of the tile's tensor.
Draft make_draft(const Tile& tile, std::int64_t free_elements, const std::string& name);

/// The index space that an operation runs over, with its operands, mask and iota pattern. All are
/// transformed together, so that they stay equal in meaning.
class IterationSpace {
  public:
    /// `shape` is [partition, free...]; one dimension is read as [partition, 1].
    explicit IterationSpace(const std::vector<std::int64_t>& shape);

    /// Adds an operand that covers the space, broadcasting free dims of one element and splitting
    /// dims where only the factorisation differs. False when the shapes do not fit. The partition
    /// counts are the caller's business.
    [[nodiscard]] bool add(Draft draft);
    /// Adds a [P, 1] operand. False when it has more than one element per partition.
    [[nodiscard]] bool add_vector(Draft draft);
    /// Marks the free dims in `axes` (bits) as reduced, then adds the result of the reduction.
    [[nodiscard]] bool add_reduced(Draft draft, std::uint32_t axes);
    /// Adds a mask over the space as written; false when its shape does not fit.
    [[nodiscard]] bool add_mask(const MaskExpr& mask);
    void set_iota(const AffineExpr& expr);

    /// Cuts the space down to what the mask leaves, as far as that is a box; false when nothing
    /// is left.
    [[nodiscard]] bool apply_mask();
    /// Drops dims of one element and merges adjacent dims that all operands walk as one.
    void simplify();
    /// Cuts dim d down to [low, high).
    void restrict_dim(int d, std::int64_t low, std::int64_t high);
    /// Where the box that is left starts along dim d as written; before simplify() only.
    std::int64_t origin(int d) const { return origin_[d]; }
    /// Raises tensor_access_out_of_bound for an index that the mask does not keep inside.
    using NameOf = std::function<std::string(const Tile&)>;
    void check_bounds(const NameOf& name_of) const;

    int rank() const { return rank_; }
    std::int64_t count(int d) const { return count_[d]; }
    bool reduced(int d) const { return (reduced_ >> d & 1U) != 0; }
    const std::vector<Draft>& operands() const { return operands_; }
    const std::vector<Lane>& mask() const { return terms_; }
    const Lane& iota() const { return iota_; }

  private:
    void split(int d, std::int64_t inner);
    void erase(int d);
    void merge(int d);
    bool mergeable(int d) const;
    bool fit_broadcast(Draft& draft) const;
    bool fit_factors(Draft& draft);
    bool holds_under_mask(const Lane& index, std::int64_t size) const;
    template <typename F>
    void each_lane(F&& f);

    int rank_ = 0;
    std::array<std::int64_t, kMaxTileDims> count_{};
    std::array<std::int64_t, kMaxTileDims> origin_{};
    std::uint32_t reduced_ = 0;
    std::vector<Draft> operands_;
    std::vector<Lane> terms_;
    Lane iota_;
};

}  // namespace accelopt::nki::interp
