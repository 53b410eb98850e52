#include "nki/iteration_space.h"

#include <fmt/format.h>

#include <algorithm>

#include "nki/failure.h"

namespace accelopt::nki::interp {
namespace {

[[noreturn]] void no_tile(const Tile& tile, const std::string& name, const char* why) {
    rejected("failed_to_infer_tile_from_local_tensor",
             fmt::format("'{}' is not a tile: {}", name, why))
        .shape(tile.shape())
        .remedy("index the block dimensions, so that the partition dimension comes first")
        .raise();
}

std::int64_t floor_div(std::int64_t a, std::int64_t b) {
    const std::int64_t q = a / b;
    return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}

template <std::size_t N>
void erase_at(std::array<std::int64_t, N>& values, int d) {
    for (std::size_t k = d; k + 1 < N; ++k) values[k] = values[k + 1];
    values[N - 1] = 0;
}

template <std::size_t N>
void insert_at(std::array<std::int64_t, N>& values, int d, std::int64_t value) {
    for (std::size_t k = N - 1; k > static_cast<std::size_t>(d); --k) values[k] = values[k - 1];
    values[d] = value;
}

/// Splits dim d of a lane into (outer, inner).
void split_lane(Lane& lane, int d, std::int64_t inner) {
    insert_at(lane.step, d, lane.step[d] * inner);
}

void split_draft(Draft& draft, int d, std::int64_t inner) {
    insert_at(draft.count, d, draft.count[d] / inner);
    draft.count[d + 1] = inner;
    ++draft.rank;
    split_lane(draft.address, d, inner);
    for (Draft::Bound& bound : draft.bounds) split_lane(bound.index, d, inner);
}

void erase_draft_dim(Draft& draft, int d) {
    erase_at(draft.count, d);
    erase_at(draft.address.step, d);
    for (Draft::Bound& bound : draft.bounds) erase_at(bound.index.step, d);
    --draft.rank;
}

void insert_draft_dim(Draft& draft, int d) {
    insert_at(draft.count, d, 1);
    insert_at(draft.address.step, d, 0);
    for (Draft::Bound& bound : draft.bounds) insert_at(bound.index.step, d, 0);
    ++draft.rank;
}

}  // namespace

Draft make_draft(const Tile& tile, std::int64_t free_elements, const std::string& name) {
    Draft draft;
    draft.tile = &tile;
    draft.address.constant = tile.base;
    if (tile.buffer != Buffer::kHbm) {
        const TileDim& lead = tile.dims[0];
        if (lead.tag == AxisTag::kBlock)
            no_tile(tile, name, "a block dimension is in front of the partition dimension");
        if (lead.tag == AxisTag::kMixed && lead.count > 1)
            no_tile(tile, name, "its first dimension is not the partition dimension alone");
        if (lead.tag != AxisTag::kPartition && lead.count > 1)
            rejected(
                "leading_dimension_of_tensor_must_be_partition",
                fmt::format("the leading dimension of '{}' is not its partition dimension", name))
                .shape(tile.shape())
                .remedy(
                    "keep a slice of the partition dimension in front (t[p:p+1, ...]); blocks "
                    "go to a free dimension, or in front of nl.par_dim(...)")
                .raise();
        if (lead.tag == AxisTag::kPartition && lead.count > 1 && lead.stride != free_elements)
            rejected("partition_step", fmt::format("'{}' skips partitions", name))
                .shape(tile.shape())
                .remedy("engines access consecutive partitions")
                .raise();
        for (int d = 1; d < tile.rank; ++d) {
            const TileDim& dim = tile.dims[d];
            if (dim.count > 1 && dim.tag != AxisTag::kFree && dim.tag != AxisTag::kNew)
                no_tile(tile, name, "a dimension other than the first walks along partitions");
        }
    }
    for (int d = 0; d < tile.rank; ++d) {
        draft.count[draft.rank] = tile.dims[d].count;
        draft.address.step[draft.rank++] = tile.dims[d].stride;
    }
    for (const AxisBound& bound : tile.outside) {
        Draft::Bound out;
        out.size = bound.size;
        out.axis = bound.axis;
        out.index.constant = bound.constant;
        out.index.step = bound.step;
        draft.bounds.push_back(out);
    }
    if (draft.rank == 1) draft.count[draft.rank++] = 1;
    return draft;
}

IterationSpace::IterationSpace(const std::vector<std::int64_t>& shape) {
    for (const std::int64_t n : shape) {
        if (rank_ == kMaxTileDims)
            rejected("exceed_max_supported_dimension", "an operand has too many dimensions")
                .raise();
        count_[rank_++] = n;
    }
    if (rank_ == 0) count_[rank_++] = 1;
    if (rank_ == 1) count_[rank_++] = 1;
    operands_.reserve(6);
}

template <typename F>
void IterationSpace::each_lane(F&& f) {
    for (Draft& draft : operands_) {
        f(draft.address);
        for (Draft::Bound& bound : draft.bounds) f(bound.index);
    }
    for (Lane& term : terms_) f(term);
    f(iota_);
}

void IterationSpace::split(int d, std::int64_t inner) {
    if (rank_ == kMaxTileDims)
        rejected("exceed_max_supported_dimension", "operands split into too many dimensions")
            .raise();
    each_lane([&](Lane& lane) { split_lane(lane, d, inner); });
    insert_at(count_, d, count_[d] / inner);
    count_[d + 1] = inner;
    ++rank_;
}

void IterationSpace::erase(int d) {
    each_lane([&](Lane& lane) { erase_at(lane.step, d); });
    erase_at(count_, d);
    const std::uint32_t low = reduced_ & ((1U << d) - 1);
    reduced_ = low | (reduced_ >> (d + 1) << d);
    --rank_;
}

bool IterationSpace::fit_broadcast(Draft& draft) const {
    while (draft.rank > rank_) {  // extra dims of one element mean nothing
        int d = 1;
        while (d < draft.rank && draft.count[d] != 1) ++d;
        if (d == draft.rank) return false;
        erase_draft_dim(draft, d);
    }
    while (draft.rank < rank_) insert_draft_dim(draft, 1);
    for (int d = 1; d < rank_; ++d) {
        if (draft.count[d] == count_[d]) continue;
        if (draft.count[d] != 1) return false;
        draft.address.step[d] = 0;
        for (Draft::Bound& bound : draft.bounds) bound.index.step[d] = 0;
        draft.count[d] = count_[d];
    }
    return true;
}

bool IterationSpace::fit_factors(Draft& draft) {
    std::int64_t mine = 1;
    std::int64_t other = 1;
    for (int d = 1; d < rank_; ++d) mine *= count_[d];
    for (int d = 1; d < draft.rank; ++d) other *= draft.count[d];
    if (mine != other || reduced_ != 0) return false;
    for (int d = draft.rank - 1; d >= 1; --d)
        if (draft.count[d] == 1 && draft.rank > 2) erase_draft_dim(draft, d);
    int s = rank_ - 1;
    int o = draft.rank - 1;
    while (s >= 1) {
        if (count_[s] == 1) {
            insert_draft_dim(draft, o + 1);
            --s;
            continue;
        }
        if (o < 1) return false;
        if (count_[s] > draft.count[o]) {
            if (count_[s] % draft.count[o] != 0) return false;
            split(s, draft.count[o]);
            --o;  // s is the outer part now
        } else if (count_[s] < draft.count[o]) {
            if (draft.count[o] % count_[s] != 0) return false;
            split_draft(draft, o, count_[s]);
            --s;  // o is the outer part now
        } else {
            --s;
            --o;
        }
    }
    return draft.rank == rank_;
}

bool IterationSpace::add(Draft draft) {
    if (draft.rank == rank_ && std::equal(&count_[1], &count_[rank_], &draft.count[1])) {
        operands_.push_back(std::move(draft));
        return true;
    }
    Draft attempt = draft;
    if (!fit_broadcast(attempt)) {
        attempt = std::move(draft);
        if (!fit_factors(attempt)) return false;
    }
    operands_.push_back(std::move(attempt));
    return true;
}

bool IterationSpace::add_vector(Draft draft) {
    for (int d = 1; d < draft.rank; ++d)
        if (draft.count[d] != 1) return false;
    draft.vector = true;
    for (int d = 1; d < kMaxTileDims; ++d) {
        draft.address.step[d] = 0;
        for (Draft::Bound& bound : draft.bounds) bound.index.step[d] = 0;
    }
    draft.rank = rank_;
    operands_.push_back(std::move(draft));
    return true;
}

bool IterationSpace::add_reduced(Draft draft, std::uint32_t axes) {
    reduced_ = axes;
    for (int d = draft.rank - 1; d >= 1; --d)
        if (draft.count[d] == 1) erase_draft_dim(draft, d);
    int next = 1;
    for (int d = 1; d < rank_; ++d) {
        if (reduced(d) || count_[d] == 1) {
            insert_draft_dim(draft, next++);
        } else {
            if (next >= draft.rank || draft.count[next] != count_[d]) return false;
            ++next;
        }
    }
    if (draft.rank != rank_) return false;
    draft.result_of_reduce = true;
    operands_.push_back(std::move(draft));
    return true;
}

bool IterationSpace::add_mask(const MaskExpr& mask) {
    for (const AffineExpr& term : mask.terms) {
        if (term.rank > rank_) return false;
        Lane lane;
        lane.constant = term.constant;
        for (int d = 0; d < term.rank; ++d) {
            const AffineExpr::Axis& axis = term.axes[d];
            const int to = d + rank_ - term.rank;
            if (axis.count != count_[to] && axis.count != 1) return false;
            if (axis.count != 1) lane.step[to] = axis.coefficient;
        }
        terms_.push_back(lane);
    }
    return true;
}

void IterationSpace::set_iota(const AffineExpr& expr) {
    iota_.constant = expr.constant;
    for (int d = 0; d < expr.rank; ++d) iota_.step[d] = expr.axes[d].coefficient;
}

void IterationSpace::restrict_dim(int d, std::int64_t low, std::int64_t high) {
    each_lane([&](Lane& lane) { lane.constant += lane.step[d] * low; });
    count_[d] = high - low;
    origin_[d] += low;
    for (Draft& draft : operands_) draft.count[d] = count_[d];
}

bool IterationSpace::apply_mask() {
    bool changed = true;
    while (changed) {
        changed = false;
        for (std::size_t k = 0; k < terms_.size(); ++k) {
            const Lane term = terms_[k];
            int walked = 0;
            int only = -1;
            std::int64_t low = term.constant;
            std::int64_t high = term.constant;
            for (int d = 0; d < rank_; ++d) {
                if (term.step[d] == 0 || count_[d] == 1) continue;
                ++walked;
                only = d;
                const std::int64_t last = checked_multiply(term.step[d], count_[d] - 1);
                (last < 0 ? low : high) += last;
            }
            if (high < 0) return false;
            if (low < 0 && walked > 1) continue;  // a slanted edge stays a mask
            if (low < 0) {
                const std::int64_t step = term.step[only];
                std::int64_t from = 0;
                std::int64_t to = count_[only];
                if (step > 0) {
                    from = -floor_div(term.constant, step);
                } else {
                    to = floor_div(term.constant, -step) + 1;
                }
                restrict_dim(only, from, to);
            }
            terms_.erase(terms_.begin() + static_cast<std::ptrdiff_t>(k));
            changed = true;
            break;
        }
    }
    return true;
}

bool IterationSpace::mergeable(int d) const {
    if (reduced(d) != reduced(d + 1)) return false;
    const std::int64_t inner = count_[d + 1];
    const auto joins = [&](const Lane& lane) { return lane.step[d] == lane.step[d + 1] * inner; };
    for (const Draft& draft : operands_) {
        if (!joins(draft.address)) return false;
        for (const Draft::Bound& bound : draft.bounds)
            if (!joins(bound.index)) return false;
    }
    return std::all_of(terms_.begin(), terms_.end(), joins) && joins(iota_);
}

void IterationSpace::merge(int d) {
    const std::int64_t merged = count_[d] * count_[d + 1];
    erase(d);
    count_[d] = merged;
}

void IterationSpace::simplify() {
    for (int d = rank_ - 1; d >= 1 && rank_ > 2; --d)
        if (count_[d] == 1) erase(d);
    for (int d = rank_ - 2; d >= 1; --d)
        if (mergeable(d)) merge(d);
    for (Draft& draft : operands_) {
        draft.rank = rank_;
        draft.count = count_;
    }
}

bool IterationSpace::holds_under_mask(const Lane& index, std::int64_t size) const {
    // The dim with most elements is solved for; the others are enumerated.
    int solved = 0;
    std::int64_t others = 1;
    for (int d = 0; d < rank_; ++d)
        if (count_[d] > count_[solved]) solved = d;
    for (int d = 0; d < rank_; ++d)
        if (d != solved) others = checked_multiply(others, count_[d]);
    if (others > 100'000)
        unsupported("python_feature", "the mask is too complex to prove the access in bounds")
            .raise();
    std::array<std::int64_t, kMaxTileDims> at{};
    for (std::int64_t n = 0; n < others; ++n) {
        const auto value = [&](const Lane& lane) {
            std::int64_t v = lane.constant;
            for (int d = 0; d < rank_; ++d)
                if (d != solved) v += lane.step[d] * at[d];
            return v;
        };
        std::int64_t from = 0;
        std::int64_t to = count_[solved] - 1;
        for (const Lane& term : terms_) {
            const std::int64_t v = value(term);
            const std::int64_t step = term.step[solved];
            if (step == 0 && v < 0) to = -1;
            if (step > 0) from = std::max(from, -floor_div(v, step));
            if (step < 0) to = std::min(to, floor_div(v, -step));
        }
        if (from <= to) {
            const std::int64_t a = value(index) + index.step[solved] * from;
            const std::int64_t b = value(index) + index.step[solved] * to;
            if (std::min(a, b) < 0 || std::max(a, b) >= size) return false;
        }
        for (int d = rank_ - 1; d >= 0; --d) {
            if (d == solved) continue;
            if (++at[d] < count_[d]) break;
            at[d] = 0;
        }
    }
    return true;
}

void IterationSpace::check_bounds(const NameOf& name_of) const {
    for (const Draft& draft : operands_) {
        for (const Draft::Bound& bound : draft.bounds) {
            std::int64_t low = bound.index.constant;
            std::int64_t high = low;
            for (int d = 0; d < rank_; ++d) {
                const std::int64_t last = checked_multiply(bound.index.step[d], count_[d] - 1);
                (last < 0 ? low : high) += last;
            }
            if (low >= 0 && high < bound.size) continue;
            if (!terms_.empty() && holds_under_mask(bound.index, bound.size)) continue;
            AxisBound axis;
            axis.axis = bound.axis;
            axis.size = bound.size;
            raise_out_of_bound(name_of(*draft.tile), axis, low, high);
        }
    }
}

}  // namespace accelopt::nki::interp
