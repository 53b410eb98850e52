#pragma once

#include <string>
#include <string_view>

#include "core/result.h"
#include "nki/syntax/ast.h"

namespace accelopt::nki {

/// Why a source could not be parsed: the parser's message and position (1-based).
struct SyntaxError {
    std::string message;
    int line = 0;
    int column = 0;
    std::string snippet;
};

/// Parses a kernel file with CPython's own parser (compile with PyCF_ONLY_AST through libpython);
/// nothing is executed. Hostile nesting, NUL bytes, invalid UTF-8 and inputs over 4 MiB come back
/// as a SyntaxError. Starts the interpreter at the first call (about 8 ms); takes and releases the
/// GIL, so it may be called beside pybind11 code of this process.
Result<Module, SyntaxError> parse(std::string_view source);

}  // namespace accelopt::nki
