#pragma once

#include <memory>
#include <string>

#include "core/clock.h"
#include "llm/provider.h"
#include "llm/reply_reader.h"

namespace accelopt::llm {

/// Makes the `anthropic` provider (Messages API), with `url` the base ("https://host/v1") or the
/// complete address of messages. `thinking` gives the model a budget of reasoning tokens.
std::shared_ptr<Provider> make_anthropic_provider(Clock& clock = system_clock());

/// Builds the JSON body of a Messages request.
std::string anthropic_request_body(const ModelOptions& model, const Request& request);

/// Makes a reader of a 2xx answer, streamed or not.
std::unique_ptr<ReplyReader> make_anthropic_reader();

}  // namespace accelopt::llm
