#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "eval/problem.h"
#include "nki/interpreter.h"
#include "protocol/diagnostic.h"

namespace accelopt::eval {

/// Turns a finding into a diagnostic with its source line.
protocol::Diagnostic to_diagnostic(const nki::Finding& finding, const std::string& source);

/// Line `line` (1-based) of `source` without its end; "" when there is none.
std::string source_line(const std::string& source, int line);

/// The published rule's ban (AccelOpt, eval_numpy.py): what is left of the text once everything
/// from each '#' to the end of its line is cut must not hold "float16" (so neither "bfloat16").
std::optional<nki::Finding> find_precision_ban(const std::string& source);

/// Checks what a kernel returns against the problem: the number of outputs and their shapes
/// (output_shape), HBM tensors of float32 (output_type), none of them an input or returned twice
/// (output_alias). An output may have the shape the problem gives for kernels or that of the
/// reference: both are the same elements in the same order.
std::optional<nki::Finding> check_outputs(const nki::Program& program, const Problem& problem);

}  // namespace accelopt::eval
