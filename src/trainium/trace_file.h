#pragma once

#include <cstdint>
#include <iosfwd>
#include <limits>
#include <string>

#include "trainium/analysis.h"

namespace accelopt::trainium {

struct TraceOptions {
    std::string kernel;  ///< shown as the process name
    double from_ns = 0;
    double to_ns = std::numeric_limits<double>::infinity();
    /// Events that a viewer still handles well. Beyond them neighbours of one source line on one
    /// track are drawn as one block, and what still does not fit is cut off at the end.
    std::int64_t max_events = 200'000;
};

/// What a trace holds and what it leaves out.
struct TraceSummary {
    std::int64_t events = 0;
    std::int64_t merged = 0;  ///< blocks that were drawn as part of a neighbour
    double merge_gap_ns = 0;  ///< idle time that a merged block may hide; 0 when none is
    double from_ns = 0;
    double to_ns = 0;  ///< of what is drawn: earlier than asked for where events were cut off
    double latency_ns = 0;
};

/// Writes a simulated run in Chrome's trace event format (JSON), which Perfetto and
/// chrome://tracing open: one track per engine and per DMA queue, one for the critical path,
/// counters of SBUF (KiB per partition) and PSUM (banks). Blocks are named by operation and source
/// line; their arguments say what they waited for. Needs a timeline with its queues.
TraceSummary write_trace(std::ostream& out, const SimulatedKernel& kernel, const Machine& machine,
                         const TraceOptions& options);

/// Compiles and simulates a legal program once more and writes its trace.
TraceSummary trace_program(std::ostream& out, const nki::Program& program, const Machine& machine,
                           const TraceOptions& options);

}  // namespace accelopt::trainium
