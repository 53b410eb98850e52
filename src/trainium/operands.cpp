#include "trainium/operands.h"

#include <fmt/format.h>

#include "core/error.h"

namespace accelopt::trainium::execution {

using nki::Opcode;
using nki::Operation;
using nki::View;

namespace {

[[noreturn]] void misfit(const Operation& operation, std::string_view why) {
    throw Error(
        ErrorSource::kInternal, "shapes",
        fmt::format("{} at line {}: {}", nki::to_string(operation.opcode), operation.line, why));
}

/// The result of a reduction over the source's space: stride 0 along reduced axes, the result's
/// own strides along the others, matched in order.
Access lay_result(const Operation& operation, const Space& space) {
    const View& source = operation.src[0];
    const View& result = operation.dst;
    Access access{result.tensor, result.block, result.offset, {}};
    int from = 0;
    for (int d = 0; d < source.rank; ++d) {
        const bool reduced = ((operation.axes >> d) & 1u) != 0;
        if (reduced || source.dims[d].count == 1) continue;
        while (from < result.rank && result.dims[from].count == 1) ++from;
        if (from == result.rank || result.dims[from].count != source.dims[d].count) {
            misfit(operation, "the result does not fit the axes that are kept");
        }
        access.stride[d] = result.dims[from++].stride;
    }
    while (from < result.rank && result.dims[from].count == 1) ++from;
    if (from != result.rank) misfit(operation, "the result has more elements than are kept");
    for (int d = 0; d < space.rank; ++d) access.offset += access.stride[d] * space.begin[d];
    return access;
}

/// A list of dims that name the same row-major sequence of indices.
struct Dims {
    int rank = 0;
    std::array<nki::Dim, 2 * nki::kMaxDims> dim;

    void add(const nki::Dim& d) {
        if (d.count != 1) dim[rank++] = d;
    }
};

/// Splits the dims of both lists so that they have the same counts; false when they cannot.
bool refine(const Dims& a, const Dims& b, Dims& out_a, Dims& out_b) {
    Dims left = a;
    Dims right = b;
    Dims reversed_a;
    Dims reversed_b;
    while (left.rank > 0 && right.rank > 0) {
        nki::Dim& x = left.dim[left.rank - 1];
        nki::Dim& y = right.dim[right.rank - 1];
        const std::int64_t count = std::min(x.count, y.count);
        if (count == 0 || x.count % count != 0 || y.count % count != 0) return false;
        if (reversed_a.rank == nki::kMaxDims) return false;
        reversed_a.add({x.stride, count});
        reversed_b.add({y.stride, count});
        for (Dims* list : {&left, &right}) {
            nki::Dim& last = list->dim[list->rank - 1];
            last.stride *= count;
            last.count /= count;
            if (last.count == 1) --list->rank;
        }
    }
    if (left.rank != right.rank) return false;
    for (int d = reversed_a.rank - 1; d >= 0; --d) {
        out_a.add(reversed_a.dim[d]);
        out_b.add(reversed_b.dim[d]);
    }
    return true;
}

/// dst[F, P] = src[P, F]: both in the destination's order, free dims first.
void resolve_transpose(const Operation& operation, Resolved& resolved) {
    View turned = operation.src[0];
    for (int d = 0; d + 1 < turned.rank; ++d) turned.dims[d] = operation.src[0].dims[d + 1];
    if (turned.rank > 0) turned.dims[turned.rank - 1] = operation.src[0].dims[0];
    Dims target;
    Dims source;
    for (int d = 0; d < operation.dst.rank; ++d) target.add(operation.dst.dims[d]);
    for (int d = 0; d < turned.rank; ++d) source.add(turned.dims[d]);
    Dims fine_target;
    Dims fine_source;
    if (!refine(target, source, fine_target, fine_source)) {
        misfit(operation, "the result is not the transposed shape of the source");
    }
    View result = operation.dst;
    bool same = true;
    if (!operation.mask.empty()) {
        // Mask terms name the destination's own dims, which must then not have been split.
        same = fine_target.rank == target.rank;
    }
    if (!same) misfit(operation, "a masked transpose of more than one free dimension");
    if (operation.mask.empty()) {
        result.rank = turned.rank = fine_target.rank;
        for (int d = 0; d < fine_target.rank; ++d) {
            result.dims[d] = fine_target.dim[d];
            turned.dims[d] = fine_source.dim[d];
        }
    }
    resolved.space = masked_space(result, operation.mask);
    resolved.target = lay_over(result, result, resolved.space);
    resolved.source[0] = lay_over(turned, result, resolved.space);
}

/// dst[M, N] (+)= stationary[K, M]^T moving[K, N]. The mask is over the stationary matrix: rows
/// cut the contraction, columns cut the result's partitions.
void resolve_matmul(const Operation& operation, Resolved& resolved) {
    const View& stationary = operation.src[0];
    const View& moving = operation.src[1];
    const View& result = operation.dst;
    if (stationary.partitions() != moving.partitions() ||
        result.partitions() != stationary.free_count() ||
        result.free_count() != moving.free_count()) {
        misfit(operation, "the matrices do not fit each other");
    }
    Space& space = resolved.space;
    space = masked_space(stationary, operation.mask);
    resolved.moving_space = masked_space(moving, {});
    resolved.result_space = masked_space(result, {});
    resolved.source[0] = lay_over(stationary, stationary, space);
    if (space.rank > 0 && !space.empty) {
        resolved.moving_space.begin[0] = space.begin[0];
        resolved.moving_space.count[0] = space.count[0];
        int axes = 0;
        int axis = 0;
        bool clipped = false;
        for (int d = 1; d < stationary.rank; ++d) {
            if (stationary.dims[d].count == 1) continue;
            ++axes;
            axis = d;
            clipped = clipped || space.count[d] != stationary.dims[d].count;
        }
        if (clipped && axes > 1) misfit(operation, "a mask over one of several column dims");
        if (clipped) {
            resolved.result_space.begin[0] = space.begin[axis];
            resolved.result_space.count[0] = space.count[axis];
        }
    } else {
        resolved.moving_space.empty = resolved.result_space.empty = space.empty;
    }
    resolved.source[1] = lay_over(moving, moving, resolved.moving_space);
    resolved.target = lay_over(result, result, resolved.result_space);
}

/// Every operand over its own space. The space of a gather is that of its result, the space of a
/// scatter that of its source; the indices are laid over it.
void resolve_apart(const Operation& operation, Resolved& resolved) {
    const bool gather = operation.opcode == Opcode::kGather;
    const bool indirect = gather || operation.opcode == Opcode::kScatter;
    const View& reference = gather ? operation.dst : operation.src[0];
    resolved.space = masked_space(reference, operation.mask);
    resolved.result_space = gather ? resolved.space : masked_space(operation.dst, {});
    resolved.target = lay_over(operation.dst, operation.dst, resolved.result_space);
    for (int k = 0; k < source_count(operation); ++k) {
        const View& view = operation.src[k];
        const bool over_reference = indirect && (k > 0 || !gather);
        resolved.own[k] = over_reference ? resolved.space : masked_space(view, {});
        resolved.source[k] = lay_over(view, over_reference ? reference : view, resolved.own[k]);
    }
}

}  // namespace

int source_count(const Operation& operation) {
    switch (operation.opcode) {
        case Opcode::kMemset:
        case Opcode::kIota:
            return 0;
        case Opcode::kRandom:
            return 0;
        case Opcode::kGather:
        case Opcode::kScatter:
            return operation.sources;
        case Opcode::kTake:
        case Opcode::kLocalGather:
        case Opcode::kFindIndex8:
        case Opcode::kMatchIndex8:
        case Opcode::kMatchReplace8:
        case Opcode::kTensorTensor:
        case Opcode::kScalarTensorTensor:
        case Opcode::kScan:
        case Opcode::kMatmul:
            return 2;
        case Opcode::kSelect:
        case Opcode::kRangeSelect:
            return 3;
        case Opcode::kLoad:
        case Opcode::kStore:
        case Opcode::kDmaCopy:
        case Opcode::kCopy:
        case Opcode::kActivation:
        case Opcode::kTensorScalar:
        case Opcode::kReciprocal:
        case Opcode::kReduce:
        case Opcode::kTranspose:
        case Opcode::kPartitionBroadcast:
        case Opcode::kShuffle:
        case Opcode::kPartitionReduce:
        case Opcode::kBnStats:
        case Opcode::kBnAggr:
        case Opcode::kMax8:
        case Opcode::kSequenceBounds:
        case Opcode::kDropout:
            return 1;
    }
    throw Error(ErrorSource::kInternal, "opcode", "unknown opcode");
}

void resolve(const Operation& operation, Resolved& resolved) {
    if (operation.opcode == Opcode::kMatmul) return resolve_matmul(operation, resolved);
    if (operation.opcode == Opcode::kTranspose) return resolve_transpose(operation, resolved);
    if (nki::has_own_spaces(operation.opcode)) return resolve_apart(operation, resolved);
    const bool reduce = operation.opcode == Opcode::kReduce;
    const View& reference = reduce ? operation.src[0] : operation.dst;
    Space& space = resolved.space;
    space = masked_space(reference, operation.mask);
    resolved.target =
        reduce ? lay_result(operation, space) : lay_over(operation.dst, reference, space);
    for (int k = 0; k < source_count(operation); ++k) {
        resolved.source[k] = lay_over(operation.src[k], reference, space);
    }
    if (operation.scale.vector) resolved.scale = lay_over(operation.scale.view, reference, space);
    if (operation.bias.vector) resolved.bias = lay_over(operation.bias.view, reference, space);
    if (operation.operand0.vector) {
        resolved.operand0 = lay_over(operation.operand0.view, reference, space);
    }
    if (operation.operand1.vector) {
        resolved.operand1 = lay_over(operation.operand1.view, reference, space);
    }
}

}  // namespace accelopt::trainium::execution
