#include "trainium/element_copy.h"

#include <cstring>

#include "core/error.h"

namespace accelopt::trainium::execution {

namespace {

/// Edge of the blocks of a transposing copy: 16 lines of 64 bytes fit the first-level cache.
constexpr std::int64_t kBlock = 16;

template <class T>
void copy_block(const T* source, std::int64_t source_i, std::int64_t source_j, T* target,
                std::int64_t target_i, std::int64_t target_j, std::int64_t rows,
                std::int64_t columns) {
    for (std::int64_t i0 = 0; i0 < rows; i0 += kBlock) {
        const std::int64_t i1 = std::min(rows, i0 + kBlock);
        for (std::int64_t j0 = 0; j0 < columns; j0 += kBlock) {
            const std::int64_t j1 = std::min(columns, j0 + kBlock);
            for (std::int64_t i = i0; i < i1; ++i) {
                const T* from = source + i * source_i + j0 * source_j;
                T* to = target + i * target_i + j0 * target_j;
                for (std::int64_t j = j0; j < j1; ++j) {
                    *to = *from;
                    from += source_j;
                    to += target_j;
                }
            }
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
