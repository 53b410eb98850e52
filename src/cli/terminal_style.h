#pragma once

#include <optional>

#include "report/terminal.h"

namespace accelopt::cli {

/// How to draw on the standard output: as wide as asked for, else as the terminal, else 100
/// columns; coloured on a terminal only, unless NO_COLOR is set (https://no-color.org).
report::TerminalStyle terminal_style(std::optional<int> width);

}  // namespace accelopt::cli
