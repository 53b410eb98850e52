#pragma once

// Private to store: the profiles table.

#include <string>
#include <vector>

#include "store/candidates.h"
#include "store/table.h"

namespace accelopt::store {

/// A profile of an evaluation; `kind` is predicted, as_written or measured.
struct ProfileRow {
    std::string candidate;
    const char* kind;
    const protocol::Profile* profile;
};
std::vector<ProfileRow> profile_rows(const std::vector<CandidateRow>& evaluated);

/// One row per profile of an evaluation: `kind` is predicted, as_written or measured; the figures
/// keep neuron-profile's names.
Table profiles_table(const std::vector<CandidateRow>& evaluated);

}  // namespace accelopt::store
