#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "core/error.h"

namespace accelopt::cli {

/// What main does after parsing: the chosen subcommand's action.
using Action = std::function<ExitCode()>;

/// Each adds one subcommand to the program and sets `action` when it is chosen.
void add_run(CLI::App& app, Action& action);
void add_bench(CLI::App& app, Action& action);
void add_profile(CLI::App& app, Action& action);
void add_calibrate(CLI::App& app, Action& action);
void add_check(CLI::App& app, Action& action);
void add_report(CLI::App& app, Action& action);
void add_recover(CLI::App& app, Action& action);
void add_validate(CLI::App& app, Action& action);
void add_doctor(CLI::App& app, Action& action);

}  // namespace accelopt::cli
