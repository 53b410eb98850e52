#pragma once

#include <memory>

#include "llm/provider.h"

namespace accelopt::rewrite {

/// Makes the `builtin` provider: rules over the NKI AST that play planner, executor and
/// summarizer. Deterministic in the request's context (source, profile, plan, seed); answers at
/// once; usage is zero tokens and costs $0.
std::shared_ptr<llm::Provider> make_builtin_provider();

}  // namespace accelopt::rewrite
