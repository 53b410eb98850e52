#pragma once

#include <string>

#include "config/run_config.h"

namespace accelopt::config {

/// Writes the complete configuration as canonical YAML, one section after the other, every default
/// included; parse_resolved_config reads it back to the same values. Names of environment
/// variables stand in it, their values do not.
std::string write_resolved(const RunConfig& config);

}  // namespace accelopt::config
