#pragma once

#include <string>
#include <string_view>

#include "llm/provider.h"

namespace accelopt::llm {

/// What a server's error says, taken out of its JSON by an adapter.
struct ServerError {
    std::string code;  ///< the structured code, the most specific first
    std::string type;  ///< a second structured word; "" when there is none
    std::string message;
    int inner_status = 0;  ///< an upstream's status inside the error; 0 = none
};

/// Sets outcome and error of a try that ended in an error: the structured code decides before the
/// status, the status before any wording. An error of no known kind inside a 200 is a server error.
void classify_error(int http_status, const ServerError& error, TryResult& result);

/// Reads the `error` object (or text) that OpenAI-compatible servers and Anthropic send, from a
/// body or an event; the body itself is the message when it holds none.
void read_error_body(int http_status, std::string_view body, TryResult& result);

}  // namespace accelopt::llm
