#pragma once

// Private to report: one function per table of a run.

#include <optional>
#include <string>
#include <vector>

#include "report/grid.h"
#include "store/archive.h"
#include "store/candidates.h"

namespace accelopt::report {

Grid summary_grid(const store::RunData& run);
Grid rounds_grid(const store::RunData& run);
Grid outcomes_grid(const store::RunData& run);
Grid cost_grid(const store::RunData& run);
Grid best_grid(const store::RunData& run);

/// Problems of a run: those of its configuration, in its order, then any others with results.
std::vector<std::string> reported_problems(const store::RunData& run);

/// Dollars of some tries: nullopt when the price of one that may have been billed is unknown.
std::optional<double> total_usd(const std::vector<protocol::LedgerRow>& rows);

/// True when a sample ended in a failure: not for a verified kernel, a duplicate or no change.
bool failed(const store::CandidateRow& row);
/// Stored name of how a sample ended: its evaluation's outcome, else its status.
std::string ending(const store::CandidateRow& row);

}  // namespace accelopt::report
