#include "trainium/indirect.h"

#include <cstring>
#include <vector>

#include "trainium/element_copy.h"
#include "trainium/vector_kernels.h"

namespace accelopt::trainium::execution {

using nki::Opcode;

namespace {

std::byte* at(const Operand& operand, const Extents& index, int rank) {
    std::int64_t offset = 0;
    for (int d = 0; d < rank; ++d) offset += operand.stride[d] * index[d];
    return operand.data + offset * storage_bytes(operand.format.storage);
}

/// Walks a space and finds the element of the window for every index.
class Walk {
  public:
    Walk(const Indirect& indirect, const Space& space)
        : in_(indirect), space_(space), inner_(space.rank - 1) {
        base_ = in_.extra->offset;
        for (int d = 0; d < space.rank; ++d) base_ += in_.extra->stride[d] * space.begin[d];
        for (std::size_t k = 0; k < in_.extra->dynamic.size(); ++k)
            varies_ = varies_ || in_.index[k].stride[inner_] != 0;
    }

    /// Calls body(window element, dense element, count): `count` elements, the window's stepping by
    /// window_step(), the dense one's by dense_step().
    template <class Body>
    void each(Body body) const {
        for_each_run(space_, [&](const Extents& outer, std::int64_t begin, std::int64_t end) {
            Extents index = outer;
            const std::int64_t step = varies_ ? 1 : end - begin;
            for (std::int64_t i = begin; i < end; i += step) {
                index[inner_] = i;
                std::int64_t element = base_;
                if (!locate(index, element)) continue;
                body(element, at(in_.dense, index, space_.rank), step);
            }
        });
    }
    std::int64_t window_step() const { return in_.extra->stride[inner_]; }
    std::int64_t dense_step() const { return in_.dense.stride[inner_]; }

  private:
    /// Adds everything to `element`; false when the index is skipped.
    bool locate(const Extents& index, std::int64_t& element) const {
        for (int d = 0; d < space_.rank; ++d) element += in_.extra->stride[d] * index[d];
        for (std::size_t k = 0; k < in_.extra->dynamic.size(); ++k) {
            const nki::Extra::Dynamic& axis = in_.extra->dynamic[k];
            std::int64_t value = 0;
            decode_integers(in_.index[k].format.storage, at(in_.index[k], index, space_.rank), 1,
                            &value, 1);
            const std::int64_t far = std::int64_t{1} << 40;
            bool inside = value > -far && value < far;
            if (inside) value *= axis.scale;
            inside = inside && value + axis.low >= 0 && value + axis.high < axis.size;
            if (!inside && in_.extra->skip_out_of_bounds) return false;
            if (!inside) throw IndexOutOfBounds{value, axis.size, in_.operation->line};
            element += value * axis.stride;
        }
        return true;
    }

    const Indirect& in_;
    const Space& space_;
    int inner_;
    std::int64_t base_ = 0;
    bool varies_ = false;  ///< an index changes along the innermost dim
};

/// Copies n elements between formats.
void convert(const NumberFormat& from, const std::byte* in, std::int64_t in_step,
             const NumberFormat& to, std::byte* out, std::int64_t out_step, std::int64_t n) {
    const int bytes = storage_bytes(from.storage);
    if (copies_bytes(from, to) && in_step == 1 && out_step == 1) {
        std::memmove(out, in, static_cast<std::size_t>(n * bytes));
        return;
    }
    const auto count = static_cast<std::size_t>(n);
    if (is_integer(from.value) && is_integer(to.value)) {
        std::vector<std::int64_t> values(count);
        decode_integers(from.storage, in, in_step, values.data(), count);
        encode_integers(to.storage, to.value, values.data(), out, out_step, count);
        return;
    }
    std::vector<float> values(count);
    decode(from.storage, in, in_step, values.data(), count);
    encode(to.storage, to.value, values.data(), out, out_step, count);
}

std::uint64_t mixed(std::uint64_t x) {
    x += 0x9e3779b97f4a7c15ULL;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return x ^ (x >> 31);
}

bool holds(nki::AluOp op, float a, float b) {
    float out = 0;
    binary_kernels(op).vector_vector(&a, &b, &out, 1);
    return out != 0;
}

float float_at(const Operand& operand, const Extents& index, int rank) {
    if (operand.is_immediate) return static_cast<float>(operand.immediate);
    float value = 0;
    decode(operand.format.storage, at(operand, index, rank), 1, &value, 1);
    return value;
}

}  // namespace

void run_gather(const Indirect& indirect, const Space& space, WrittenMap* written) {
    const Walk walk(indirect, space);
    const NumberFormat& from = indirect.window.format;
    const int bytes = storage_bytes(from.storage);
    Space run;
    run.rank = 1;
    walk.each([&](std::int64_t element, std::byte* dense, std::int64_t n) {
        if (written != nullptr) {
            run.count[0] = n;
            Access access;
            access.offset =
                indirect.dense_offset +
                (dense - indirect.dense.data) / storage_bytes(indirect.dense.format.storage);
            access.stride[0] = walk.dense_step();
            written->write(access, run);
        }
        convert(from, indirect.window.data + element * bytes, walk.window_step(),
                indirect.dense.format, dense, walk.dense_step(), n);
    });
}

void run_scatter(const Indirect& indirect, const Space& space, WrittenMap* written) {
    const Walk walk(indirect, space);
    const NumberFormat& to = indirect.window.format;
    const int bytes = storage_bytes(to.storage);
    const bool add = indirect.operation->op0 == nki::AluOp::kAdd;
    Space run;
    run.rank = 1;
    walk.each([&](std::int64_t element, std::byte* dense, std::int64_t n) {
        std::byte* out = indirect.window.data + element * bytes;
        if (add) {
            for (std::int64_t i = 0; i < n; ++i) {
                float a = 0;
                float b = 0;
                std::byte* place = out + i * walk.window_step() * bytes;
                const NumberFormat& from = indirect.dense.format;
                decode(to.storage, place, 1, &a, 1);
                decode(from.storage, dense + i * walk.dense_step() * storage_bytes(from.storage), 1,
                       &b, 1);
                a += b;
                encode(to.storage, to.value, &a, place, 1, 1);
            }
        } else {
            convert(indirect.dense.format, dense, walk.dense_step(), to, out, walk.window_step(),
                    n);
        }
        if (written == nullptr) return;
        run.count[0] = n;
        Access access;
        access.offset = indirect.operation->dst.offset + element;  // from the start of the tensor
        access.stride[0] = walk.window_step();
        written->write(access, run);
    });
}

float uniform_at(std::uint64_t seed, std::uint64_t draw, std::int64_t position) {
    const std::uint64_t bits =
        mixed(mixed(mixed(seed) ^ draw) ^ static_cast<std::uint64_t>(position));
    return static_cast<float>(bits >> 40) * 0x1p-24F;
}

void run_positional(const nki::Operation& operation, const nki::Extra& extra, const Space& space,
                    const std::array<Operand, 3>& sources, const Operand& threshold,
                    const Operand& target) {
    const int inner = space.rank - 1;
    const int bytes = storage_bytes(target.format.storage);
    const bool integers = operation.opcode == Opcode::kDropout &&
                          is_integer(sources[0].format.value) && is_integer(target.format.value);
    for_each_run(space, [&](const Extents& outer, std::int64_t begin, std::int64_t end) {
        Extents index = outer;
        for (std::int64_t i = begin; i < end; ++i) {
            index[inner] = i;
            auto position = static_cast<std::int64_t>(operation.operand0.immediate);
            for (int d = 0; d < space.rank; ++d)
                position += operation.iota[d] * (space.begin[d] + index[d]);
            std::byte* out = target.data;
            for (int d = 0; d < space.rank; ++d) out += target.stride[d] * index[d] * bytes;
            float value = 0;
            if (operation.opcode == Opcode::kRangeSelect) {
                const auto place = static_cast<float>(position);
                const bool inside =
                    holds(operation.op0, place, float_at(sources[1], index, space.rank)) &&
                    holds(operation.op1, place, float_at(sources[2], index, space.rank));
                value = inside ? float_at(sources[0], index, space.rank)
                               : float_at(threshold, index, space.rank);
            } else {
                value = uniform_at(extra.seed, extra.draw, position);
                if (operation.opcode == Opcode::kDropout) {
                    const bool dropped = value < float_at(threshold, index, space.rank);
                    if (integers) {
                        std::int64_t kept = 0;
                        if (!dropped)
                            decode_integers(sources[0].format.storage,
                                            at(sources[0], index, space.rank), 1, &kept, 1);
                        encode_integers(target.format.storage, target.format.value, &kept, out, 1,
                                        1);
                        continue;
                    }
                    value = dropped ? 0.0F : float_at(sources[0], index, space.rank);
                }
            }
            encode(target.format.storage, target.format.value, &value, out, 1, 1);
        }
    });
}

}  // namespace accelopt::trainium::execution
