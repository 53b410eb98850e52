#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cluster/transport/transport.h"
#include "cluster/worker.h"
#include "config/run_config.h"
#include "core/error.h"

namespace accelopt::cluster {

/// What `accelopt run` was asked to do.
struct RunRequest {
    std::string config_path;
    std::vector<std::string> overrides;  ///< --set key=value
    bool resume = false;
    bool wait = false;       ///< batch models poll for their answers instead of ending the run
    bool fail_fast = false;  ///< stop at the first infrastructure failure
};

struct RunOutcome {
    ExitCode code = ExitCode::kInternal;
    std::string directory;  ///< of the run; empty on ranks other than 0
    std::string reason;
};

/// Runs a campaign on this rank of `transport`; every rank calls it and returns the coordinator's
/// exit code. Rank 0 loads the configuration, creates or reopens the run directory (Error(kUser)
/// with code "exists" or "locked" when it may not), coordinates, publishes rounds and run.h5.
RunOutcome run_campaign(const RunRequest& request, const WorkerHost& host, Transport& transport);

/// Loads the configuration of a request and checks it as far as that can be done without a run
/// directory: problems, models, prices, retry policy, prompts. Nothing is spent, no key is read.
config::RunConfig load_checked(const RunRequest& request);

/// The run directory that `--resume` of this configuration would reopen, or that a new run would
/// create; for --dry-run and messages.
std::string planned_directory(const std::string& name, const std::string& directory, bool resume);

}  // namespace accelopt::cluster
