#pragma once

#include <string>
#include <vector>

#include "llm/message.h"
#include "rewrite/plan.h"

namespace accelopt::rewrite {

/// Finds which rules lead from one kernel to the other: exactly, in up to three steps, else by
/// which rules still apply to the first but no longer to the second.
std::vector<std::string> rules_between(const std::string& from, const std::string& to,
                                       const Shapes& input_shapes);

/// Answers a summarizer's request: a bold title naming the rules, then what they do and how much it
/// gave; or that no optimization was found.
std::string answer_summarizer(const llm::Context& context);

}  // namespace accelopt::rewrite
