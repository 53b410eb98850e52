#pragma once

#include <optional>
#include <string>
#include <vector>

#include "eval/kernel_observer.h"
#include "nki/interpreter.h"
#include "protocol/evaluation.h"

namespace accelopt::eval {

/// A kernel with given arguments and no problem around it.
struct PlainKernelRequest {
    std::string id;
    std::string source;
    std::optional<std::string> entry;
    std::string target = "trn1";
    std::vector<std::string> names;        ///< of the arguments
    std::vector<nki::Argument> arguments;  ///< in positional order
    std::vector<std::int64_t> grid;        ///< kernel[grid]; empty: launched without one
    bool values = true;                    ///< run it on seeded inputs
    std::string secret;                    ///< decides the inputs together with their names
    protocol::EvaluationLimits limits;
    int profile_rows = protocol::kProfileRows;  ///< as of protocol::EvaluationRequest
    KernelObserver observer;                    ///< may be empty
};

/// Checks, profiles and (with `values`) runs a kernel that has no reference. Floating-point inputs
/// are standard normal numbers rounded to their dtype, integers 0 to 7 (so that they may serve as
/// indices), booleans 0 or 1. Outputs must be finite and completely written; whether they are right
/// nobody checks, which a note in the reply says. Correctness rows carry the rule "none". Throws
/// Error for an unknown target.
protocol::EvaluationReply evaluate_plain_kernel(const PlainKernelRequest& request);

}  // namespace accelopt::eval
