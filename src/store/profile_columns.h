#pragma once

// Private to store: the profiles table.

#include <vector>

#include "store/candidates.h"
#include "store/table.h"

namespace accelopt::store {

/// One row per profile of an evaluation: `kind` is predicted, as_written or measured; the figures
/// keep neuron-profile's names.
Table profiles_table(const std::vector<CandidateRow>& evaluated);

}  // namespace accelopt::store
