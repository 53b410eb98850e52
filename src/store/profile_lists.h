#pragma once

// Private to store: the tables of a profile's lists.

#include <vector>

#include "store/profile_columns.h"
#include "store/table.h"

namespace accelopt::store {

/// profile_lines, profile_critical_path, profile_tensors and profile_occupancy: one row per entry
/// of these lists, in their order. `candidate` and `kind` name the profile; the other columns are
/// the members of an entry. They have no rows where an evaluation was asked for no detail.
std::vector<Table> profile_list_tables(const std::vector<ProfileRow>& rows);

}  // namespace accelopt::store
