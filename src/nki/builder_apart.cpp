#include <fmt/format.h>

#include <algorithm>

#include "nki/builder.h"
#include "nki/failure.h"

/// Operations whose operands have shapes of their own, and operands indexed at run time.
namespace accelopt::nki::interp {
namespace {

constexpr int kMaxDynamic = 2;  ///< axes of one operand indexed at run time

}  // namespace

void Builder::attach_extra(Operation& operation, const OpRequest& request) {
    if (!request.extra) return;
    operation.extra = static_cast<int>(program_.extras.size());
    charge_memory(static_cast<std::int64_t>(sizeof(Extra)));
    program_.extras.push_back(*request.extra);
}

/// The view of `count` of a tile's `of` partitions from `first` on.
View Builder::part_of(const Tile& tile, std::int64_t first, std::int64_t count, std::int64_t of) {
    IterationSpace space(tile.shape());
    if (!space.add(draft(tile))) unsupported("python_feature", "an irregular operand").raise();
    if (count != of && space.count(0) == of) space.restrict_dim(0, first, first + count);
    space.simplify();
    space.check_bounds([this](const Tile& t) { return describe(t); });
    return view_of(space.operands()[0], space);
}

void Builder::emit_rows(const OpRequest& request, const Tile& destination) {
    const Tile& data = *request.src[0];
    IterationSpace space(data.shape());
    mask_space(space, request);
    if (!space.add(draft(data))) shape_mismatch(request, destination);
    const bool across = request.opcode == Opcode::kPartitionReduce;
    if (across && !space.add(draft(destination))) shape_mismatch(request, destination);
    const std::int64_t all = space.count(0);
    if (!space.apply_mask()) return;
    if (!space.mask().empty())
        rejected("unsupported_expression_in_mask",
                 "the mask of this operation must cut a box off its operand")
            .shape(data.shape())
            .raise();
    const std::int64_t first = space.origin(0);
    const std::int64_t count = space.count(0);
    space.simplify();
    space.check_bounds([this](const Tile& tile) { return describe(tile); });
    Operation op = operation_of(request);
    op.src[0] = view_of(space.operands()[0], space);
    for (int k = 1; k < request.sources; ++k)
        op.src[k] = part_of(*request.src[k], first, count, all);
    if (across) {
        op.dst = view_of(space.operands()[1], space);
        op.dst.dims[0] = {0, 1};
    } else {
        op.dst = part_of(destination, first, count, all);
    }
    attach_extra(op, request);
    push(op, request);
}

void Builder::refuse_dynamic(const Tile& tile) const {
    rejected("indirect_indices_are_not_supported_with_nki_api",
             fmt::format("'{}' is indexed by the values of a tensor, which this function does not "
                         "support",
                         describe(tile)))
        .shape(tile.shape())
        .remedy(
            "nl.load, nl.store, nisa.dma_copy and nisa.tensor_copy_dynamic_src take such indices")
        .raise();
}

void Builder::check_dynamic(const OpRequest& request, const Tile& destination) const {
    const auto check = [&](const Tile& tile) {
        if (tile.dynamic.empty()) return;
        if (!request.allows_dynamic) {
            if (request.opcode == Opcode::kCopy && tile.buffer != Buffer::kHbm)
                rejected("copy_dynamic_indirect_indices_not_natively_supported",
                         fmt::format("a copy of '{}' at indices that only the data decide",
                                     describe(tile)))
                    .shape(tile.shape())
                    .remedy("use nisa.tensor_copy_dynamic_src")
                    .raise();
            refuse_dynamic(tile);
        }
        if (tile.dynamic.size() > kMaxDynamic)
            unsupported("python_feature", "more than two indices read from tensors")
                .limit(kMaxDynamic)
                .raise();
        for (const DynamicAxis& axis : tile.dynamic) {
            // "Only supports the indirect indexing to be on the partition or block dimension".
            if (axis.along_free || (tile.buffer == Buffer::kHbm && axis.after_partitions))
                rejected("indirect_indices_free_dim",
                         fmt::format("'{}' is indexed by a tensor along its free dimension",
                                     describe(tile)))
                    .shape(tile.shape())
                    .shape(axis.index->shape())
                    .remedy("index with one value per partition, made from nl.arange(n)[:, None]")
                    .raise();
            if (axis.index->buffer == Buffer::kHbm)
                rejected("unsupported_memory", "an index must be loaded before it is used")
                    .shape(axis.index->shape())
                    .remedy("nl.load the index tensor")
                    .raise();
        }
    };
    check(destination);
    for (int k = 0; k < request.sources; ++k) check(*request.src[k]);
}

/// The whole tile or tensor, which an operand indexed at run time may touch anywhere.
View Builder::window_of(const Tile& tile) {
    const Tensor& t = tensor(tile.tensor);
    View view;
    view.tensor = t.id;
    view.rank = 2;
    view.dims[0] = {t.partitions > 1 ? t.free_elements : 0, t.partitions};
    view.dims[1] = {1, t.free_elements};
    return view;
}

namespace {

/// Cuts the window of an HBM operand down to what its indices can reach: every position of the
/// indexed axes, and no more than the view has of the others. The operands of `space` are the
/// indexed tile and, per indexed axis, its index and the static part of its position.
void narrow_window(View& window, const IterationSpace& space, const std::vector<DynamicAxis>& axes,
                   Extra& extra) {
    const Lane& address = space.operands()[0].address;
    View narrow;
    narrow.tensor = window.tensor;
    narrow.offset = address.constant;
    const auto add = [&](std::int64_t stride, std::int64_t count) {
        if (count == 1) return true;
        if (narrow.rank == kMaxDims) return false;
        narrow.dims[narrow.rank++] = {stride, count};
        return true;
    };
    const auto position = [&](std::size_t k) -> const Lane& {
        return space.operands()[2 + 2 * k].address;
    };
    for (std::size_t k = 0; k < axes.size(); ++k) {
        narrow.offset -= axes[k].stride * position(k).constant;
        if (!add(axes[k].stride, axes[k].size)) return;
    }
    for (int d = 0; d < space.rank(); ++d) {
        std::int64_t step = address.step[d];
        for (std::size_t k = 0; k < axes.size(); ++k) step -= axes[k].stride * position(k).step[d];
        if (step != 0 && !add(step, space.count(d))) return;
    }
    if (narrow.rank == 0) narrow.dims[narrow.rank++] = {0, 1};
    window = narrow;
    extra.offset -= narrow.offset;
}

}  // namespace

/// dst = src[index] or dst[index] = src. The offset and strides of the indexed operand, without
/// what the indices add, go with the operation.
void Builder::emit_indirect(const OpRequest& request, const Tile& destination) {
    const bool gather = destination.dynamic.empty() && request.opcode != Opcode::kScatter;
    const Tile& indexed = gather ? *request.src[0] : destination;
    const Tile& dense = gather ? destination : *request.src[0];
    IterationSpace space(indexed.shape());
    mask_space(space, request);
    if (!space.add(draft(indexed))) shape_mismatch(request, destination);
    for (const DynamicAxis& axis : indexed.dynamic) {
        if (!axis.index->outside.empty()) {
            // No mask reaches the positions that the indices themselves are read from.
            const AxisBound& bound = axis.index->outside.front();
            std::int64_t high = bound.constant;
            for (int d = 0; d < axis.index->rank; ++d)
                high += std::max<std::int64_t>(0, bound.step[d] * (axis.index->dims[d].count - 1));
            raise_out_of_bound(describe(*axis.index), bound, bound.constant, high);
        }
        Draft index;
        index.tile = axis.index.get();
        index.rank = space.rank();
        index.address.constant = axis.index->base;
        Draft offset = index;
        offset.address.constant = axis.offset;
        for (int d = 0; d < space.rank(); ++d) {
            index.count[d] = offset.count[d] = space.count(d);
            index.address.step[d] = axis.index_step[d];
            offset.address.step[d] = axis.offset_step[d];
        }
        if (!space.add(std::move(index)) || !space.add(std::move(offset)))
            shape_mismatch(request, destination);
    }
    Draft other = draft(dense);
    if (other.count[0] != space.count(0)) partition_mismatch(request, destination);
    if (!space.add(std::move(other))) shape_mismatch(request, destination);
    if (!space.apply_mask()) return;
    space.simplify();
    space.check_bounds([this](const Tile& tile) { return describe(tile); });
    Operation op = operation_of(request);
    const bool dma = request.opcode == Opcode::kLoad || request.opcode == Opcode::kStore ||
                     request.opcode == Opcode::kDmaCopy || request.engine == Engine::kDma;
    op.opcode = gather ? Opcode::kGather : Opcode::kScatter;
    if (dma) op.engine = Engine::kDma;
    Extra extra;
    if (request.extra) extra = *request.extra;
    op.accumulate = gather && extra.skip_out_of_bounds;
    const Tensor& t = tensor(indexed.tensor);
    const std::int64_t block = t.buffer == Buffer::kHbm ? 0 : t.partitions * t.free_elements;
    const Draft& address = space.operands()[0];
    View window = window_of(indexed);
    extra.offset = address.address.constant;
    if (block == 0) narrow_window(window, space, indexed.dynamic, extra);
    if (block > 0) {
        window.block = extra.offset / block;
        extra.offset %= block;
    }
    if (space.rank() > kMaxDims)
        rejected("exceed_max_supported_dimension", "the access pattern has too many dimensions")
            .limit(kMaxDims)
            .raise();
    for (int d = 0; d < space.rank(); ++d) extra.stride[d] = address.address.step[d];
    std::size_t next = 1;
    op.sources = 1;
    for (const DynamicAxis& axis : indexed.dynamic) {
        const Draft& index = space.operands()[next++];
        const Draft& offset = space.operands()[next++];
        // The offset is part of the address already; here it only bounds the index.
        Extra::Dynamic made;
        made.stride = axis.stride;
        made.scale = axis.scale;
        made.size = axis.size;
        made.low = made.high = offset.address.constant;
        for (int d = 0; d < space.rank(); ++d) {
            const std::int64_t last = checked_multiply(offset.address.step[d], space.count(d) - 1);
            (last < 0 ? made.low : made.high) += last;
        }
        extra.dynamic.push_back(made);
        View view = view_of(index, space);
        for (int d = 0; d < view.rank; ++d) {
            const std::int64_t step = index.address.step[d];
            view.dims[d] = {step, step == 0 ? 1 : space.count(d)};
        }
        op.src[op.sources++] = view;
    }
    const View other_view = view_of(space.operands()[next], space);
    op.dst = gather ? other_view : window;
    op.src[0] = gather ? window : other_view;
    fill_mask(op, space);
    charge_memory(static_cast<std::int64_t>(sizeof(Extra)));
    op.extra = static_cast<int>(program_.extras.size());
    program_.extras.push_back(std::move(extra));
    OpRequest tracked = request;
    if (!gather) tracked.combines = request.op0 == AluOp::kAdd ? AluOp::kAdd : AluOp::kBypass;
    push(op, tracked);
}

void Builder::forbid_when_allocated(const std::string& code, const std::string& message,
                                    const std::string& remedy, const OpRequest& here) {
    Finding finding;
    finding.outcome = "rejected";
    finding.code = code;
    finding.message = message;
    finding.remedy = remedy;
    finding.line = here.line;
    finding.column = here.column;
    finding.operation = program_.api_names[here.api];
    forbid_when_allocated(std::move(finding));
}

void Builder::forbid_when_allocated(Finding finding) {
    if (ignore_allocations_) return;
    if (allocated_) throw TraceFailure{std::move(finding)};
    if (!forbidden_) forbidden_ = std::move(finding);
}

/// Tiles that the compiler places collide with those that the kernel places (direct allocation
/// guide, common error 1).
void Builder::refuse_mixed_allocation(const Tensor& automatic) {
    if (ignore_allocations_ || (forbidden_ && !allocated_)) return;
    Finding finding;
    finding.outcome = "rejected";
    finding.code = "mixed_allocation";
    finding.message = fmt::format(
        "a kernel that allocates tiles directly must allocate all of them: {} is left to the "
        "compiler",
        automatic.name.empty() ? "a tile" : "'" + automatic.name + "'");
    finding.shapes.push_back(automatic.shape);
    finding.remedy =
        "assign results to tiles made with ncc.sbuf.alloc or ncc.sbuf.mod_alloc "
        "(tile[...] = nl.load(...)), or use buffer=nl.sbuf everywhere";
    finding.line = automatic.line;
    forbid_when_allocated(std::move(finding));
}

}  // namespace accelopt::nki::interp
