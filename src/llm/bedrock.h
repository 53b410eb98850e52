#pragma once

#include <memory>
#include <string>

#include "core/clock.h"
#include "llm/provider.h"
#include "llm/reply_reader.h"

namespace accelopt::llm {

/// Makes the `bedrock` provider: the Converse operation of Amazon Bedrock, signed with Signature
/// Version 4. `name` is the model id or an inference profile, `url` the end point; "" means
/// https://bedrock-runtime.REGION.amazonaws.com. Answers are never streamed.
std::shared_ptr<Provider> make_bedrock_provider(Clock& clock = system_clock());

/// The end point of a model, without a slash at its end.
std::string bedrock_address(const ModelOptions& model);

/// Builds the JSON body of a Converse request.
std::string bedrock_request_body(const ModelOptions& model, const Request& request);

/// Makes a reader of a 2xx answer.
std::unique_ptr<ReplyReader> make_bedrock_reader();

}  // namespace accelopt::llm
