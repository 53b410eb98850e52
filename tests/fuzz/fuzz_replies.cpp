// Whatever a server sends becomes an outcome, and the token classes are counts.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "llm/anthropic.h"
#include "llm/batch.h"
#include "llm/bedrock.h"
#include "llm/openai_reply.h"
#include "llm/server_error.h"
#include "llm/server_wait.h"

using namespace accelopt::llm;
using accelopt::protocol::LlmOutcome;

namespace {

void check(const TryResult& result) {
    if (accelopt::protocol::to_string(result.outcome) == "unknown") std::abort();
    if (result.outcome == LlmOutcome::kOk && result.text.empty()) std::abort();
    if (result.outcome != LlmOutcome::kOk && result.error.empty()) std::abort();
    for (const auto& count : {result.usage.input_tokens, result.usage.cached_input_tokens,
                              result.usage.cache_write_tokens, result.usage.output_tokens,
                              result.usage.reasoning_tokens}) {
        if (count && *count < 0) std::abort();
    }
}

void read(std::unique_ptr<ReplyReader> reader, std::string_view body, std::size_t piece,
          std::string_view type, bool whole) {
    for (std::size_t i = 0; i < body.size(); i += piece) {
        if (!reader->take(type, body.substr(i, piece))) break;
    }
    TryResult result;
    result.http_status = 200;
    reader->finish(whole, result);
    check(result);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 2) return 0;
    const std::size_t piece = 1 + data[0];
    const bool whole = (data[1] & 1) != 0;
    const char* type = (data[1] & 2) != 0 ? "text/event-stream" : "application/json";
    const std::string_view body(reinterpret_cast<const char*>(data) + 2, size - 2);
    switch ((data[1] >> 2) % 5) {
        case 0:
            read(make_openai_reader(), body, piece, type, whole);
            break;
        case 1:
            read(make_anthropic_reader(), body, piece, type, whole);
            break;
        case 2:
            read(make_bedrock_reader(), body, piece, type, whole);
            break;
        case 3: {
            TryResult result;
            read_batch_answer(std::string(body), result);
            check(result);
            break;
        }
        default: {
            TryResult result;
            result.http_status = 400 + data[0] % 200;
            read_error_body(result.http_status, body, result);
            check(result);
            (void)parse_reset(body, 1e9);
            (void)parse_retry_after(body, 1e9);
            (void)read_server_wait({{"retry-after", std::string(body)}}, 1e9);
        }
    }
    return 0;
}
