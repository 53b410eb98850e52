#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "llm/provider.h"
#include "llm/reply_reader.h"

namespace accelopt::llm {

/// Builds the JSON body of a Chat-Completions request. Invalid UTF-8 is replaced, never sent. A
/// stream is always asked for its usage.
std::string openai_request_body(const ModelOptions& model, const Request& request);

/// Fills outcome, text, reasoning, usage and error of `result` from a server's whole answer. Never
/// throws: whatever the server sent becomes an outcome. An error object decides before the status,
/// the status before any wording. The error is not cut, so that the caller can scrub it first.
void read_openai_reply(int http_status, std::string_view body, TryResult& result);

/// Makes a reader of a 2xx answer, streamed or not. Its terminal marker is finish_reason; an error
/// event fails the try, whatever came before it.
std::unique_ptr<ReplyReader> make_openai_reader();

}  // namespace accelopt::llm
