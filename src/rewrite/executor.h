#pragma once

#include <string>

#include "llm/message.h"
#include "rewrite/plan.h"

namespace accelopt::rewrite {

/// Answers an executor's request: the rewritten kernel in a fence, or prose that says why the plan
/// cannot be carried out.
std::string answer_executor(Rewriter& rewriter, const llm::Context& context);

}  // namespace accelopt::rewrite
