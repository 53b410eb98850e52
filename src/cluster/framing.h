#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace accelopt::cluster {

/// Payloads are a header without newlines, a newline, and a body (JSON or text).
inline std::string frame(std::string_view header, std::string_view body) {
    std::string text;
    text.reserve(header.size() + 1 + body.size());
    text += header;
    text += '\n';
    text += body;
    return text;
}

/// Splits a framed payload; a missing newline gives an empty body.
inline std::pair<std::string, std::string> unframe(const std::string& payload) {
    const auto at = payload.find('\n');
    if (at == std::string::npos) return {payload, ""};
    return {payload.substr(0, at), payload.substr(at + 1)};
}

}  // namespace accelopt::cluster
