#pragma once

#include <string>
#include <vector>

#include "store/archive.h"

namespace accelopt::report {

/// What judged the kernels of a run: "accelopt 0.1.0, trn1@0d73e6da495f" for each pair of program
/// version and machine description among its evaluations, sorted. Figures of different pairs do not
/// belong into one table (a changed model changes baselines too).
std::vector<std::string> versions_of(const store::RunData& run);

/// Throws Error(kUser, "mixed_versions") when `runs` hold evaluations of more than one version.
void require_one_version(const std::vector<store::RunData>& runs);

}  // namespace accelopt::report
