#include "trainium/row_operations.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <vector>

#include "core/error.h"
#include "trainium/integer_kernels.h"
#include "trainium/vector_kernels.h"

namespace accelopt::trainium::execution {

using nki::DType;
using nki::Opcode;

namespace {

constexpr std::int64_t kQuadrant = 32;    ///< partitions that a shuffle works within
constexpr std::int64_t kGatherCore = 16;  ///< partitions that share the indices of a local gather

const float* floats(const Rows& rows, std::int64_t row) {
    return reinterpret_cast<const float*>(rows.data) + row * rows.columns;
}
float* floats_of(const Rows& rows, std::int64_t row) {
    return reinterpret_cast<float*>(rows.data) + row * rows.columns;
}

std::vector<std::int64_t> integers(const Rows& rows, std::int64_t row) {
    std::vector<std::int64_t> values(static_cast<std::size_t>(rows.columns));
    decode_integers(rows.format.storage,
                    rows.data + row * rows.columns * storage_bytes(rows.format.storage), 1,
                    values.data(), values.size());
    return values;
}

/// Copies element `from` of a row of `source` to element `to` of the same row of `result`; leaves
/// zero where the index is outside, which the documentation leaves undefined.
void move_element(const Rows& source, std::int64_t from, const Rows& result, std::int64_t row,
                  std::int64_t to) {
    const int bytes = storage_bytes(result.format.storage);
    std::byte* out = result.data + (row * result.columns + to) * bytes;
    if (from < 0 || from >= source.columns) {
        std::memset(out, 0, static_cast<std::size_t>(bytes));
    } else {
        std::memcpy(out, source.data + (row * source.columns + from) * bytes,
                    static_cast<std::size_t>(bytes));
    }
}

void take(std::span<const Rows> sources, const Rows& result) {
    for (std::int64_t row = 0; row < result.rows; ++row) {
        const std::vector<std::int64_t> index = integers(sources[1], row);
        for (std::int64_t k = 0; k < result.columns; ++k)
            move_element(sources[0], index[static_cast<std::size_t>(k)], result, row, k);
    }
}

/// nisa.local_gather: the indices of 16 partitions, partition by partition first, serve them all.
void local_gather(const nki::Extra& extra, std::span<const Rows> sources, const Rows& result) {
    const std::int64_t elements = extra.elements_per_index;
    for (std::int64_t core = 0; core < result.rows; core += kGatherCore) {
        std::vector<std::vector<std::int64_t>> index;
        for (std::int64_t p = 0; p < kGatherCore; ++p)
            index.push_back(integers(sources[1], core + p));
        for (std::int64_t k = 0; k < extra.valid_indices; ++k) {
            const std::int64_t from = index[static_cast<std::size_t>(k % kGatherCore)]
                                           [static_cast<std::size_t>(k / kGatherCore)];
            for (std::int64_t p = core; p < core + kGatherCore; ++p)
                for (std::int64_t e = 0; e < elements; ++e)
                    move_element(sources[0], from + e, result, p, k * elements + e);
        }
    }
}

/// The result holds what was there before, for the partitions that the pattern leaves alone.
void shuffle(const nki::Extra& extra, std::span<const Rows> sources, const Rows& result) {
    const Rows& source = sources[0];
    const auto bytes =
        static_cast<std::size_t>(result.columns * storage_bytes(result.format.storage));
    for (std::int64_t p = 0; p < result.rows; ++p) {
        const std::uint8_t from = extra.pattern[static_cast<std::size_t>(p % kQuadrant)];
        if (from >= kQuadrant) continue;
        const std::int64_t row = p / kQuadrant * kQuadrant + from;
        if (row >= source.rows) continue;
        std::memcpy(result.data + p * static_cast<std::int64_t>(bytes),
                    source.data + row * static_cast<std::int64_t>(bytes), bytes);
    }
}

void partition_reduce(const nki::Operation& operation, const Rows& source, const Rows& result) {
    if (is_bitwise(operation.op0)) {
        std::vector<std::int64_t> total = integers(source, 0);
        for (std::int64_t p = 1; p < source.rows; ++p) {
            const std::vector<std::int64_t> row = integers(source, p);
            integer_binary(operation.op0, total.data(), false, row.data(), false, total.data(),
                           source.columns);
        }
        encode_integers(result.format.storage, result.format.value, total.data(), result.data, 1,
                        total.size());
        return;
    }
    std::vector<float> total(static_cast<std::size_t>(source.columns));
    std::vector<float> row(total.size());
    const auto read = [&](std::int64_t p, std::vector<float>& out) {
        decode(source.format.storage,
               source.data + p * source.columns * storage_bytes(source.format.storage), 1,
               out.data(), out.size());
    };
    read(0, total);
    for (std::int64_t p = 1; p < source.rows; ++p) {
        read(p, row);
        binary_kernels(operation.op0)
            .vector_vector(total.data(), row.data(), total.data(), total.size());
    }
    encode(result.format.storage, result.format.value, total.data(), result.data, 1, total.size());
}

void bn_stats(const Rows& source, const Rows& result) {
    for (std::int64_t row = 0; row < source.rows; ++row) {
        const float* in = floats(source, row);
        float* out = floats_of(result, row);
        for (int parity = 0; parity < 2; ++parity) {
            double sum = 0;
            std::int64_t count = 0;
            for (std::int64_t k = parity; k < source.columns; k += 2, ++count) sum += in[k];
            const double mean = count > 0 ? sum / static_cast<double>(count) : 0.0;
            double squares = 0;
            for (std::int64_t k = parity; k < source.columns; k += 2)
                squares += (in[k] - mean) * (in[k] - mean);
            *out++ = static_cast<float>(count);
            *out++ = static_cast<float>(mean);
            *out++ = static_cast<float>(squares);
        }
    }
}

void bn_aggr(const Rows& source, const Rows& result) {
    for (std::int64_t row = 0; row < source.rows; ++row) {
        const float* in = floats(source, row);
        double count = 0;
        double sum = 0;
        for (std::int64_t k = 0; k + 2 < source.columns; k += 3) {
            count += in[k];
            sum += static_cast<double>(in[k]) * in[k + 1];
        }
        const double mean = sum / count;
        double squares = 0;
        for (std::int64_t k = 0; k + 2 < source.columns; k += 3)
            squares +=
                in[k + 2] + static_cast<double>(in[k]) * (in[k + 1] - mean) * (in[k + 1] - mean);
        floats_of(result, row)[0] = static_cast<float>(mean);
        floats_of(result, row)[1] = static_cast<float>(squares / count);
    }
}

void max8(const Rows& source, const Rows& result) {
    std::vector<float> row;
    for (std::int64_t p = 0; p < source.rows; ++p) {
        row.assign(floats(source, p), floats(source, p) + source.columns);
        const auto n = std::min<std::int64_t>(8, source.columns);
        std::partial_sort(row.begin(), row.begin() + n, row.end(), std::greater<>());
        std::copy_n(row.begin(), n, floats_of(result, p));
    }
}

/// Positions of the eight values in a row of data; a value that is not there gets 0. With a
/// replacement every match is replaced by it before the next value is looked for.
void find_index8(std::span<const Rows> sources, const float* replacement, const Rows& result) {
    std::vector<float> row;
    for (std::int64_t p = 0; p < sources[0].rows; ++p) {
        const float* in = floats(sources[0], p);
        row.assign(in, in + sources[0].columns);
        const float* values = floats(sources[1], p);
        float* out = floats_of(result, p);
        for (std::int64_t v = 0; v < sources[1].columns; ++v) {
            const auto found = std::find(row.begin(), row.end(), values[v]);
            out[v] = found == row.end() ? 0.0F : static_cast<float>(found - row.begin());
            if (found != row.end() && replacement != nullptr) *found = *replacement;
        }
    }
}

void match_replace8(std::span<const Rows> sources, float replacement, const Rows& result) {
    const Rows& data = sources[0];
    for (std::int64_t p = 0; p < data.rows; ++p) {
        float* out = floats_of(result, p);
        std::copy_n(floats(data, p), data.columns, out);
        const float* values = floats(sources[1], p);
        for (std::int64_t v = 0; v < sources[1].columns; ++v) {
            float* const end = out + data.columns;
            float* const found = std::find(out, end, values[v]);
            if (found != end) *found = replacement;
        }
    }
}

/// nisa.sequence_bounds: the first row gets where the segment of an element starts, the second one
/// where it ends; elements of segment 0 get n and -1.
void sequence_bounds(const Rows& source, const Rows& result) {
    const std::int64_t n = source.columns;
    const float* ids = floats(source, 0);
    float* starts = floats_of(result, 0);
    float* ends = starts + n;
    for (std::int64_t k = 0; k < n; ++k) {
        const bool same = k > 0 && ids[k] == ids[k - 1];
        starts[k] = ids[k] == 0 ? static_cast<float>(n)
                    : same      ? starts[k - 1]
                                : static_cast<float>(k);
    }
    for (std::int64_t k = n - 1; k >= 0; --k) {
        const bool same = k + 1 < n && ids[k] == ids[k + 1];
        ends[k] = ids[k] == 0 ? -1.0F : same ? ends[k + 1] : static_cast<float>(k + 1);
    }
}

}  // namespace

bool moves_elements(const nki::Operation& operation) {
    return operation.opcode == Opcode::kTake || operation.opcode == Opcode::kLocalGather ||
           operation.opcode == Opcode::kShuffle ||
           (operation.opcode == Opcode::kPartitionReduce && is_bitwise(operation.op0));
}

void run_rows(const nki::Operation& operation, const nki::Extra& extra,
              std::span<const Rows> sources, const Rows& result) {
    switch (operation.opcode) {
        case Opcode::kTake:
            return take(sources, result);
        case Opcode::kLocalGather:
            return local_gather(extra, sources, result);
        case Opcode::kShuffle:
            return shuffle(extra, sources, result);
        case Opcode::kPartitionReduce:
            return partition_reduce(operation, sources[0], result);
        case Opcode::kBnStats:
            return bn_stats(sources[0], result);
        case Opcode::kBnAggr:
            return bn_aggr(sources[0], result);
        case Opcode::kMax8:
            return max8(sources[0], result);
        case Opcode::kFindIndex8:
            return find_index8(sources, nullptr, result);
        case Opcode::kMatchIndex8: {
            const auto replacement = static_cast<float>(operation.operand0.immediate);
            return find_index8(sources, &replacement, result);
        }
        case Opcode::kMatchReplace8:
            return match_replace8(sources, static_cast<float>(operation.operand0.immediate),
                                  result);
        case Opcode::kSequenceBounds:
            return sequence_bounds(sources[0], result);
        default:
            throw Error(ErrorSource::kInternal, "opcode", "not an operation on rows");
    }
}

}  // namespace accelopt::trainium::execution
