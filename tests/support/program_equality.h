#pragma once

#include <bit>
#include <string>

#include "nki/program.h"

namespace accelopt::testing {

inline bool same_bits(double a, double b) {
    return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

inline bool same_scalar(const nki::ScalarOperand& a, const nki::ScalarOperand& b) {
    return a.vector == b.vector && same_bits(a.immediate, b.immediate) &&
           (!a.vector || a.view.get() == b.view.get());
}

inline bool same_operation(const nki::Operation& a, const nki::Operation& b) {
    if (a.mask.size() != b.mask.size()) return false;
    for (std::size_t k = 0; k < a.mask.size(); ++k)
        if (a.mask[k].constant != b.mask[k].constant ||
            a.mask[k].coefficients != b.mask[k].coefficients)
            return false;
    for (int d = 0; d < nki::kMaxDims; ++d)
        if (std::int64_t{a.iota[d]} != b.iota[d]) return false;
    return a.opcode == b.opcode && a.engine == b.engine && a.function == b.function &&
           a.op0 == b.op0 && a.op1 == b.op1 && a.reverse0 == b.reverse0 &&
           a.reverse1 == b.reverse1 && a.accumulate == b.accumulate && a.negate == b.negate &&
           a.stationary_onezero == b.stationary_onezero && a.moving_onezero == b.moving_onezero &&
           a.implicit == b.implicit && a.axes == b.axes && a.sources == b.sources &&
           a.masked_columns == b.masked_columns && a.line == b.line && a.column == b.column &&
           a.loop == b.loop && a.api == b.api && a.extra == b.extra && a.dst == b.dst &&
           a.src == b.src && same_scalar(a.scale, b.scale) && same_scalar(a.bias, b.bias) &&
           same_scalar(a.operand0, b.operand0) && same_scalar(a.operand1, b.operand1);
}

/// Where two programs first differ, or "". How many operations were replayed does not count.
inline std::string difference(const nki::Program& a, const nki::Program& b) {
    if (a.steps != b.steps)
        return "steps: " + std::to_string(a.steps) + " and " + std::to_string(b.steps);
    if (a.operations.size() != b.operations.size()) return "number of operations";
    for (std::size_t k = 0; k < a.operations.size(); ++k)
        if (!same_operation(a.operations[k], b.operations[k]))
            return "operation " + std::to_string(k) + " of line " +
                   std::to_string(a.operations[k].line);
    if (a.tensors.size() != b.tensors.size()) return "number of tensors";
    for (std::size_t k = 0; k < a.tensors.size(); ++k) {
        const nki::Tensor& x = a.tensors[k];
        const nki::Tensor& y = b.tensors[k];
        const bool same = x.id == y.id && x.name == y.name && x.buffer == y.buffer &&
                          x.role == y.role && x.dtype == y.dtype && x.shape == y.shape &&
                          x.partition_axis == y.partition_axis && x.blocks == y.blocks &&
                          x.partitions == y.partitions && x.free_elements == y.free_elements &&
                          x.argument == y.argument && x.site == y.site && x.line == y.line &&
                          x.constant_data == y.constant_data &&
                          x.placements.size() == y.placements.size();
        if (!same) return "tensor " + std::to_string(k) + " '" + x.name + "'";
    }
    if (a.iterations.size() != b.iterations.size()) return "number of iterations";
    for (std::size_t k = 0; k < a.iterations.size(); ++k) {
        const nki::LoopIteration& x = a.iterations[k];
        const nki::LoopIteration& y = b.iterations[k];
        if (x.loop != y.loop || x.run != y.run || x.first != y.first || x.end != y.end)
            return "iteration " + std::to_string(k);
    }
    if (a.loops.size() != b.loops.size()) return "number of loops";
    for (std::size_t k = 0; k < a.loops.size(); ++k) {
        const nki::Loop& x = a.loops[k];
        const nki::Loop& y = b.loops[k];
        if (x.parent != y.parent || x.variable != y.variable || x.kind != y.kind ||
            x.trip_count != y.trip_count || x.line != y.line)
            return "loop " + std::to_string(k);
    }
    if (a.outputs != b.outputs) return "outputs";
    return a.api_names == b.api_names ? "" : "API names";
}

}  // namespace accelopt::testing
