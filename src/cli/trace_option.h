#pragma once

#include <CLI/CLI.hpp>
#include <fstream>
#include <memory>
#include <optional>
#include <string>

#include "eval/kernel_observer.h"
#include "trainium/trace_file.h"

namespace accelopt::cli {

/// The options --trace, --trace-from and --trace-to of a subcommand that profiles one kernel.
class TraceOption {
  public:
    void add_to(CLI::App& command);

    /// What writes the trace when the kernel is profiled; empty when none is asked for. Opens the
    /// file at once, so that a wrong path is found before the work. Throws Error(kUser, "trace").
    eval::KernelObserver observer(const std::string& kernel_name);
    /// One line for the user: what was written and what was left out; "" without a trace. Throws
    /// Error(kUser, "trace") when the file could not be written.
    std::string report();

  private:
    struct Writing {
        std::ofstream file;
        std::optional<trainium::TraceSummary> summary;
    };

    std::string path_;
    double from_ns_ = 0;
    std::optional<double> to_ns_;
    std::shared_ptr<Writing> writing_;
};

}  // namespace accelopt::cli
