#include <fmt/format.h>

#include <algorithm>

#include "nki/accumulate.h"
#include "nki/api.h"
#include "nki/evaluator.h"
#include "nki/failure.h"
#include "nki/positions.h"

/// Functions that choose elements by a predicate.
namespace accelopt::nki::interp::api {
namespace {

/// A tile with one partition, read as all those of `like`.
Ref<Tile> on_partitions(ApiCall& call, const Ref<Tile>& tile, std::int64_t partitions) {
    std::vector<std::int64_t> shape = tile->shape();
    if (shape[0] != 1 || partitions == 1) return tile;
    shape[0] = partitions;
    Evaluator& host = call.host();
    return host.builder().settle(interp::broadcast_to(host.heap(), tile, shape),
                                 host.request_here(Opcode::kPartitionBroadcast));
}

/// A number as a [P, 1] tile.
Ref<Tile> column(ApiCall& call, double value, std::int64_t partitions, DType dtype) {
    OpRequest request = call.host().request_here(Opcode::kMemset);
    request.operand0.immediate = value;
    request.shape = {partitions, 1};
    request.dtype = dtype;
    return call.host().builder().emit_fresh(request, "");
}

/// A tile that GpSimd can read: it has no port to PSUM, so the compiler copies such a tile to SBUF
/// first (reference kernels of nki-samples mask their scores in PSUM).
Ref<Tile> out_of_psum(ApiCall& call, const Ref<Tile>& tile) {
    if (tile->buffer != Buffer::kPsum) return tile;
    OpRequest copy = call.host().request_here(Opcode::kCopy);
    copy.shape = tile->shape();
    copy.dtype = tile->dtype;
    copy.add_source(tile);
    return call.host().builder().emit_fresh(copy, "");
}

/// The shape that tiles broadcast to along the free dims.
std::vector<std::int64_t> joined(const std::vector<Ref<Tile>>& tiles) {
    std::vector<std::int64_t> shape;
    for (const Ref<Tile>& tile : tiles) {
        std::vector<std::int64_t> other = tile->shape();
        if (other.size() > shape.size()) std::swap(shape, other);
        const std::size_t shift = shape.size() - other.size();
        for (std::size_t d = 0; d < other.size(); ++d) {
            // The partition axis stays in front; the caller has made the counts equal.
            std::int64_t& n = shape[d == 0 ? 0 : d + shift];
            if (other[d] == n || other[d] == 1) continue;
            if (n != 1)
                rejected("shape_mismatch", fmt::format("the shapes {} and {} do not broadcast",
                                                       shape_text(shape), shape_text(other)))
                    .shape(shape)
                    .shape(other)
                    .raise();
            n = other[d];
        }
    }
    return shape;
}

void check_equal_shapes(const Tile& a, const Tile& b, const char* what) {
    if (a.shape()[0] == b.shape()[0] && free_count(a) == free_count(b)) return;
    rejected(a.shape()[0] == b.shape()[0] ? "shape_mismatch" : "num_partition_mismatch", what)
        .shape(a.shape())
        .shape(b.shape())
        .raise();
}

void check_not_both_in_psum(const Tile& a, const Tile& b) {
    if (a.buffer != Buffer::kPsum || b.buffer != Buffer::kPsum) return;
    rejected("unsupported_memory", "the predicate and the data cannot both be in psum")
        .shape(a.shape())
        .shape(b.shape())
        .remedy("copy one of them to SBUF")
        .raise();
}

/// dst = predicate ? on_true : on_false, with the two swapped when `reversed`.
OpRequest selection(ApiCall& call, const Ref<Tile>& predicate, Ref<Tile> on_true,
                    Ref<Tile> on_false, bool reversed) {
    OpRequest request = call.request(Opcode::kSelect);
    if (reversed) std::swap(on_true, on_false);
    request.add_source(predicate);
    request.add_source(on_true);
    request.add_source(on_false);
    return request;
}

}  // namespace

Value where(ApiCall& call) {
    std::vector<Ref<Tile>> tiles(3);
    std::int64_t partitions = 1;
    for (int k = 0; k < 3; ++k) {
        if (k > 0 && call[k].is_number()) continue;
        tiles[k] = call.tile(k);
        partitions = std::max(partitions, tiles[k]->shape()[0]);
    }
    if (!call.is_tile(1) && !call.is_tile(2)) call.bad_argument(1, "a tile");
    const auto dtype_of = [&](int k) {
        return call.is_tile(k) ? tiles[k]->dtype : scalar_dtype(call[k]);
    };
    const DType dtype = promote(dtype_of(1), dtype_of(2));
    for (int k = 0; k < 3; ++k) {
        tiles[k] = tiles[k] ? on_partitions(call, tiles[k], partitions)
                            : column(call, call.number(k), partitions, dtype_of(k));
    }
    OpRequest request = selection(call, tiles[0], tiles[1], tiles[2], false);
    request.shape = joined(tiles);
    request.dtype = call.dtype(call.at("dtype"), dtype);
    return call.pending(std::move(request));
}

Value affine_select(ApiCall& call) {
    if (!call[0].is(Kind::kMask) && !call[0].is(Kind::kBool))
        call.bad_argument(0, "a comparison of affine expressions");
    if (const DType dtype = call.tile(1)->dtype; !is_float(dtype) && size_of(dtype) > 2)
        call.bad_argument(1, "a tile of floats or of 8-bit or 16-bit integers");
    const Ref<Tile> source = out_of_psum(call, call.tile(1));
    OpRequest request = call.request(Opcode::kCopy);
    request.shape = source->shape();
    request.dtype = call.dtype(call.at("dtype"), source->dtype);
    request.prefill = call.number(2);
    request.prefill_mask = request.mask;
    request.prefill_masked = request.masked;
    if (call[0].is(Kind::kBool)) {
        request.mask.never = request.mask.never || call[0].integer() == 0;
    } else {
        const MaskExpr& predicate = call[0].as<Mask>().expr;
        if (predicate.comparisons != 1)
            rejected("unsupported_expression_in_mask", "nisa.affine_select takes one comparison")
                .remedy("use nl.where for a predicate joined by &")
                .raise();
        request.mask.terms.insert(request.mask.terms.end(), predicate.terms.begin(),
                                  predicate.terms.end());
        request.masked = true;
    }
    request.add_source(source);
    return call.pending(std::move(request));
}

Value range_select(ApiCall& call) {
    if (call.host().core_version() < 3)
        unsupported("unknown_api", "nisa.range_select needs NeuronCore-v3 (Trainium 2)")
            .limit(3)
            .remedy("use nisa.iota and nl.where")
            .raise();
    const Ref<Tile> data = call.tile(call.at("on_true_tile"));
    if (!is_float(data->dtype)) call.bad_argument(call.at("on_true_tile"), "a tile of floats");
    OpRequest request = call.request(Opcode::kRangeSelect);
    request.op0 = call.alu(call.at("comp_op0"));
    request.op1 = call.alu(call.at("comp_op1"));
    const auto compares = [](AluOp op) {
        return op >= AluOp::kEqual && op <= AluOp::kGreaterEqual && op != AluOp::kNotEqual;
    };
    if (!compares(request.op0)) call.bad_argument(call.at("comp_op0"), "a comparison");
    if (!compares(request.op1)) call.bad_argument(call.at("comp_op1"), "a comparison");
    request.shape = data->shape();
    request.dtype = call.dtype(call.at("dtype"), data->dtype);
    request.iota = positions(request.shape, true);
    const int start = call.at("range_start");
    if (call.has(start)) request.iota.constant = call.integer(start);
    const int otherwise = call.at("on_false_value");
    // The device has one value only: the smallest float32 (0xff7fffff).
    const auto smallest = -static_cast<double>(std::numeric_limits<float>::max());
    if (call.has(otherwise) && call.number(otherwise) != smallest)
        call.bad_argument(otherwise, "nl.fp32.min");
    request.operand1.immediate = smallest;
    request.add_source(data);
    for (const char* name : {"bound0", "bound1"}) {
        const Ref<Tile> bound = call.tile(call.at(name));
        if (bound->dtype != DType::kFloat32 || free_count(*bound) != 1 ||
            bound->shape()[0] != request.shape[0])
            call.bad_argument(call.at(name), "a [P, 1] tile of float32");
        request.add_source(bound);
    }
    add_accumulation(call, request, AluOp::kMax);
    return call.pending(std::move(request));
}

Value select_reduce(ApiCall& call) {
    const Ref<Tile> destination = call.tile(call.at("dst"));
    const Ref<Tile> predicate = call.tile(call.at("predicate"));
    const int given = call.at("on_true");
    const Ref<Tile> on_true = call.tile(given);
    check_equal_shapes(*on_true, *predicate, "on_true and predicate differ in shape");
    check_equal_shapes(*on_true, *destination, "on_true and dst differ in shape");
    check_not_both_in_psum(*on_true, *predicate);
    if (on_true->dtype == DType::kTFloat32 || on_true->dtype == DType::kInt32 ||
        on_true->dtype == DType::kUInt32)
        call.bad_argument(given, "a tile of any dtype but tfloat32, int32 and uint32");
    if (is_float(predicate->dtype) || size_of(predicate->dtype) > 2)
        call.bad_argument(call.at("predicate"), "a tile of 8-bit or 16-bit integers");
    const int k = call.at("on_false");
    Ref<Tile> on_false;
    if (call.is_tile(k)) {
        on_false = call.tile(k);
        if (free_count(*on_false) != 1 || on_false->shape()[0] != on_true->shape()[0])
            call.bad_argument(k, "a number or a [P, 1] tile");
    } else {
        on_false = column(call, call.number(k), on_true->shape()[0], DType::kFloat32);
    }
    OpRequest request =
        selection(call, predicate, on_true, on_false, call.flag(call.at("reverse_pred"), false));
    request.shape = on_true->shape();
    request.dtype = destination->dtype;
    add_accumulation(call, request, AluOp::kMax);
    call.host().builder().emit(request, destination);
    return Value::none();
}

Value tensor_copy_predicated(ApiCall& call) {
    const Ref<Tile> destination = call.tile(call.at("dst"));
    const Ref<Tile> predicate = call.tile(call.at("predicate"));
    const int given = call.at("src");
    if (predicate->dtype != DType::kUInt8 && predicate->dtype != DType::kUInt16 &&
        predicate->dtype != DType::kUInt32)
        call.bad_argument(call.at("predicate"), "a tile of uint8, uint16 or uint32");
    check_equal_shapes(*destination, *predicate, "dst and predicate differ in shape");
    Ref<Tile> source;
    if (call.is_tile(given)) {
        source = call.tile(given);
        check_equal_shapes(*destination, *source, "src and dst differ in shape");
        check_not_both_in_psum(*source, *predicate);
        if (source->dtype != destination->dtype)
            rejected("type_error", fmt::format("src is {}, dst is {}", to_string(source->dtype),
                                               to_string(destination->dtype)))
                .raise();
    } else {
        source = column(call, call.number(given), destination->shape()[0], destination->dtype);
    }
    OpRequest request =
        selection(call, predicate, source, destination, call.flag(call.at("reverse_pred"), false));
    request.shape = destination->shape();
    request.dtype = destination->dtype;
    call.host().builder().emit(request, destination);
    return Value::none();
}

}  // namespace accelopt::nki::interp::api
