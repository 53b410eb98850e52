#include "rewrite/executor.h"

namespace accelopt::rewrite {

std::string answer_executor(Rewriter& rewriter, const llm::Context& context) {
    const std::vector<Step> steps = parse_plan(context.plan);
    if (steps.empty()) {
        return "The plan names no rewrite that can be carried out, so the kernel stays as it is.\n";
    }
    const auto rewritten = rewriter.apply(context.source, context.input_shapes, steps);
    if (!rewritten) return "The plan cannot be carried out: " + rewritten.error() + ".\n";
    return "The kernel after " + plan_line(steps).substr(std::string("rewrite: ").size()) +
           ":\n\n```python\n" + *rewritten + (rewritten->ends_with('\n') ? "" : "\n") + "```\n";
}

}  // namespace accelopt::rewrite
