#pragma once

#include <functional>
#include <memory>
#include <string>

#include "llm/provider.h"

namespace accelopt::llm {

/// Opens the record of a run; Error(kUser) when there is none in that directory.
using RecordingLoader = std::function<std::shared_ptr<ReplySource>(const std::string& directory)>;

/// Makes the `replay` provider: answers come from a recorded run by request, unit, role and sample
/// (N identical prompts are N answers), with their recorded usage and dollars, and cost nothing. A
/// question that is not recorded is Error(kUser, "replay") naming the unit, or goes to the model
/// that `fallback` names.
std::shared_ptr<Provider> make_replay_provider(RecordingLoader loader);

}  // namespace accelopt::llm
