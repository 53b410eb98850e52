#pragma once

#include <functional>
#include <string>

#include "eval/kernel_observer.h"
#include "eval/problem.h"
#include "eval/reference/reference_store.h"
#include "eval/task_check.h"
#include "protocol/evaluation.h"
#include "trainium/machine.h"

namespace accelopt::eval {

/// What one evaluation works with; all of it outlives the evaluation.
struct EvaluationContext {
    const Problem& problem;
    const std::string& baseline_hash;  ///< normalised; "" when the baseline does not parse
    const trainium::Machine& machine;
    ReferenceStore& references;
    /// Whether the problem can tell right from trivial; asked for only when values are compared.
    std::function<const TaskReport&()> task;
    const KernelObserver& observer;  ///< may be empty
};

/// What the asker got wrong, or "".
std::string request_fault(const protocol::EvaluationRequest& request);

/// The rule that a problem's kernels are judged by when `asked` is wanted: a problem without a
/// scale falls back to `published`.
std::string effective_rule(const Problem& problem, const std::string& asked);

/// Runs the tiers that the request asks for, in the order legality, timing, seed (the first input
/// set), values (all of them), stress (the stress sets and further shapes), order (program order
/// against completion order on the first input set), and ends at the first finding: hopeless
/// kernels cost little. Throws for I/O and lack of memory.
void run_evaluation(const protocol::EvaluationRequest& request, protocol::EvaluationReply& reply,
                    const EvaluationContext& context);

}  // namespace accelopt::eval
