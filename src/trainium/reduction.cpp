#include "trainium/reduction.h"

#include <cmath>
#include <cstdlib>
#include <vector>

#include "trainium/integer_kernels.h"

namespace accelopt::trainium::execution {

using nki::AluOp;
using nki::DType;

namespace {

constexpr std::int64_t kChunk = 2048;
/// Rows that are summed one after the other before their sum joins the total.
constexpr std::int64_t kSumBlock = 64;
/// A reduced inner run shorter than this goes lane by lane over a longer kept axis.
constexpr std::int64_t kShortRun = 32;

float combine(AluOp op, float a, float b) {
    float out = 0;
    binary_kernels(op).vector_vector(&a, &b, &out, 1);
    return out;
}

/// A single element already has to look like a result: |x|, or a truth value.
bool maps_single_elements(AluOp op) {
    return op == AluOp::kAbsMax || op == AluOp::kLogicalAnd || op == AluOp::kLogicalOr ||
           op == AluOp::kLogicalXor;
}

std::int64_t offset_of(const Extents& stride, const Extents& index, int rank) {
    std::int64_t offset = 0;
    for (int d = 0; d < rank; ++d) offset += stride[d] * index[d];
    return offset;
}

/// A group of dims: those that are reduced, or those that stay.
struct Axes {
    int rank = 0;
    Extents count{};
    Extents source{};
    Extents target{};

    void add(std::int64_t n, std::int64_t source_stride, std::int64_t target_stride) {
        count[rank] = n;
        source[rank] = source_stride;
        target[rank++] = target_stride;
    }
    void merge() {
        Extents* strides[] = {&source, &target};
        collapse(rank, count, strides, 2);
    }
    /// Moves dim d to the end.
    void make_inner(int d) {
        for (Extents* values : {&count, &source, &target}) {
            std::swap((*values)[d], (*values)[rank - 1]);
        }
    }
    std::int64_t size() const {
        std::int64_t n = 1;
        for (int d = 0; d < rank; ++d) n *= count[d];
        return n;
    }
    /// The dim with the smallest source stride, or -1.
    int nearest() const {
        int best = -1;
        for (int d = 0; d < rank; ++d) {
            if (best < 0 || std::abs(source[d]) < std::abs(source[best])) best = d;
        }
        return best;
    }
};

class Reduction {
  public:
    Reduction(AluOp op, bool negate, const Operand& source, const Operand& target)
        : op_(op), negate_(negate), source_(source), target_(target) {}

    void run(unsigned axes, const Space& space) {
        Axes kept;
        Axes reduced;
        for (int d = 0; d < space.rank; ++d) {
            Axes& group = ((axes >> d) & 1u) != 0 ? reduced : kept;
            group.add(space.count[d], source_.stride[d], target_.stride[d]);
        }
        kept.merge();
        reduced.merge();
        const int near_reduced = reduced.nearest();
        const int near_kept = kept.nearest();
        if (near_reduced >= 0) reduced.make_inner(near_reduced);
        if (near_kept >= 0) kept.make_inner(near_kept);
        const std::int64_t inner = near_reduced >= 0 ? reduced.count[reduced.rank - 1] : 1;
        const bool reduced_is_nearer =
            near_reduced >= 0 && (near_kept < 0 || std::abs(reduced.source[reduced.rank - 1]) <=
                                                       std::abs(kept.source[kept.rank - 1]));
        const bool runs = reduce_kernel(op_) != nullptr && reduced_is_nearer &&
                          (inner >= kShortRun || kept.size() < inner);
        runs ? reduce_runs(kept, reduced) : reduce_rows(kept, reduced);
    }

    /// Masked across axes: run by run, in order.
    void run_coupled(unsigned axes, const Space& space) {
        Extents weight{};
        std::int64_t results = 1;
        for (int d = space.rank - 1; d >= 0; --d) {
            if (((axes >> d) & 1u) != 0) continue;
            weight[d] = results;
            results *= space.count[d];
        }
        std::vector<float> values(static_cast<std::size_t>(results));
        std::vector<std::int64_t> target_at(static_cast<std::size_t>(results));
        std::vector<char> seen(static_cast<std::size_t>(results), 0);
        const auto put = [&](const Extents& index, float value) {
            const auto at = static_cast<std::size_t>(offset_of(weight, index, space.rank));
            values[at] = seen[at] == 0 ? value : combine(op_, values[at], value);
            seen[at] = 1;
            target_at[at] = offset_of(target_.stride, index, space.rank);
        };
        const int inner = space.rank - 1;
        const bool whole_runs = ((axes >> inner) & 1u) != 0 && reduce_kernel(op_) != nullptr;
        for_each_run(space, [&](const Extents& outer, std::int64_t begin, std::int64_t end) {
            Extents index = outer;
            for (std::int64_t i = begin; i < end; i += kChunk) {
                const std::int64_t n = std::min(kChunk, end - i);
                index[inner] = i;
                read(offset_of(source_.stride, index, space.rank), source_.stride[inner], n,
                     row_.data());
                if (whole_runs) {
                    put(index, reduce_kernel(op_)(row_.data(), static_cast<std::size_t>(n)));
                    continue;
                }
                for (std::int64_t k = 0; k < n; ++k) {
                    index[inner] = i + k;
                    put(index, row_[k]);
                }
            }
        });
        for (std::size_t k = 0; k < values.size(); ++k) {
            if (seen[k] == 0) continue;
            finish(&values[k], 1);
            write(&values[k], target_at[k], 1, 1);
        }
    }

  private:
    void read(std::int64_t offset, std::int64_t stride, std::int64_t n, float* out) const {
        const int bytes = storage_bytes(source_.format.storage);
        decode(source_.format.storage, source_.data + offset * bytes, stride, out,
               static_cast<std::size_t>(n));
    }

    const float* direct(std::int64_t offset, std::int64_t stride) const {
        if (source_.format.storage != DType::kFloat32 || stride != 1) return nullptr;
        return reinterpret_cast<const float*>(source_.data) + offset;
    }

    void finish(float* values, std::int64_t n) const {
        const auto size = static_cast<std::size_t>(n);
        if (maps_single_elements(op_)) {
            binary_kernels(op_).vector_vector(values, values, values, size);
        }
        if (negate_) {
            const float minus_one = -1.0f;
            binary_kernels(AluOp::kMultiply).vector_scalar(values, &minus_one, values, size);
        }
    }

    void write(const float* values, std::int64_t offset, std::int64_t stride,
               std::int64_t n) const {
        const int bytes = storage_bytes(target_.format.storage);
        encode(target_.format.storage, target_.format.value, values, target_.data + offset * bytes,
               stride, static_cast<std::size_t>(n));
    }

    /// Reduces contiguous (or evenly spaced) runs to one number each, then the numbers.
    void reduce_runs(const Axes& kept, const Axes& reduced) {
        const ReduceKernel kernel = reduce_kernel(op_);
        const int inner = reduced.rank - 1;
        const std::int64_t length = reduced.count[inner];
        const std::int64_t stride = reduced.source[inner];
        // Results along the last kept axis are collected, so that they are written in one go.
        const int last = kept.rank - 1;
        const std::int64_t results = kept.rank > 0 ? kept.count[last] : 1;
        std::vector<float> values(static_cast<std::size_t>(results));
        std::vector<float> parts;
        std::vector<float> gathered(static_cast<std::size_t>(kChunk));
        Extents outer{};
        do {
            for (std::int64_t k = 0; k < results; ++k) {
                Extents at = outer;
                if (last >= 0) at[last] = k;
                const std::int64_t base = offset_of(kept.source, at, kept.rank);
                parts.clear();
                Extents index{};
                do {
                    const std::int64_t start = base + offset_of(reduced.source, index, inner);
                    if (const float* run = direct(start, stride)) {
                        parts.push_back(kernel(run, static_cast<std::size_t>(length)));
                        continue;
                    }
                    for (std::int64_t i = 0; i < length; i += kChunk) {
                        const std::int64_t n = std::min(kChunk, length - i);
                        read(start + i * stride, stride, n, gathered.data());
                        parts.push_back(kernel(gathered.data(), static_cast<std::size_t>(n)));
                    }
                } while (advance(index, reduced.count, inner));
                values[k] = parts.size() == 1 ? parts[0] : kernel(parts.data(), parts.size());
            }
            finish(values.data(), results);
            write(values.data(), offset_of(kept.target, outer, kept.rank),
                  last >= 0 ? kept.target[last] : 1, results);
        } while (advance(outer, kept.count, last));
    }

    /// Combines whole rows along a kept axis, one reduced index after the other.
    void reduce_rows(const Axes& kept, const Axes& reduced) {
        const int inner = kept.rank - 1;
        const std::int64_t length = inner >= 0 ? kept.count[inner] : 1;
        const std::int64_t source_stride = inner >= 0 ? kept.source[inner] : 1;
        const std::int64_t target_stride = inner >= 0 ? kept.target[inner] : 1;
        Extents outer{};
        do {
            const std::int64_t from = offset_of(kept.source, outer, std::max(inner, 0));
            const std::int64_t to = offset_of(kept.target, outer, std::max(inner, 0));
            for (std::int64_t i = 0; i < length; i += kChunk) {
                const std::int64_t n = std::min(kChunk, length - i);
                combine_rows(from + i * source_stride, source_stride, n, reduced);
                finish(total_.data(), n);
                write(total_.data(), to + i * target_stride, target_stride, n);
            }
        } while (advance(outer, kept.count, inner));
    }

    void combine_into(float* accumulator, const float* values, std::int64_t n) const {
        binary_kernels(op_).vector_vector(accumulator, values, accumulator,
                                          static_cast<std::size_t>(n));
    }

    void combine_rows(std::int64_t from, std::int64_t stride, std::int64_t n, const Axes& reduced) {
        bool first = true;
        std::int64_t in_block = 0;
        Extents index{};
        const auto flush = [&] {
            if (in_block == 0) return;
            if (first) {
                std::copy_n(block_.data(), n, total_.data());
            } else {
                combine_into(total_.data(), block_.data(), n);
            }
            first = false;
            in_block = 0;
        };
        do {
            const std::int64_t start = from + offset_of(reduced.source, index, reduced.rank);
            if (in_block == 0) {
                read(start, stride, n, block_.data());
            } else if (const float* row = direct(start, stride)) {
                combine_into(block_.data(), row, n);
            } else {
                read(start, stride, n, row_.data());
                combine_into(block_.data(), row_.data(), n);
            }
            if (++in_block == kSumBlock) flush();
        } while (advance(index, reduced.count, reduced.rank));
        flush();
    }

    AluOp op_;
    bool negate_;
    Operand source_;
    Operand target_;
    std::array<float, kChunk> row_;
    std::array<float, kChunk> block_;
    std::array<float, kChunk> total_;
};

/// The recurrence of state-space kernels, state = a * state + b, eight partitions at a time: each
/// chain waits for its own result only.
void multiply_add_scan(const Space& space, const float* a, const Extents& a_stride, const float* b,
                       const Extents& b_stride, const std::vector<float>& initial, float* target,
                       const Extents& target_stride) {
    constexpr std::int64_t kChains = 8;
    const std::int64_t rows = space.count[0];
    for (std::int64_t first = 0; first < rows; first += kChains) {
        const std::int64_t chains = std::min(kChains, rows - first);
        std::array<float, kChains> state{};
        for (std::int64_t r = 0; r < chains; ++r) state[r] = initial[first + r];
        Extents index{};
        const int inner = space.rank - 1;
        do {
            index[0] = first;
            const float* from_a = a + offset_of(a_stride, index, space.rank);
            const float* from_b = b + offset_of(b_stride, index, space.rank);
            float* to = target + offset_of(target_stride, index, space.rank);
            index[0] = 0;
            const std::int64_t length = inner > 0 ? space.count[inner] : 1;
            for (std::int64_t i = 0; i < length; ++i) {
                for (std::int64_t r = 0; r < chains; ++r) {
                    state[r] = from_a[r * a_stride[0]] * state[r] + from_b[r * b_stride[0]];
                    to[r * target_stride[0]] = state[r];
                }
                from_a += a_stride[inner];
                from_b += b_stride[inner];
                to += target_stride[inner];
            }
            // Steps over the free dims left of the innermost one; dim 0 is the chains.
            int d = inner - 1;
            for (; d > 0; --d) {
                if (++index[d] < space.count[d]) break;
                index[d] = 0;
            }
            if (d <= 0) break;
        } while (true);
    }
}

/// A bitvec reduction: the bits of integers, element by element.
void reduce_bits(AluOp op, bool negate, unsigned axes, const Space& space, const Operand& source,
                 const Operand& target) {
    Extents weight{};
    std::int64_t results = 1;
    for (int d = space.rank - 1; d >= 0; --d) {
        if (((axes >> d) & 1u) != 0) continue;
        weight[d] = results;
        results *= space.count[d];
    }
    struct Result {
        std::int64_t value = 0;
        std::int64_t target = 0;  ///< where it goes
        bool seen = false;        ///< not masked out
    };
    std::vector<Result> all(static_cast<std::size_t>(results));
    const int inner = space.rank - 1;
    for_each_run(space, [&](const Extents& outer, std::int64_t begin, std::int64_t end) {
        Extents index = outer;
        for (std::int64_t i = begin; i < end; ++i) {
            if (inner >= 0) index[inner] = i;
            const std::int64_t at = offset_of(source.stride, index, space.rank);
            std::int64_t bits = 0;
            decode_integers(source.format.storage,
                            source.data + at * storage_bytes(source.format.storage), 1, &bits, 1);
            Result& result = all[static_cast<std::size_t>(offset_of(weight, index, space.rank))];
            if (result.seen) {
                integer_binary(op, &result.value, true, &bits, true, &result.value, 1);
                continue;
            }
            result = {bits, offset_of(target.stride, index, space.rank), true};
        }
    });
    for (Result& result : all) {
        if (!result.seen) continue;
        if (negate) result.value = -result.value;
        encode_integers(target.format.storage, target.format.value, &result.value,
                        target.data + result.target * storage_bytes(target.format.storage), 1, 1);
    }
}

float element(const Operand& operand, const Extents& index, int rank) {
    if (operand.is_immediate) return static_cast<float>(operand.immediate);
    float value = 0;
    const std::int64_t offset = offset_of(operand.stride, index, rank);
    decode(operand.format.storage, operand.data + offset * storage_bytes(operand.format.storage), 1,
           &value, 1);
    return value;
}

}  // namespace

void run_reduce(AluOp op, bool negate, unsigned axes, const Space& space, const Operand& source,
                const Operand& target) {
    if (space.empty) return;
    if (is_bitwise(op)) return reduce_bits(op, negate, axes, space, source, target);
    Reduction reduction(op, negate, source, target);
    space.coupled.empty() ? reduction.run(axes, space) : reduction.run_coupled(axes, space);
}

void run_scan(const Scan& scan, const Space& space, const Operand& target) {
    if (space.empty || space.rank == 0) return;
    std::vector<float> state(static_cast<std::size_t>(space.count[0]));
    for (std::int64_t p = 0; p < space.count[0]; ++p) {
        Extents index{};
        index[0] = p;
        state[p] = element(scan.initial, index, space.rank);
    }
    const auto plain = [](const Operand& operand) {
        return !operand.is_immediate && operand.format.storage == DType::kFloat32;
    };
    if (space.coupled.empty() && scan.op0 == AluOp::kMultiply && scan.op1 == AluOp::kAdd &&
        plain(scan.a) && plain(scan.b) && target.format.storage == DType::kFloat32 &&
        target.format.value == DType::kFloat32) {
        return multiply_add_scan(space, reinterpret_cast<const float*>(scan.a.data), scan.a.stride,
                                 reinterpret_cast<const float*>(scan.b.data), scan.b.stride, state,
                                 reinterpret_cast<float*>(target.data), target.stride);
    }
    const int inner = space.rank - 1;
    const int bytes = storage_bytes(target.format.storage);
    for_each_run(space, [&](const Extents& outer, std::int64_t begin, std::int64_t end) {
        Extents index = outer;
        for (std::int64_t i = begin; i < end; ++i) {
            index[inner] = i;
            float& value = state[index[0]];
            const float a = element(scan.a, index, space.rank);
            const float b = element(scan.b, index, space.rank);
            value = scan.reverse0 ? combine(scan.op0, value, a) : combine(scan.op0, a, value);
            value = scan.reverse1 ? combine(scan.op1, b, value) : combine(scan.op1, value, b);
            encode(target.format.storage, target.format.value, &value,
                   target.data + offset_of(target.stride, index, space.rank) * bytes, 1, 1);
        }
    });
}

}  // namespace accelopt::trainium::execution
