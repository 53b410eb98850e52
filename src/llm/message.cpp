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

}  // namespace accelopt::llm
