#pragma once

#include <string_view>

namespace accelopt {

/// The program's version, as project() in CMakeLists.txt has it.
inline constexpr std::string_view kVersion = ACCELOPT_VERSION;

}  // namespace accelopt
