#pragma once

#include <string>

#include "cluster/worker.h"

namespace accelopt::cli {

/// The providers this program knows, by the name that `models.*.provider` uses. A new provider is
/// one file in src/llm and one line in wiring.cpp.
llm::ProviderRegistry make_providers();

/// What a worker of this program needs: its providers and the evaluator beside this executable.
cluster::WorkerHost make_worker_host();

}  // namespace accelopt::cli
