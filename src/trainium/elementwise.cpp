#include "trainium/elementwise.h"

#include <cmath>

#include "trainium/element_copy.h"
#include "trainium/integer_kernels.h"

namespace accelopt::trainium::execution {

using nki::AluOp;
using nki::DType;
using Kind = ChainStep::Kind;

namespace {

/// Elements handled at a time: every buffer stays in the first-level cache.
constexpr std::int64_t kChunk = 2048;
/// Inner runs shorter than this are handled several at a time.
constexpr std::int64_t kShortRun = 64;

/// Reading, writing and computing in float32.
struct FloatLane {
    using Value = float;

    static float immediate(double value) { return static_cast<float>(value); }
    static void read(DType storage, const std::byte* in, std::ptrdiff_t stride, float* out,
                     std::int64_t n) {
        decode(storage, in, stride, out, static_cast<std::size_t>(n));
    }
    static void write(const NumberFormat& format, float* values, std::byte* out,
                      std::ptrdiff_t stride, std::int64_t n) {
        encode(format.storage, format.value, values, out, stride, static_cast<std::size_t>(n));
    }
    /// The elements themselves, when they are floats already.
    static float* direct(const NumberFormat& format, std::byte* data) {
        return format.storage == DType::kFloat32 ? reinterpret_cast<float*>(data) : nullptr;
    }
    static void unary(nki::ActFunction function, const float* in, float* out, std::int64_t n) {
        unary_kernel(function)(in, out, static_cast<std::size_t>(n));
    }
    static void binary(AluOp op, const float* a, bool a_scalar, const float* b, bool b_scalar,
                       float* out, std::int64_t n) {
        const BinaryKernels& kernels = binary_kernels(op);
        const BinaryKernel kernel = a_scalar && n > 1   ? kernels.scalar_vector
                                    : b_scalar && n > 1 ? kernels.vector_scalar
                                                        : kernels.vector_vector;
        kernel(a, b, out, static_cast<std::size_t>(n));
    }
    static void choose(const float* p, const float* a, const float* b, float* out, std::int64_t n) {
        select(p, a, b, out, static_cast<std::size_t>(n));
    }
    static void splat(float value, float* out, std::int64_t n) {
        fill(value, out, static_cast<std::size_t>(n));
    }
    static void round(const NumberFormat& format, float* values, std::int64_t n) {
        round_values(format.value, values, static_cast<std::size_t>(n));
    }
    static void wrap(DType, float*, std::int64_t) {}
};

/// The same in integers: for bitwise operations, and for copies that must not pass a float.
struct IntegerLane {
    using Value = std::int64_t;

    static std::int64_t immediate(double value) {
        return std::isnan(value)
                   ? 0
                   : static_cast<std::int64_t>(std::nearbyint(std::clamp(value, -4.0e18, 4.0e18)));
    }
    static void read(DType storage, const std::byte* in, std::ptrdiff_t stride, Value* out,
                     std::int64_t n) {
        decode_integers(storage, in, stride, out, static_cast<std::size_t>(n));
    }
    static void write(const NumberFormat& format, Value* values, std::byte* out,
                      std::ptrdiff_t stride, std::int64_t n) {
        encode_integers(format.storage, format.value, values, out, stride,
                        static_cast<std::size_t>(n));
    }
    static Value* direct(const NumberFormat&, std::byte*) { return nullptr; }
    static void unary(nki::ActFunction function, const Value* in, Value* out, std::int64_t n) {
        integer_unary(function, in, out, n);
    }
    static void binary(AluOp op, const Value* a, bool a_scalar, const Value* b, bool b_scalar,
                       Value* out, std::int64_t n) {
        integer_binary(op, a, a_scalar, b, b_scalar, out, n);
    }
    static void choose(const Value* p, const Value* a, const Value* b, Value* out, std::int64_t n) {
        for (std::int64_t i = 0; i < n; ++i) out[i] = p[i] != 0 ? a[i] : b[i];
    }
    static void splat(Value value, Value* out, std::int64_t n) { std::fill_n(out, n, value); }
    static void round(const NumberFormat&, Value*, std::int64_t) {}
    static void wrap(DType dtype, Value* values, std::int64_t n) {
        for (std::int64_t i = 0; i < n; ++i) values[i] = wrapped(dtype, values[i]);
    }
};

/// A part of the space: `rows` times `columns` elements, at the same relative strides everywhere.
struct Segment {
    std::int64_t rows = 1;
    std::int64_t columns = 1;
    int row_dim = -1;
    int column_dim = -1;

    std::int64_t size() const { return rows * columns; }
};

template <class Lane>
class ChainRunner {
  public:
    using Value = typename Lane::Value;

    ChainRunner(const Chain& chain, const Operand& target) : chain_(chain), target_(target) {
        for (int k = 0; k < chain_.operand_count; ++k) {
            Operand& operand = chain_.operands[k];
            scalars_[k] = operand.is_immediate ? Lane::immediate(operand.immediate) : Value{};
        }
        const Operand& first = chain_.operands[0];
        width_of_ = first.is_immediate ? target.format.value : first.format.value;
        for (int s = 0; s < chain_.step_count; ++s) {
            computes_ = computes_ || chain_.steps[s].kind != Kind::kSelect;
        }
        computes_ = computes_ && is_integer(width_of_);
    }

    void run(const Space& space) {
        if (!space.coupled.empty()) {
            Segment segment;
            segment.column_dim = space.rank - 1;
            for_each_run(space, [&](const Extents& outer, std::int64_t begin, std::int64_t end) {
                Extents index = outer;
                for (std::int64_t at = begin; at < end; at += kChunk) {
                    index[segment.column_dim] = at;
                    segment.columns = std::min(kChunk, end - at);
                    run_segment(segment, index, space.rank);
                }
            });
            return;
        }
        int rank = space.rank;
        Extents count = space.count;
        std::array<Extents*, kMaxOperands + 1> strides{&target_.stride};
        for (int k = 0; k < chain_.operand_count; ++k) strides[k + 1] = &chain_.operands[k].stride;
        collapse(rank, count, strides.data(), chain_.operand_count + 1);
        if (rank == 0) {
            rank = 1;
            count[0] = 1;
        }
        run_box(rank, count);
    }

  private:
    struct Input {
        const Value* values = nullptr;
        bool scalar = false;
    };

    void run_box(int rank, const Extents& count) {
        const int inner = rank - 1;
        Segment segment;
        segment.column_dim = inner;
        Extents index{};
        if (rank >= 2 && count[inner] < kShortRun) {
            const int middle = rank - 2;
            segment.row_dim = middle;
            segment.columns = count[inner];
            const std::int64_t step = std::max<std::int64_t>(1, kChunk / count[inner]);
            do {
                for (std::int64_t at = 0; at < count[middle]; at += step) {
                    index[middle] = at;
                    segment.rows = std::min(step, count[middle] - at);
                    run_segment(segment, index, rank);
                }
                index[middle] = 0;
            } while (advance(index, count, middle));
            return;
        }
        do {
            for (std::int64_t at = 0; at < count[inner]; at += kChunk) {
                index[inner] = at;
                segment.columns = std::min(kChunk, count[inner] - at);
                run_segment(segment, index, rank);
            }
            index[inner] = 0;
        } while (advance(index, count, inner));
    }

    static std::byte* locate(const Operand& operand, const Extents& index, int rank) {
        std::int64_t offset = 0;
        for (int d = 0; d < rank; ++d) offset += operand.stride[d] * index[d];
        return operand.data + offset * storage_bytes(operand.format.storage);
    }

    static std::int64_t row_stride(const Operand& operand, const Segment& segment) {
        return segment.row_dim < 0 ? 0 : operand.stride[segment.row_dim];
    }

    /// True when the elements of the segment follow each other without gaps.
    static bool linear(const Operand& operand, const Segment& segment) {
        const std::int64_t column = operand.stride[segment.column_dim];
        if (segment.columns > 1 && column != 1) return false;
        if (segment.rows == 1) return true;
        return row_stride(operand, segment) == segment.columns;
    }

    Input load(int k, const Segment& segment, const Extents& index, int rank) {
        const Operand& operand = chain_.operands[k];
        if (operand.is_immediate) return {&scalars_[k], true};
        std::byte* data = locate(operand, index, rank);
        const std::int64_t column = operand.stride[segment.column_dim];
        const std::int64_t row = row_stride(operand, segment);
        if ((segment.columns == 1 || column == 0) && (segment.rows == 1 || row == 0)) {
            Lane::read(operand.format.storage, data, 1, &scalars_[k], 1);
            return {&scalars_[k], true};
        }
        if (linear(operand, segment)) {
            if (const Value* direct = Lane::direct(operand.format, data)) return {direct, false};
        }
        Value* buffer = gathered_[k].data();
        for_each_row(operand, data, segment,
                     [&](std::byte* from, std::ptrdiff_t stride, std::int64_t at, std::int64_t n) {
                         Lane::read(operand.format.storage, from, stride, buffer + at, n);
                     });
        return {buffer, false};
    }

    /// Calls body(address, stride, position, count) for the runs of an operand in a segment.
    template <class Body>
    static void for_each_row(const Operand& operand, std::byte* data, const Segment& segment,
                             Body body) {
        const std::int64_t column = operand.stride[segment.column_dim];
        const std::int64_t row = row_stride(operand, segment);
        if (segment.columns == 1) return body(data, row, 0, segment.rows);
        if (row == column * segment.columns) return body(data, column, 0, segment.size());
        const std::int64_t bytes = row * storage_bytes(operand.format.storage);
        for (std::int64_t r = 0; r < segment.rows; ++r) {
            body(data + r * bytes, column, r * segment.columns, segment.columns);
        }
    }

    void run_segment(const Segment& segment, const Extents& index, int rank) {
        const std::int64_t n = segment.size();
        std::byte* target = locate(target_, index, rank);
        Value* direct = linear(target_, segment) ? Lane::direct(target_.format, target) : nullptr;
        Value* out = direct != nullptr ? direct : result_.data();
        Input value = load(0, segment, index, rank);
        for (int s = 0; s < chain_.step_count; ++s) {
            const bool last = s + 1 == chain_.step_count;
            value =
                apply(chain_.steps[s], value, last ? out : middle_.data(), segment, index, rank);
        }
        if (value.scalar) {
            Lane::splat(*value.values, out, n);
        } else if (value.values != out) {
            std::copy_n(value.values, n, out);
        }
        if (computes_) Lane::wrap(width_of_, out, n);
        if (target_.format.storage == DType::kFloat32 && target_.format.value != DType::kFloat32) {
            Lane::round(target_.format, out, n);
        }
        if (direct != nullptr) return;
        for_each_row(target_, target, segment,
                     [&](std::byte* to, std::ptrdiff_t stride, std::int64_t at, std::int64_t k) {
                         Lane::write(written_format(), result_.data() + at, to, stride, k);
                     });
    }

    /// Values headed for float32 storage are rounded before they are written.
    NumberFormat written_format() const {
        if (target_.format.storage != DType::kFloat32) return target_.format;
        if constexpr (std::is_same_v<Lane, FloatLane>) return {DType::kFloat32, DType::kFloat32};
        return target_.format;
    }

    Input apply(const ChainStep& step, Input value, Value* out, const Segment& segment,
                const Extents& index, int rank) {
        const std::int64_t n = segment.size();
        if (step.kind == Kind::kUnary) {
            Value* to = value.scalar ? &held_ : out;
            Lane::unary(step.function, value.values, to, value.scalar ? 1 : n);
            return {to, value.scalar};
        }
        const Input operand = load(step.operand, segment, index, rank);
        if (step.kind == Kind::kSelect) {
            const Input other = load(step.operand + 1, segment, index, rank);
            Lane::choose(widen(value, predicate_.data(), n),
                         widen(operand, gathered_[step.operand].data(), n),
                         widen(other, gathered_[step.operand + 1].data(), n), out, n);
            return {out, false};
        }
        const bool scalar = value.scalar && operand.scalar;
        const bool reversed = step.kind == Kind::kReversed;
        const Input& a = reversed ? operand : value;
        const Input& b = reversed ? value : operand;
        Value* to = scalar ? &held_ : out;
        Lane::binary(step.op, a.values, a.scalar, b.values, b.scalar, to, scalar ? 1 : n);
        return {to, scalar};
    }

    static const Value* widen(const Input& input, Value* buffer, std::int64_t n) {
        if (!input.scalar) return input.values;
        Lane::splat(*input.values, buffer, n);
        return buffer;
    }

    using Buffer = std::array<Value, kChunk>;

    Chain chain_;
    Operand target_;
    std::array<Value, kMaxOperands> scalars_;
    DType width_of_ = DType::kInt32;  ///< integer results wrap at the width of the first operand
    bool computes_ = false;           ///< not just moving integers
    Value held_{};  ///< the running value while it is the same for the whole segment
    std::array<Buffer, kMaxOperands> gathered_;
    Buffer middle_;
    Buffer predicate_;
    Buffer result_;
};

/// Integers all the way: bitwise work, or only moving integers.
bool works_on_integers(const Chain& chain, const Operand& target) {
    if (chain.arithmetic != Arithmetic::kByOperands) {
        return chain.arithmetic == Arithmetic::kIntegers;
    }
    const auto integer = [](const Operand& operand) {
        return operand.is_immediate || is_integer(operand.format.value);
    };
    for (int s = 0; s < chain.step_count; ++s) {
        const ChainStep& step = chain.steps[s];
        if (step.kind == Kind::kUnary) {
            if (step.function == nki::ActFunction::kInvert && integer(chain.operands[0])) {
                return true;
            }
            if (step.function != nki::ActFunction::kCopy) return false;
        } else if (step.kind != Kind::kSelect && is_bitwise(step.op)) {
            return true;
        }
    }
    if (!is_integer(target.format.value)) return false;
    for (int s = 0; s < chain.step_count; ++s) {
        if (chain.steps[s].kind != Kind::kSelect) return false;
    }
    const int first = chain.step_count == 0 ? 0 : 1;
    for (int k = first; k < chain.operand_count; ++k) {
        if (!integer(chain.operands[k])) return false;
    }
    return chain.step_count == 0 || integer(chain.operands[0]);
}

}  // namespace

void run_chain(const Chain& chain, const Space& space, const Operand& target) {
    if (space.empty) return;
    if (chain.step_count == 0 && chain.arithmetic == Arithmetic::kByOperands &&
        !chain.operands[0].is_immediate && space.coupled.empty() &&
        copies_bytes(chain.operands[0].format, target.format)) {
        Operand source = chain.operands[0];
        Operand destination = target;
        int rank = space.rank;
        Extents count = space.count;
        Extents* strides[] = {&source.stride, &destination.stride};
        collapse(rank, count, strides, 2);
        return copy_bytes(rank, count, source, destination);
    }
    if (works_on_integers(chain, target)) {
        ChainRunner<IntegerLane>(chain, target).run(space);
    } else {
        ChainRunner<FloatLane>(chain, target).run(space);
    }
}

void write_iota(double constant, const std::array<nki::Extent, nki::kMaxDims>& coefficients,
                const Space& space, const Operand& target) {
    const int inner = space.rank - 1;
    const bool integer = is_integer(target.format.value);
    const int bytes = storage_bytes(target.format.storage);
    std::array<float, kChunk> floats;
    std::array<std::int64_t, kChunk> integers;
    for_each_run(space, [&](const Extents& index, std::int64_t begin, std::int64_t end) {
        double start = constant;
        std::int64_t offset = 0;
        for (int d = 0; d < inner; ++d) {
            start += static_cast<double>(coefficients[d] * (index[d] + space.begin[d]));
            offset += target.stride[d] * index[d];
        }
        const std::int64_t stride = inner < 0 ? 0 : target.stride[inner];
        const double slope = inner < 0 ? 0.0 : static_cast<double>(coefficients[inner]);
        const std::int64_t origin = inner < 0 ? 0 : space.begin[inner];
        for (std::int64_t at = begin; at < end; at += kChunk) {
            const std::int64_t n = std::min(kChunk, end - at);
            std::byte* to = target.data + (offset + stride * at) * bytes;
            for (std::int64_t i = 0; i < n; ++i) {
                const double value = start + slope * static_cast<double>(origin + at + i);
                floats[i] = static_cast<float>(value);
                integers[i] = IntegerLane::immediate(value);
            }
            if (integer) {
                IntegerLane::write(target.format, integers.data(), to, stride, n);
            } else {
                FloatLane::write(target.format, floats.data(), to, stride, n);
            }
        }
    });
}

}  // namespace accelopt::trainium::execution
