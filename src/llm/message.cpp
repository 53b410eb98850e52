#include "llm/message.h"

#include "core/hash.h"

namespace accelopt::llm {

std::string Request::sha256() const {
    // Every part is preceded by its length, so that no two requests spell the same bytes.
    std::string bytes = "accelopt-request/1";
    const auto add = [&bytes](const std::string& part) {
        bytes += '/' + std::to_string(part.size()) + ':' + part;
    };
    add(model);
    for (const auto& message : messages) {
        add(message.speaker);
        add(message.text);
    }
    return sha256_hex(bytes);
}

std::int64_t estimate_tokens(std::string_view text) {
    static constexpr std::size_t kBytesPerToken = 3;
    return static_cast<std::int64_t>((text.size() + kBytesPerToken - 1) / kBytesPerToken);
}

std::int64_t estimate_tokens(const std::vector<Message>& messages) {
    static constexpr std::int64_t kPerMessage = 8;
    std::int64_t tokens = kPerMessage;
    for (const auto& message : messages) tokens += kPerMessage + estimate_tokens(message.text);
    return tokens;
}

}  // namespace accelopt::llm
