#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "cluster/transport/transport.h"
#include "core/clock.h"
#include "core/error.h"
#include "llm/provider.h"

namespace accelopt::cluster {

/// What a worker needs from the program that hosts it.
struct WorkerHost {
    std::function<llm::ProviderRegistry()> providers;
    std::string evaluator_program;  ///< path of accelopt-eval; "" = beside this executable
};

/// A rank's worker: pulls units from the coordinator, keeps their model calls and evaluations in
/// flight, journals what it alone knows, and reports results. Single-threaded; poll it.
class Worker {
  public:
    Worker(WorkerHost host, Transport& transport, Clock& clock);
    ~Worker();

    /// Does what can be done now, waiting at most `wait_s` for a model or an evaluator. Returns
    /// true when something happened.
    bool poll(double wait_s);
    /// Set once the coordinator has told this worker to leave.
    std::optional<ExitCode> stopped() const;

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace accelopt::cluster
