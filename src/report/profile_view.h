#pragma once

#include <string>

#include "protocol/evaluation.h"

namespace accelopt::report {

/// Renders one evaluator reply for a terminal: verdict, latency and bounds, engines as bars,
/// traffic as the compiler leaves it beside as written (and measured, where known), correctness,
/// confidence and its reasons, diagnostics. `kernel_name` is what diagnostics call the file.
std::string profile_view(const protocol::EvaluationReply& reply, const std::string& kernel_name);

}  // namespace accelopt::report
