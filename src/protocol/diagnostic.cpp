#include "protocol/diagnostic.h"

#include <algorithm>

namespace accelopt::protocol {

std::string render(const Diagnostic& d, const std::string& file_name) {
    std::string text = file_name;
    if (d.line > 0) {
        text += ":" + std::to_string(d.line);
        if (d.column > 0) text += ":" + std::to_string(d.column);
    }
    text += ": " + d.severity + "[" + d.code + "]: " + d.message + "\n";
    if (!d.snippet.empty()) {
        text += "    " + d.snippet + "\n";
        if (d.column > 0 && static_cast<std::size_t>(d.column) <= d.snippet.size() + 1) {
            std::string pad = d.snippet.substr(0, static_cast<std::size_t>(d.column - 1));
            std::replace_if(
                pad.begin(), pad.end(), [](char c) { return c != '\t'; }, ' ');
            text += "    " + pad + "^\n";
        }
    }
    if (!d.operation.empty()) {
        text += "    operation: " + d.operation;
        for (const auto& shape : d.shapes) {
            text += " [";
            for (std::size_t i = 0; i < shape.size(); ++i) {
                text += (i ? ", " : "") + std::to_string(shape[i]);
            }
            text += "]";
        }
        if (d.limit) text += ", limit " + std::to_string(*d.limit);
        text += "\n";
    }
    if (!d.remedy.empty()) text += "    remedy: " + d.remedy + "\n";
    return text;
}

}  // namespace accelopt::protocol
