#pragma once

#include <string>
#include <string_view>

#include "llm/provider.h"

namespace accelopt::llm {

/// Builds the JSON body of a Chat-Completions request. Invalid UTF-8 is replaced, never sent.
std::string openai_request_body(const ModelOptions& model, const Request& request);

/// Fills outcome, text, reasoning, usage and error of `result` from a server's answer. Never
/// throws: whatever the server sent becomes an outcome. An error object decides before the status,
/// the status before any wording. The error is not cut, so that the caller can scrub it first.
void read_openai_reply(int http_status, std::string_view body, TryResult& result);

}  // namespace accelopt::llm
