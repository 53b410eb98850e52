#pragma once

#include <array>
#include <string_view>

#include "nki/program.h"
#include "trainium/iteration.h"

namespace accelopt::trainium::execution {

/// One thing that an operation reads or writes: an access over its space.
struct Reference {
    Access access;
    const Space* space = nullptr;
    std::string_view what;  ///< "source 1", "bias", ... for messages
};

/// An operation with its mask applied and its operands laid over the space it runs over. For
/// products the three matrices have spaces of their own.
struct Resolved {
    Space space;         ///< matmul: of the stationary matrix
    Space moving_space;  ///< matmul
    Space result_space;  ///< matmul, and operations with spaces of their own
    Access target;
    std::array<Access, 3> source;
    Access scale;
    Access bias;
    Access operand0;
    Access operand1;

    std::array<Space, 3> own;  ///< of the sources of an operation with spaces of their own

    const Space& target_space(const nki::Operation& operation) const {
        const bool apart =
            operation.opcode == nki::Opcode::kMatmul || nki::has_own_spaces(operation.opcode);
        return apart ? result_space : space;
    }
    const Space& source_space(const nki::Operation& operation, int k) const {
        if (operation.opcode == nki::Opcode::kMatmul) return k == 1 ? moving_space : space;
        return nki::has_own_spaces(operation.opcode) ? own[static_cast<std::size_t>(k)] : space;
    }
};

/// Number of entries of `operation.src` that count.
int source_count(const nki::Operation& operation);

/// Resolves an operation. Throws Error(kInternal) when shapes do not fit the opcode.
void resolve(const nki::Operation& operation, Resolved& resolved);

/// True when the data decide which elements of its destination an operation writes: a scatter, and
/// a gather that skips indices out of bounds.
constexpr bool writes_by_data(const nki::Operation& operation) {
    return operation.opcode == nki::Opcode::kScatter ||
           (operation.opcode == nki::Opcode::kGather && operation.accumulate);
}

/// True when an operation needs what its destination held before.
constexpr bool updates_destination(const nki::Operation& operation) {
    return operation.accumulate ||
           (operation.opcode == nki::Opcode::kScatter && operation.op0 != nki::AluOp::kNone);
}

/// Calls body(view) for every view that an operation reads, the destination of an accumulating
/// product among them.
template <class Body>
void for_each_read_view(const nki::Operation& operation, Body body) {
    for (int k = 0; k < source_count(operation); ++k) body(operation.src[k]);
    for (const nki::ScalarOperand* operand :
         {&operation.scale, &operation.bias, &operation.operand0, &operation.operand1}) {
        if (operand->vector) body(operand->view);
    }
    if (updates_destination(operation)) body(operation.dst);
}

/// Calls body(Reference) for everything that a resolved operation reads.
template <class Body>
void for_each_read(const nki::Operation& operation, const Resolved& resolved, Body body) {
    static constexpr std::string_view kSources[] = {"source 1", "source 2", "source 3"};
    for (int k = 0; k < source_count(operation); ++k) {
        body(Reference{resolved.source[k], &resolved.source_space(operation, k), kSources[k]});
    }
    if (operation.scale.vector) body(Reference{resolved.scale, &resolved.space, "scale"});
    if (operation.bias.vector) body(Reference{resolved.bias, &resolved.space, "bias"});
    if (operation.operand0.vector) body(Reference{resolved.operand0, &resolved.space, "operand0"});
    if (operation.operand1.vector) body(Reference{resolved.operand1, &resolved.space, "operand1"});
    if (updates_destination(operation)) {
        body(Reference{resolved.target, &resolved.target_space(operation), "the accumulator"});
    }
}

}  // namespace accelopt::trainium::execution
