#include "trainium/element_copy.h"

#include <cstring>
#include <type_traits>

#include "core/error.h"

namespace accelopt::trainium::execution {

namespace {

/// Edge of the blocks of a transposing copy: 16 lines of 64 bytes fit the first-level cache.
constexpr std::int64_t kBlock = 16;

/// Four elements of four bytes: vectors of every processor the compiler knows.
typedef std::uint32_t Quad __attribute__((vector_size(16)));

Quad load_quad(const std::uint32_t* from) {
    Quad value;
    std::memcpy(&value, from, sizeof(value));
    return value;
}

/// Turns 4 x 4 elements: rows of the source, `source_i` apart, become columns of the target, whose
/// rows are `target_j` apart.
void turn_quads(const std::uint32_t* source, std::int64_t source_i, std::uint32_t* target,
                std::int64_t target_j) {
    const Quad a = load_quad(source);
    const Quad b = load_quad(source + source_i);
    const Quad c = load_quad(source + 2 * source_i);
    const Quad d = load_quad(source + 3 * source_i);
    const Quad ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
    const Quad ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    const Quad cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5);
    const Quad cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    const Quad turned[4] = {__builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5),
                            __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7),
                            __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5),
                            __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7)};
    for (int k = 0; k < 4; ++k) std::memcpy(target + k * target_j, &turned[k], sizeof(Quad));
}

/// Copies rows x columns elements, block by block; `i` counts rows, `j` columns.
template <class T>
void copy_block(const T* source, std::int64_t source_i, std::int64_t source_j, T* target,
                std::int64_t target_i, std::int64_t target_j, std::int64_t rows,
                std::int64_t columns) {
    const auto plain = [&](std::int64_t i0, std::int64_t i1, std::int64_t j0, std::int64_t j1) {
        for (std::int64_t i = i0; i < i1; ++i) {
            const T* from = source + i * source_i + j0 * source_j;
            T* to = target + i * target_i + j0 * target_j;
            for (std::int64_t j = j0; j < j1; ++j) {
                *to = *from;
                from += source_j;
                to += target_j;
            }
        }
    };
    for (std::int64_t i0 = 0; i0 < rows; i0 += kBlock) {
        const std::int64_t i1 = std::min(rows, i0 + kBlock);
        for (std::int64_t j0 = 0; j0 < columns; j0 += kBlock) {
            const std::int64_t j1 = std::min(columns, j0 + kBlock);
            if constexpr (std::is_same_v<T, std::uint32_t>) {
                // Rows are contiguous in the source, columns in the target, or the reverse.
                const bool by_rows = source_j == 1 && target_i == 1;
                const bool by_columns = source_i == 1 && target_j == 1;
                if (by_rows || by_columns) {
                    const std::int64_t i4 = i0 + (i1 - i0) / 4 * 4;
                    const std::int64_t j4 = j0 + (j1 - j0) / 4 * 4;
                    for (std::int64_t i = i0; i < i4; i += 4) {
                        for (std::int64_t j = j0; j < j4; j += 4) {
                            const T* from = source + i * source_i + j * source_j;
                            T* to = target + i * target_i + j * target_j;
                            by_rows ? turn_quads(from, source_i, to, target_j)
                                    : turn_quads(from, source_j, to, target_i);
                        }
                    }
                    plain(i4, i1, j0, j1);
                    plain(i0, i4, j4, j1);
                    continue;
                }
            }
            plain(i0, i1, j0, j1);
        }
    }
}

template <class T>
void copy_typed(int rank, const Extents& count, const Operand& source, const Operand& target) {
    const T* from = reinterpret_cast<const T*>(source.data);
    T* to = reinterpret_cast<T*>(target.data);
    if (rank == 0) {
        *to = *from;
        return;
    }
    // The two dims that are contiguous on either side; everything else is stepped over.
    int target_unit = rank - 1;
    int source_unit = rank - 1;
    for (int d = rank - 1; d >= 0; --d) {
        if (target.stride[d] == 1) target_unit = d;
        if (source.stride[d] == 1) source_unit = d;
    }
    const bool contiguous = target.stride[target_unit] == 1 && source.stride[target_unit] == 1;
    const bool transposing = !contiguous && target_unit != source_unit;
    Extents outer_count = count;
    outer_count[target_unit] = 1;
    if (transposing) outer_count[source_unit] = 1;
    const std::int64_t length = count[target_unit];
    Extents index{};
    do {
        std::int64_t from_offset = 0;
        std::int64_t to_offset = 0;
        for (int d = 0; d < rank; ++d) {
            from_offset += source.stride[d] * index[d];
            to_offset += target.stride[d] * index[d];
        }
        const T* from_run = from + from_offset;
        T* to_run = to + to_offset;
        if (transposing) {
            copy_block(from_run, source.stride[source_unit], source.stride[target_unit], to_run,
                       target.stride[source_unit], target.stride[target_unit], count[source_unit],
                       length);
        } else if (contiguous) {
            // Equal views (a copy onto itself) are allowed.
            std::memmove(to_run, from_run, static_cast<std::size_t>(length) * sizeof(T));
        } else {
            const std::int64_t from_stride = source.stride[target_unit];
            const std::int64_t to_stride = target.stride[target_unit];
            for (std::int64_t i = 0; i < length; ++i) {
                to_run[i * to_stride] = from_run[i * from_stride];
            }
        }
    } while (advance(index, outer_count, rank));
}

}  // namespace

bool copies_bytes(const NumberFormat& source, const NumberFormat& target) {
    if (source.storage != target.storage) return false;
    return source.value == target.value || target.value == nki::DType::kFloat32;
}

void copy_bytes(int rank, const Extents& count, const Operand& source, const Operand& target) {
    switch (storage_bytes(target.format.storage)) {
        case 1:
            return copy_typed<std::uint8_t>(rank, count, source, target);
        case 2:
            return copy_typed<std::uint16_t>(rank, count, source, target);
        case 4:
            return copy_typed<std::uint32_t>(rank, count, source, target);
        default:
            throw Error(ErrorSource::kInternal, "dtype", "unknown element size");
    }
}

}  // namespace accelopt::trainium::execution
