#pragma once

#include <string>

namespace accelopt {

/// Returns the root of the shipped data (configs/, nkibench/, experiments/): the environment
/// variable ACCELOPT_DATA when set, else the source tree when running from a build tree, else the
/// install prefix's share/accelopt. Throws Error(kConfig, "data_path") naming the places tried.
std::string data_root();

/// Returns `relative` below data_root(), or `relative` itself when it exists as given.
std::string data_path(const std::string& relative);

}  // namespace accelopt
