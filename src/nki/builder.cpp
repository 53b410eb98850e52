#include "nki/builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "nki/failure.h"

namespace accelopt::nki::interp {
namespace {

bool is_dma(Opcode opcode) {
    return opcode == Opcode::kLoad || opcode == Opcode::kStore || opcode == Opcode::kDmaCopy;
}

}  // namespace

namespace {

/// Adds to a finding which operation it is about: its own call, not the statement that consumes it.
[[noreturn]] void raise_about(TraceFailure& failure, const OpRequest& request,
                              const std::string& name) {
    if (failure.finding.line == 0) {
        failure.finding.line = request.line;
        failure.finding.column = request.column;
    }
    if (failure.finding.operation.empty() && name != "operator") failure.finding.operation = name;
    throw;
}

}  // namespace

void Builder::emit(const OpRequest& request, const Ref<Tile>& destination) {
    try {
        run(request, destination);
    } catch (TraceFailure& failure) {
        raise_about(failure, request, program_.api_names[request.api]);
    }
}

void Builder::run(const OpRequest& request, const Ref<Tile>& destination) {
    check_scope(*destination);
    for (int k = 0; k < request.sources; ++k) check_scope(*request.src[k]);
    for (const ScalarRequest* scalar :
         {&request.scale, &request.bias, &request.operand0, &request.operand1})
        if (scalar->tile) check_scope(*scalar->tile);
    check_output(*destination);
    check_dynamic(request, *destination);
    check_memories(request, *destination);
    if (request.prefill && request.src[0]->tensor == destination->tensor) {
        // The fill must not destroy what is to be read.
        OpRequest copy;
        copy.api = request.api;
        copy.site = request.site;
        copy.line = request.line;
        copy.column = request.column;
        copy.shape = request.src[0]->shape();
        copy.dtype = request.src[0]->dtype;
        copy.add_source(request.src[0]);
        OpRequest moved = request;
        moved.src[0] = emit_fresh(copy, "");
        return run(moved, destination);
    }
    if (request.prefill) {
        OpRequest memset;
        memset.opcode = Opcode::kMemset;
        memset.engine = request.engine;
        memset.implicit = true;
        memset.api = request.api;
        memset.line = request.line;
        memset.column = request.column;
        memset.operand0.immediate = *request.prefill;
        memset.shape = request.shape;
        memset.dtype = request.dtype;
        memset.mask = request.prefill_mask;
        memset.masked = request.prefill_masked;
        if (!memset.mask.never) emit_elementwise(memset, *destination);
        states_[destination->tensor].written = true;
    }
    if (request.mask.never) return;
    switch (request.opcode) {
        case Opcode::kMatmul:
            emit_matmul(request, *destination);
            break;
        case Opcode::kTranspose:
            emit_transpose(request, *destination);
            break;
        case Opcode::kReduce:
            emit_reduce(request, *destination);
            break;
        case Opcode::kPartitionBroadcast:
            emit_broadcast(request, *destination);
            break;
        default:
            if (!destination->dynamic.empty() || request.opcode == Opcode::kScatter ||
                (request.sources > 0 && !request.src[0]->dynamic.empty())) {
                emit_indirect(request, *destination);
            } else if (has_own_spaces(request.opcode)) {
                emit_rows(request, *destination);
            } else {
                emit_elementwise(request, *destination);
            }
            break;
    }
    states_[destination->tensor].written = true;
    states_[destination->tensor].identity = loads_identity(request, *destination);
    ++states_[destination->tensor].writes;
    accumulate(request, destination);
}

/// True when `request` fills the whole of an unblocked tile with an identity matrix.
bool Builder::loads_identity(const OpRequest& request, const Tile& destination) const {
    if (request.opcode != Opcode::kLoad || request.masked) return false;
    const Tensor& from = program_.tensors[request.src[0]->tensor];
    const Tensor& to = program_.tensors[destination.tensor];
    if (from.role != TensorRole::kConstant || from.shape.size() != 2 || to.blocks != 1)
        return false;
    const std::int64_t n = from.shape[0];
    if (from.shape[1] != n || to.partitions != n || to.free_elements != n) return false;
    if (request.src[0]->base != 0 || destination.base != 0) return false;
    const std::vector<std::int64_t> square{n, n};
    if (request.src[0]->shape() != square || destination.shape() != square) return false;
    for (std::int64_t k = 0; k < n * n; ++k)
        if (from.constant_data[static_cast<std::size_t>(k)] != (k % (n + 1) == 0 ? 1.0F : 0.0F))
            return false;
    return true;
}

bool Builder::is_identity(const Tile& tile) const {
    if (!states_[tile.tensor].identity || tile.rank != 2) return false;
    const std::int64_t n = program_.tensors[tile.tensor].free_elements;
    return tile.dims[0].count == tile.dims[1].count && tile.dims[0].stride == n &&
           tile.dims[1].stride == 1 && tile.base % (n + 1) == 0;
}

Ref<Tile> Builder::emit_fresh(const OpRequest& request, const std::string& name) {
    TensorSpec spec;
    spec.shape = request.shape;
    if (spec.shape.size() == 1) spec.shape.resize(2, 1);
    spec.dtype = request.dtype;
    spec.buffer = request.buffer;
    spec.name = name;
    spec.site = request.site;
    spec.line = request.line;
    spec.context = request.outer_context;
    try {
        const Ref<Tile> tile = whole(allocate(std::move(spec)));
        states_[tile->tensor].floating = request.opcode == Opcode::kTranspose;
        run(request, tile);
        return tile;
    } catch (TraceFailure& failure) {
        raise_about(failure, request, program_.api_names[request.api]);
    }
}

void Builder::copy(const Ref<Tile>& source, const Ref<Tile>& destination, const OpRequest& like) {
    OpRequest request;
    request.api = like.api;
    request.site = like.site;
    request.line = like.line;
    request.column = like.column;
    request.implicit = like.implicit;
    request.mask = like.mask;
    request.masked = like.masked;
    request.shape = destination->shape();
    request.dtype = destination->dtype;
    const bool broadcast = source->broadcast_partitions > 0 && !has_expansion(*source);
    request.opcode = broadcast ? Opcode::kPartitionBroadcast : Opcode::kCopy;
    request.add_source(broadcast || source->broadcast_partitions == 0 ? source : source->expanded);
    emit(request, destination);
}

Ref<Tile> Builder::settle(const Ref<Tile>& tile, const OpRequest& like) {
    if (tile->broadcast_partitions == 0) return tile;
    if (!has_expansion(*tile)) {
        OpRequest request;
        request.opcode = Opcode::kPartitionBroadcast;
        request.api = like.api;
        request.site = like.site;
        request.line = like.line;
        request.column = like.column;
        request.shape = tile->shape();
        request.dtype = tile->dtype;
        request.add_source(tile);
        tile->expanded = emit_fresh(request, describe(*tile));
    }
    return tile->expanded;
}

Draft Builder::draft(const Tile& tile) const {
    return make_draft(tile, program_.tensors[tile.tensor].free_elements, describe(tile));
}

Operation Builder::operation_of(const OpRequest& request) const {
    Operation op;
    op.opcode = request.opcode;
    op.engine = request.engine;
    op.function = request.function;
    op.op0 = request.op0;
    op.op1 = request.op1;
    op.reverse0 = request.reverse0;
    op.reverse1 = request.reverse1;
    op.accumulate = request.accumulate;
    op.negate = request.negate;
    op.stationary_onezero = request.stationary_onezero;
    op.moving_onezero = request.moving_onezero;
    op.implicit = request.implicit;
    op.sources = request.sources;
    op.line = request.line;
    op.column = request.column;
    op.api = request.api;
    op.scale.immediate = request.scale.immediate;
    op.bias.immediate = request.bias.immediate;
    op.operand0.immediate = request.operand0.immediate;
    op.operand1.immediate = request.operand1.immediate;
    return op;
}

void Builder::shape_mismatch(const OpRequest& request, const Tile& destination) const {
    Fault fault = rejected("store_dst_shape_smaller_than_other_shape",
                           fmt::format("operand shapes do not fit the result shape {}",
                                       shape_text(destination.shape())));
    fault.shape(destination.shape());
    for (int k = 0; k < request.sources; ++k) fault.shape(request.src[k]->shape());
    fault.raise();
}

void Builder::partition_mismatch(const OpRequest& request, const Tile& destination) const {
    Fault fault =
        rejected("num_partition_mismatch", "the operands differ in their number of partitions");
    fault.shape(destination.shape());
    for (int k = 0; k < request.sources; ++k) fault.shape(request.src[k]->shape());
    fault.remedy("give all operands the same first dimension; broadcast_to repeats one partition")
        .raise();
}

void Builder::mask_space(IterationSpace& space, const OpRequest& request) const {
    if (request.masked && !space.add_mask(request.mask))
        rejected("unsupported_expression_in_mask",
                 "the mask does not fit the shape of the operation")
            .shape(request.shape)
            .remedy("build the mask from the index expressions of the operand")
            .raise();
}

void Builder::emit_elementwise(const OpRequest& request, const Tile& destination) {
    IterationSpace space(request.shape);
    mask_space(space, request);
    const bool positional =
        request.opcode == Opcode::kIota || request.opcode >= Opcode::kRangeSelect;
    if (positional) space.set_iota(request.iota);
    Operation op = operation_of(request);
    const auto add = [&](const Tile& tile) {
        Draft operand = draft(tile);
        if (operand.count[0] != space.count(0)) partition_mismatch(request, destination);
        if (!space.add(std::move(operand))) shape_mismatch(request, destination);
    };
    add(destination);
    for (int k = 0; k < request.sources; ++k) add(*request.src[k]);
    ScalarOperand* const scalars[] = {&op.scale, &op.bias, &op.operand0, &op.operand1};
    const ScalarRequest* const requested[] = {&request.scale, &request.bias, &request.operand0,
                                              &request.operand1};
    for (int k = 0; k < 4; ++k) {
        if (!requested[k]->tile) continue;
        scalars[k]->vector = true;
        Draft operand = draft(*requested[k]->tile);
        if (operand.count[0] != space.count(0)) partition_mismatch(request, destination);
        if (!space.add_vector(std::move(operand)))
            rejected("value_error", "a scalar operand has more than one element per partition")
                .shape(requested[k]->tile->shape())
                .remedy("pass a number or a [P, 1] tile")
                .raise();
    }
    if (!space.apply_mask()) return;
    space.simplify();
    space.check_bounds([this](const Tile& tile) { return describe(tile); });
    std::size_t next = 0;
    op.dst = view_of(space.operands()[next++], space);
    for (int k = 0; k < request.sources; ++k) op.src[k] = view_of(space.operands()[next++], space);
    for (ScalarOperand* scalar : scalars)
        if (scalar->vector) scalar->view = view_of(space.operands()[next++], space);
    if (positional) {
        op.operand0.immediate = static_cast<double>(space.iota().constant);
        for (int d = 0; d < space.rank(); ++d) {
            if (!Extent::fits(space.iota().step[d]))
                exhausted("memory", "a step of the pattern does not fit 32 bits")
                    .limit(std::numeric_limits<std::int32_t>::max())
                    .raise();
            op.iota[d] = space.iota().step[d];
        }
    }
    fill_mask(op, space);
    attach_extra(op, request);
    push(op, request);
}

void Builder::emit_reduce(const OpRequest& request, const Tile& destination) {
    const Tile& source = *request.src[0];
    IterationSpace space(source.shape());
    mask_space(space, request);
    Draft from = draft(source);
    Draft to = draft(destination);
    if (from.count[0] != to.count[0]) partition_mismatch(request, destination);
    if (!space.add_reduced(std::move(to), request.axes)) shape_mismatch(request, destination);
    if (!space.add(std::move(from))) shape_mismatch(request, destination);
    if (!space.apply_mask()) return;
    space.simplify();
    space.check_bounds([this](const Tile& tile) { return describe(tile); });
    Operation op = operation_of(request);
    op.dst = view_of(space.operands()[0], space);
    op.src[0] = view_of(space.operands()[1], space);
    op.axes = 0;
    for (int d = 1; d < space.rank(); ++d) {
        if (!space.reduced(d)) continue;
        op.axes |= static_cast<std::uint8_t>(1U << d);
        op.dst.dims[d] = {1, 1};
    }
    fill_mask(op, space);
    push(op, request);
}

void Builder::emit_broadcast(const OpRequest& request, const Tile& destination) {
    IterationSpace space(request.shape);
    Draft to = draft(destination);
    Draft from = draft(*request.src[0]);
    if (to.count[0] != space.count(0) || from.count[0] != 1)
        partition_mismatch(request, destination);
    if (!space.add(std::move(to)) || !space.add(std::move(from)))
        shape_mismatch(request, destination);
    space.simplify();
    space.check_bounds([this](const Tile& tile) { return describe(tile); });
    Operation op = operation_of(request);
    op.dst = view_of(space.operands()[0], space);
    op.src[0] = view_of(space.operands()[1], space);
    op.src[0].dims[0] = {0, 1};
    push(op, request);
}

View Builder::view_of(const Draft& draft, const IterationSpace& space) {
    const Tensor& t = tensor(draft.tile->tensor);
    View view;
    view.tensor = t.id;
    view.offset = draft.address.constant;
    if (t.buffer != Buffer::kHbm) {
        const std::int64_t block = t.partitions * t.free_elements;
        view.block = view.offset / block;
        view.offset %= block;
        if (view.offset < 0 || view.block >= t.blocks)
            unsupported("python_feature", "an on-chip view that starts outside its tile").raise();
    }
    view.rank = draft.vector ? 2 : space.rank();
    if (view.rank > kMaxDims)
        rejected("exceed_max_supported_dimension", "the access pattern has too many dimensions")
            .shape(draft.tile->shape())
            .limit(kMaxDims)
            .raise();
    for (int d = 0; d < view.rank; ++d) {
        // A dimension of one element has no stride; 1 keeps equal views equal.
        const std::int64_t stride = d > 0 && space.count(d) == 1 ? 1 : draft.address.step[d];
        if (!Extent::fits(stride) || !Extent::fits(space.count(d)))
            exhausted("memory", "a dimension of an access pattern does not fit 32 bits")
                .shape(draft.tile->shape())
                .limit(std::numeric_limits<std::int32_t>::max())
                .remedy("use smaller tensors")
                .raise();
        view.dims[d] = {stride, space.count(d)};
    }
    if (draft.vector) view.dims[1] = {1, 1};
    if (t.buffer != Buffer::kHbm)
        view.dims[0].stride = view.dims[0].count > 1 ? t.free_elements : 0;
    return view;
}

void Builder::fill_mask(Operation& operation, const IterationSpace& space) {
    for (const Lane& lane : space.mask()) {
        MaskTerm term;
        term.constant = lane.constant;
        for (int d = 0; d < space.rank(); ++d) term.coefficients[d] = lane.step[d];
        operation.mask.push_back(term);
    }
}

void Builder::charge_elements(const Operation& operation) {
    const auto elements = [](const View& view) {
        double n = 1;  // a product of six counts does not fit 64 bits
        for (int d = 0; d < view.rank; ++d) n *= static_cast<double>(view.dims[d].count);
        return n;
    };
    double most = elements(operation.dst);
    for (int k = 0; k < operation.sources; ++k) most = std::max(most, elements(operation.src[k]));
    elements_ += most;
    if (elements_ <= static_cast<double>(limits_.elements)) return;
    exhausted("steps", fmt::format("the operations of the kernel touch more than {} elements",
                                   limits_.elements))
        .limit(limits_.elements)
        .remedy("repeat fewer elements by broadcasts and zero strides")
        .raise();
}

void Builder::push(Operation& operation, const OpRequest& request) {
    append(std::move(operation), request.combines, request.prefill.has_value());
}

void Builder::append(Operation operation, AluOp combines, bool whole) {
    if (static_cast<std::int64_t>(program_.operations.size()) >= limits_.operations)
        exhausted("operations",
                  fmt::format("the kernel executes more than {} operations", limits_.operations))
            .limit(limits_.operations)
            .raise();
    charge_memory(static_cast<std::int64_t>(sizeof(Operation)));
    charge_elements(operation);
    operation.loop = loops_.innermost_loop();
    if (!is_dma(operation.opcode) && operation.engine != Engine::kDma &&
        !(operation.opcode == Opcode::kMemset && operation.implicit))
        check_engine(operation, whole);
    track(operation, combines);
    if (operation.accumulate && operation.opcode == Opcode::kMatmul &&
        !states_[operation.dst.tensor].fill) {
        states_[operation.dst.tensor].open = true;
        open_groups_ = true;
    }
    program_.operations.push_back(std::move(operation));
    note({TraceEvent::Kind::kOperation, combines, whole, -1});
}

}  // namespace accelopt::nki::interp
