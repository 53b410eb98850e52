#pragma once

#include <string>
#include <vector>

#include "config/run_config.h"
#include "core/clock.h"
#include "llm/provider.h"
#include "llm/replay.h"

namespace accelopt::llm {

/// Makes every provider of this folder, by name; the builtin, which lives elsewhere, is added by
/// the program.
ProviderRegistry make_providers(RecordingLoader recordings, Clock& clock = system_clock());

/// Names of all providers, the builtin among them.
std::vector<std::string> provider_names();

/// Throws Error(kConfig, "model") with file:line when the model's provider is unknown, a key that
/// it needs is missing, or a key means nothing to it.
void check_provider_keys(const config::ModelConfig& model);

}  // namespace accelopt::llm
