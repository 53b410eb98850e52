#pragma once

#include <string>

#include "protocol/evaluation.h"
#include "report/terminal.h"

namespace accelopt::report {

/// What a view of a profile is drawn with.
struct ProfileViewOptions {
    std::string kernel_name;  ///< what diagnostics call the file
    std::string source;       ///< of the kernel, to show lines of it; "" = not at hand
    TerminalStyle style;
};

/// Renders one evaluator reply for a terminal: verdict; latency, bounds, confidence and its
/// reasons; engines as bars; where the time goes by source line; the critical path; traffic per
/// tensor; occupancy of SBUF and PSUM; counters as the compiler leaves them beside as written (and
/// measured, where known); correctness; diagnostics. What is not known is "n/a".
std::string profile_view(const protocol::EvaluationReply& reply, const ProfileViewOptions& options);

}  // namespace accelopt::report
