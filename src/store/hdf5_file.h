#pragma once

// Private to store: tables in HDF5 files. hdf5.h stays in the .cpp.

#include <string>
#include <string_view>
#include <vector>

#include "store/table.h"

namespace accelopt::store {

/// Returns the bytes of a complete HDF5 file that holds one group per table. Numeric columns are
/// 1-D datasets; a text column is a group with `bytes` (uint8) and `offsets` (int64, rows + 1).
/// Datasets are chunked, deflated at `compression` (0 = not at all) and checksummed. The same
/// tables give the same bytes: no times are stored. Throws Error(kExternal, "hdf5").
std::string hdf5_image(const std::vector<Table>& tables, int compression);

/// Names of the tables in a file, sorted.
std::vector<std::string> hdf5_table_names(const std::string& path);

/// Reads one table. Throws Error(kExternal, "hdf5") with the path and HDF5's own explanation.
Table read_hdf5_table(const std::string& path, std::string_view name);

}  // namespace accelopt::store
