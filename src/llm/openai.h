#pragma once

#include <memory>

#include "core/clock.h"
#include "llm/provider.h"

namespace accelopt::llm {

/// Makes the `openai` provider: any Chat-Completions endpoint (vLLM, OpenAI, Together, ...), with
/// `url` the base ("https://host/v1") or the complete address of chat/completions. The clock's date
/// is what a Retry-After date is measured from when the server sends no Date of its own.
std::shared_ptr<Provider> make_openai_provider(Clock& clock = system_clock());

}  // namespace accelopt::llm
