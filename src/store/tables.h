#pragma once

#include <vector>

#include "store/archive.h"
#include "store/table.h"

namespace accelopt::store {

/// Builds the tables of run.h5 from the accepted results of a run: runs, problems, units,
/// llm_calls, candidates, evaluations, profiles, profile_lines, profile_critical_path,
/// profile_tensors, profile_occupancy, experience, memory, events. What they hold is
/// described in README.md of this folder.
std::vector<Table> tables_of(const RunData& run);

}  // namespace accelopt::store
