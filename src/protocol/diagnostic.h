#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace accelopt::protocol {

/// One finding about a kernel, fit for a terminal, an archive and a prompt.
struct Diagnostic {
    std::string code;                ///< stable: a reason of the frozen outcome table
    std::string severity = "error";  ///< "error", "warning" or "note"
    std::string message;             ///< one sentence, data last
    int line = 0;                    ///< 1-based; 0 = no position
    int column = 0;                  ///< 1-based
    std::string snippet;             ///< the source line
    std::string operation;           ///< e.g. "nisa.tensor_tensor"
    std::vector<std::vector<std::int64_t>> shapes;  ///< operand shapes
    std::optional<std::int64_t> limit;              ///< the limit that was exceeded
    std::string remedy;                             ///< what to do instead
};

/// Renders a diagnostic for a terminal: "file:line:col: error[code]: message", snippet, caret,
/// remedy.
std::string render(const Diagnostic& diagnostic, const std::string& file_name);

}  // namespace accelopt::protocol
