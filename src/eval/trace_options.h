#pragma once

#include "nki/interpreter.h"
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
    options.core_version = machine.name == "trn1" || machine.name == "inf2" ? 2 : 3;
    return options;
}

}  // namespace accelopt::eval
