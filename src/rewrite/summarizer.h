#pragma once

#include <string>
#include <vector>

#include "llm/message.h"
#include "rewrite/plan.h"

namespace accelopt::rewrite {

/// Finds which rules lead from one kernel to the other: the one rewrite that makes the second of
/// the first, else all rules that have fewer places left in the second.
std::vector<std::string> rules_between(Rewriter& rewriter, const std::string& from,
                                       const std::string& to, const Shapes& input_shapes);

/// Answers a summarizer's request: a bold title naming the rules, then what they do and how much it
/// gave; or that no optimization was found.
std::string answer_summarizer(Rewriter& rewriter, const llm::Context& context);

}  // namespace accelopt::rewrite
