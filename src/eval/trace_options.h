#pragma once

#include <algorithm>

#include "nki/interpreter.h"
#include "protocol/evaluation.h"
#include "trainium/machine.h"

namespace accelopt::eval {

/// What a machine decides about a trace: the sizes of its memories and its NeuronCore generation
/// (Trainium 1 and Inferentia 2 are NeuronCore-v2, Trainium 2 is v3).
inline nki::TraceOptions trace_options(const trainium::Machine& machine) {
    nki::TraceOptions options;
    options.limits.partitions = machine.partitions;
    options.limits.sbuf_partition_bytes = machine.sbuf_partition_bytes;
    options.limits.psum_partition_bytes = machine.psum_partition_bytes;
    options.limits.psum_bank_bytes = machine.psum_bank_bytes;
    options.core_version = machine.core_version;
    return options;
}

/// The same, with the budgets of a request.
inline nki::TraceOptions trace_options(const trainium::Machine& machine,
                                       const protocol::EvaluationLimits& budgets) {
    nki::TraceOptions options = trace_options(machine);
    options.limits.steps = budgets.steps;
    options.limits.memory_bytes = budgets.memory_bytes;
    // A program of many tiny operations may take a quarter of the budget, which growing the list of
    // operations and lowering it for the timing model multiply.
    options.limits.operations = std::clamp<std::int64_t>(
        budgets.memory_bytes / 4 / static_cast<std::int64_t>(sizeof(nki::Operation)), 1,
        options.limits.operations);
    return options;
}

}  // namespace accelopt::eval
