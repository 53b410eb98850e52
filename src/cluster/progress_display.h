#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "cluster/coordinator.h"

namespace accelopt::cluster {

/// Shows a run's progress on stderr: one line that is rewritten on a terminal, plain lines every
/// `interval_s` elsewhere; the same lines go to the run's log file.
class ProgressDisplay {
  public:
    ProgressDisplay(const std::string& log_path, double interval_s = 10);
    ~ProgressDisplay();
    ProgressDisplay(const ProgressDisplay&) = delete;
    ProgressDisplay& operator=(const ProgressDisplay&) = delete;

    /// Prints a line of its own.
    void line(const std::string& text);
    /// Shows the state when it is due; `now_s` is a monotonic time.
    void show(const Progress& progress, double now_s);
    /// Ends the rewritten line.
    void finish();

  private:
    struct Log;
    std::unique_ptr<Log> log_;
    double interval_s_;
    double next_s_ = 0;
    bool terminal_;
    bool open_line_ = false;
};

/// One line: units, best speed-ups, spend, time left.
std::string describe(const Progress& progress);

}  // namespace accelopt::cluster
