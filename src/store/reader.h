#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "store/table.h"

namespace accelopt::store {

/// Names of the tables in run.h5 or a round file, sorted.
std::vector<std::string> table_names(const std::string& path);

/// Reads one table of run.h5 or of a round file; columns are sorted by name. Throws
/// Error(kExternal, "hdf5") with the path for a missing, foreign or damaged file or table.
Table read_table(const std::string& path, std::string_view table);

}  // namespace accelopt::store
