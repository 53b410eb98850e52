#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cluster/run_context.h"
#include "cluster/transport/transport.h"
#include "core/clock.h"
#include "core/error.h"
#include "search/campaign.h"

namespace accelopt::cluster {

/// What a progress display needs.
struct Progress {
    std::vector<search::ProblemState> problems;
    int units_done = 0;
    int units_planned = 0;  ///< upper bound on the units of the whole run
    int units_in_flight = 0;
    int units_adopted = 0;  ///< taken over from earlier launches
    int physical_evaluations = 0;
    std::int64_t calls = 0;  ///< tries paid by this and earlier launches
    double spent_usd = 0;
    bool spend_unknown = false;  ///< some try has no known cost
    double elapsed_s = 0;
};

/// Rank 0: hands out units, decides in unit order, keeps the decisions journal, publishes HDF5.
/// Poll it; it never blocks.
class Coordinator {
  public:
    /// Opens the decisions journal of this launch and adopts what earlier launches have journalled.
    Coordinator(RunContext context, Transport& transport, Clock& clock);
    ~Coordinator();

    /// Handles messages and hands out work. Returns true when something happened.
    bool poll();
    /// Stops handing out work and ends the run with `code` as soon as possible; nothing is lost.
    void stop(ExitCode code, const std::string& reason);
    /// The run's end, once every worker has been told.
    std::optional<ExitCode> finished() const;
    std::string end_reason() const;
    Progress progress() const;
    /// Lines to show (rounds finished, failures) since the last call.
    std::vector<std::string> take_lines();

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace accelopt::cluster
