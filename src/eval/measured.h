#pragma once

#include <optional>
#include <string>

#include "protocol/profile.h"

namespace accelopt::eval {

/// Reads one problem's row of a CSV file of measured profiles (nkibench/measured/*.csv: a header of
/// neuron-profile's names, latency as `latency_ms`). Empty fields stay absent; nullopt when the
/// file or the row does not exist. Throws Error(kConfig, "measured") for a malformed file.
std::optional<protocol::Profile> read_measured(const std::string& path, const std::string& problem);

}  // namespace accelopt::eval
