#include <fmt/format.h>

#include "nki/api.h"
#include "nki/evaluator.h"
#include "nki/failure.h"

/// Functions of nki.isa that look at a partition as a whole.
namespace accelopt::nki::interp::api {
namespace {

constexpr std::int64_t kBnStatsElements = 512;    // nl.tile_size.bn_stats_fmax
constexpr std::int64_t kSearchElements = 16'384;  // nisa.max8 and its relatives
constexpr std::int64_t kQuadrant = 32;            // nisa.nc_stream_shuffle
constexpr std::int64_t kGatherCore = 16;          // nisa.local_gather
constexpr std::int64_t kGatherIndices = 4096;

OpRequest rows_request(ApiCall& call, Opcode opcode, const Ref<Tile>& data, std::int64_t columns) {
    OpRequest request = call.request(opcode);
    request.shape = {data->shape()[0], columns};
    request.dtype = call.dtype(call.at("dtype"), data->dtype);
    request.add_source(data);
    return request;
}

void check_elements(const ApiCall& call, const Tile& data, std::int64_t low, std::int64_t high) {
    const std::int64_t n = free_count(data);
    if (n >= low && n <= high) return;
    rejected("size_of_dimension_exceed_arch_limit",
             fmt::format("{} takes {} to {} elements per partition, got {}", call.entry().name, low,
                         high, n))
        .shape(data.shape())
        .limit(n > high ? high : low)
        .raise();
}

/// The eight values per partition that two functions look for.
Ref<Tile> eight_values(ApiCall& call, const Tile& data) {
    const int k = call.at("vals");
    const Ref<Tile> values = call.tile(k);
    if (free_count(*values) != 8) call.bad_argument(k, "a tile of 8 elements per partition");
    if (values->shape()[0] != data.shape()[0])
        rejected("num_partition_mismatch", "data and vals differ in their number of partitions")
            .shape(data.shape())
            .shape(values->shape())
            .raise();
    return values;
}

}  // namespace

Value bn_stats(ApiCall& call) {
    const Ref<Tile> data = call.tile(0);
    check_elements(call, *data, 1, kBnStatsElements);
    return call.pending(rows_request(call, Opcode::kBnStats, data, 6));
}

Value bn_aggr(ApiCall& call) {
    const Ref<Tile> data = call.tile(0);
    if (free_count(*data) % 3 != 0)
        rejected("value_error", "nisa.bn_aggr takes triples: count, mean, variance * count")
            .shape(data->shape())
            .limit(3)
            .raise();
    return call.pending(rows_request(call, Opcode::kBnAggr, data, 2));
}

Value max8(ApiCall& call) {
    const Ref<Tile> data = call.tile(call.at("src"));
    check_elements(call, *data, 8, kSearchElements);
    return call.pending(rows_request(call, Opcode::kMax8, data, 8));
}

Value nc_find_index8(ApiCall& call) {
    const Ref<Tile> data = call.tile(call.at("data"));
    check_elements(call, *data, 8, kSearchElements);
    OpRequest request = rows_request(call, Opcode::kFindIndex8, data, 8);
    request.add_source(eight_values(call, *data));
    request.dtype = call.dtype(call.at("dtype"), DType::kUInt32);
    if (request.dtype != DType::kUInt32 && request.dtype != DType::kUInt16)
        call.bad_argument(call.at("dtype"), "nl.uint16 or nl.uint32");
    return call.pending(std::move(request));
}

Value nc_match_replace8(ApiCall& call) {
    const Ref<Tile> data = call.tile(call.at("data"));
    check_elements(call, *data, 1, kSearchElements);
    const Ref<Tile> values = eight_values(call, *data);
    const int into = call.at("dst_idx");
    if (call.has(into)) {
        // The positions go first: the replaced data may overwrite the data.
        const Ref<Tile> indices = call.tile(into);
        if (free_count(*indices) != 8)
            call.bad_argument(into, "a tile of 8 elements per partition");
        OpRequest positions = call.request(Opcode::kMatchIndex8);
        positions.implicit = true;
        positions.shape = indices->shape();
        positions.dtype = indices->dtype;
        positions.operand0.immediate = call.number(call.at("imm"));
        positions.add_source(data);
        positions.add_source(values);
        call.host().builder().emit(positions, indices);
    }
    OpRequest request = rows_request(call, Opcode::kMatchReplace8, data, 0);
    request.shape = data->shape();
    request.operand0.immediate = call.number(call.at("imm"));
    request.add_source(values);
    return call.pending(std::move(request));
}

Value sequence_bounds(ApiCall& call) {
    const Ref<Tile> ids = call.tile(0);
    const auto fits = [](DType dtype) {
        return dtype == DType::kFloat32 || dtype == DType::kInt32;
    };
    if (ids->shape()[0] != 1 || !fits(ids->dtype))
        call.bad_argument(0, "a [1, N] tile of float32 or int32");
    OpRequest request = call.request(Opcode::kSequenceBounds);
    request.shape = {1, 2, free_count(*ids)};
    request.dtype = call.dtype(1, ids->dtype);
    if (!fits(request.dtype)) call.bad_argument(1, "float32 or int32");
    request.add_source(ids);
    return call.pending(std::move(request));
}

Value tensor_partition_reduce(ApiCall& call) {
    const Ref<Tile> data = call.tile(1);
    OpRequest request = call.request(Opcode::kPartitionReduce);
    request.op0 = call.alu(0);
    if (request.op0 != AluOp::kAdd && request.op0 != AluOp::kMax &&
        request.op0 != AluOp::kBitwiseOr && request.op0 != AluOp::kBitwiseAnd)
        call.bad_argument(0, "add, max, bitwise_or or bitwise_and");
    if (is_bitwise(request.op0) && is_float(data->dtype))
        call.bad_argument(1, "a tile of integers");
    request.shape = data->shape();
    request.shape[0] = 1;
    request.dtype = call.dtype(call.at("dtype"), data->dtype);
    request.add_source(data);
    return call.pending(std::move(request));
}

Value nc_stream_shuffle(ApiCall& call) {
    const Ref<Tile> source = call.tile(0);
    const Ref<Tile> destination = call.tile(1);
    if (source->dtype != destination->dtype)
        rejected("type_error", fmt::format("src is {}, dst is {}", to_string(source->dtype),
                                           to_string(destination->dtype)))
            .raise();
    if (free_count(*source) != free_count(*destination))
        rejected("shape_mismatch", "src and dst differ in their elements per partition")
            .shape(source->shape())
            .shape(destination->shape())
            .raise();
    OpRequest request = call.request(Opcode::kShuffle);
    // The mask applies to dst: the whole result is made beside it, and what the mask leaves copied.
    OpRequest masked = request;
    request.mask = {};
    request.masked = false;
    const std::vector<Value> pattern = call.host().items_of(call[2]);
    if (pattern.size() != static_cast<std::size_t>(kQuadrant))
        call.bad_argument(2, "a list of 32 integers");
    auto extra = std::make_shared<Extra>();
    for (std::size_t k = 0; k < pattern.size(); ++k) {
        if (!pattern[k].is_integer()) call.bad_argument(2, "a list of 32 integers");
        const std::int64_t from = pattern[k].integer();
        if (from != 255 && (from < 0 || from >= kQuadrant))
            call.bad_argument(2, "a list of partitions between 0 and 31, or 255");
        extra->pattern[k] = static_cast<std::uint8_t>(from);
        // What a partition keeps has to be there already.
        if (from == 255) request.accumulate = true;
        // Only a source of one partition may stand for a whole quadrant of results.
        const std::int64_t quadrants =
            (std::max(source->shape()[0], destination->shape()[0]) + kQuadrant - 1) / kQuadrant;
        for (std::int64_t q = 0; q < quadrants; ++q) {
            const std::int64_t to = q * kQuadrant + static_cast<std::int64_t>(k);
            if (from == 255 || to >= destination->shape()[0]) continue;
            if (q * kQuadrant + from >= source->shape()[0])
                rejected("tensor_access_out_of_bound",
                         fmt::format("shuffle_mask[{}] reads partition {} of a source of {}", k,
                                     q * kQuadrant + from, source->shape()[0]))
                    .shape(source->shape())
                    .limit(source->shape()[0])
                    .raise();
        }
    }
    request.extra = std::move(extra);
    request.shape = destination->shape();
    request.dtype = destination->dtype;
    request.add_source(source);
    Builder& builder = call.host().builder();
    if (!masked.masked) {
        builder.emit(request, destination);
        return Value::none();
    }
    if (request.accumulate)
        unsupported("python_feature", "a masked shuffle that leaves partitions alone (255)")
            .remedy("mask those partitions, too")
            .raise();
    masked.opcode = Opcode::kCopy;
    masked.shape = request.shape;
    masked.dtype = request.dtype;
    masked.add_source(builder.emit_fresh(request, ""));
    builder.emit(masked, destination);
    return Value::none();
}

Value local_gather(ApiCall& call) {
    const Ref<Tile> data = call.tile(0);
    const Ref<Tile> index = call.tile(1);
    const std::int64_t partitions = data->shape()[0];
    if (index->dtype != DType::kUInt16) call.bad_argument(1, "a tile of uint16");
    if (partitions != index->shape()[0] || partitions % kGatherCore != 0)
        rejected("num_partition_mismatch",
                 "src_buffer and index need the same number of partitions, a multiple of 16")
            .shape(data->shape())
            .shape(index->shape())
            .limit(kGatherCore)
            .raise();
    auto extra = std::make_shared<Extra>();
    extra->elements_per_index = call.has(2) ? call.integer(2) : 1;
    bool fits = false;
    for (const std::int64_t n : {1, 2, 4, 8, 16, 32}) fits = fits || extra->elements_per_index == n;
    if (!fits) call.bad_argument(2, "1, 2, 4, 8, 16 or 32");
    const std::int64_t columns = free_count(*index);
    const std::int64_t all = columns * kGatherCore;
    extra->valid_indices = call.has(3) ? call.integer(3) : all;
    if (extra->valid_indices < 1 || extra->valid_indices > all)
        call.bad_argument(3, "a count within the indices of 16 partitions");
    if (extra->valid_indices > kGatherIndices)
        rejected("size_of_dimension_exceed_arch_limit",
                 fmt::format("{} indices per core", extra->valid_indices))
            .shape(index->shape())
            .limit(kGatherIndices)
            .raise();
    OpRequest request = call.request(Opcode::kLocalGather);
    if (request.masked)
        unsupported("unknown_api", "nisa.local_gather with a mask is not supported").raise();
    request.shape =
        extra->valid_indices == all
            ? std::vector<std::int64_t>{partitions, columns, kGatherCore, extra->elements_per_index}
            : std::vector<std::int64_t>{partitions, extra->valid_indices,
                                        extra->elements_per_index};
    request.dtype = data->dtype;
    request.extra = std::move(extra);
    request.add_source(data);
    request.add_source(index);
    return call.pending(std::move(request));
}

Value gather_flattened(ApiCall& call) {
    const Ref<Tile> data = call.tile(0);
    const Ref<Tile> index = call.tile(1);
    if (index->dtype != DType::kUInt32) call.bad_argument(1, "a tile of uint32");
    if (data->shape()[0] != index->shape()[0])
        rejected("num_partition_mismatch", "data and indices differ in their number of partitions")
            .shape(data->shape())
            .shape(index->shape())
            .raise();
    OpRequest request = call.request(Opcode::kTake);
    if (request.masked)
        unsupported("unknown_api", "nl.gather_flattened with a mask is not supported").raise();
    request.shape = index->shape();
    request.dtype = call.dtype(call.at("dtype"), data->dtype);
    request.add_source(data);
    request.add_source(index);
    return call.pending(std::move(request));
}

}  // namespace accelopt::nki::interp::api
