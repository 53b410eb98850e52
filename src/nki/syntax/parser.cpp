#include "nki/syntax/convert.h"

// convert.h brings Python.h, which comes first, as its manual asks.
#include <algorithm>
#include <optional>
#include <string>

#include "nki/syntax/parser.h"
#include "nki/syntax/python_runtime.h"

namespace accelopt::nki {

namespace {

constexpr std::size_t kMaxSourceBytes = 4u << 20;
constexpr std::size_t kMaxSnippetBytes = 160;
constexpr std::size_t kMaxMessageBytes = 300;

/// Holds the GIL for a scope, from any thread.
class GilGuard {
  public:
    GilGuard() : state_(PyGILState_Ensure()) {}
    GilGuard(const GilGuard&) = delete;
    GilGuard& operator=(const GilGuard&) = delete;
    ~GilGuard() { PyGILState_Release(state_); }

  private:
    PyGILState_STATE state_;
};

/// Bytes in the UTF-8 sequence that starts at `at`, or 0 when it is not valid.
std::size_t sequence_length(std::string_view text, std::size_t at) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned lead = byte(at);
    if (lead < 0x80) return 1;
    const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    if (lead < 0xc2 || lead > 0xf4 || at + length > text.size()) return 0;
    for (std::size_t i = 1; i < length; ++i) {
        if ((byte(at + i) & 0xc0) != 0x80) return 0;
    }
    const unsigned second = byte(at + 1);
    if (lead == 0xe0 && second < 0xa0) return 0;  // overlong
    if (lead == 0xed && second > 0x9f) return 0;  // surrogates
    if (lead == 0xf0 && second < 0x90) return 0;  // overlong
    if (lead == 0xf4 && second > 0x8f) return 0;  // beyond U+10FFFF
    return length;
}

/// The text as Python's tokenizer sees it: no byte order mark, line feeds only.
std::string with_plain_newlines(std::string_view source) {
    if (source.substr(0, 3) == "\xef\xbb\xbf") source.remove_prefix(3);
    std::string result;
    result.reserve(source.size());
    for (std::size_t i = 0; i < source.size(); ++i) {
        if (source[i] != '\r') {
            result += source[i];
            continue;
        }
        result += '\n';
        if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    }
    return result;
}

/// Cuts at a character border.
std::string clip(std::string_view text, std::size_t bytes) {
    if (text.size() <= bytes) return std::string(text);
    while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) & 0xc0) == 0x80) --bytes;
    return std::string(text.substr(0, bytes)) + "...";
}

std::string_view line_of(std::string_view text, int line) {
    if (line < 1) return {};
    std::size_t begin = 0;
    for (int n = 1; n < line; ++n) {
        const std::size_t end = text.find('\n', begin);
        if (end == std::string_view::npos) return {};
        begin = end + 1;
    }
    return text.substr(begin, std::min(text.find('\n', begin), text.size()) - begin);
}

/// The part of a line around a 1-based byte column, short enough for a message.
std::string snippet(std::string_view line, int column) {
    std::size_t begin = 0;
    if (line.size() > kMaxSnippetBytes && column > static_cast<int>(kMaxSnippetBytes / 2)) {
        begin = std::min(line.size(), static_cast<std::size_t>(column) - kMaxSnippetBytes / 2);
        while (begin < line.size() && (static_cast<unsigned char>(line[begin]) & 0xc0) == 0x80) {
            ++begin;
        }
    }
    return clip(line.substr(begin), kMaxSnippetBytes);
}

SyntaxError make_error(std::string_view text, std::string message, int line, int column) {
    SyntaxError error;
    error.message = clip(message, kMaxMessageBytes);
    error.line = std::max(line, 1);
    error.column = std::max(column, 1);
    error.snippet = snippet(line_of(text, error.line), error.column);
    return error;
}

/// Refuses what must not reach Python: size, NUL bytes, invalid UTF-8.
std::optional<SyntaxError> check_bytes(std::string_view text) {
    if (text.size() > kMaxSourceBytes) {
        return make_error({},
                          "source has " + std::to_string(text.size()) + " bytes; the limit is " +
                              std::to_string(kMaxSourceBytes),
                          1, 1);
    }
    int line = 1;
    std::size_t line_start = 0;
    for (std::size_t i = 0; i < text.size();) {
        const std::size_t length = sequence_length(text, i);
        if (length == 0 || text[i] == '\0') {
            SyntaxError error;
            error.message =
                length == 0 ? "source is not valid UTF-8" : "source contains a NUL byte";
            error.line = line;
            error.column = static_cast<int>(i - line_start) + 1;
            return error;  // without a snippet: its bytes may not be text
        }
        if (text[i] == '\n') {
            ++line;
            line_start = i + 1;
        }
        i += length;
    }
    return std::nullopt;
}

std::string text_of(PyObject* object) {
    PyObject* text = object ? PyObject_Str(object) : nullptr;
    const char* data = text ? PyUnicode_AsUTF8(text) : nullptr;
    std::string result = data ? data : "";
    Py_XDECREF(text);
    PyErr_Clear();
    return result;
}

int int_attribute(PyObject* object, const char* name) {
    PyObject* value = PyObject_GetAttrString(object, name);
    const long number = value && PyLong_Check(value) ? PyLong_AsLong(value) : 0;
    Py_XDECREF(value);
    PyErr_Clear();
    return static_cast<int>(std::clamp(number, 0L, 0x7fffffffL));
}

/// Byte column of the 1-based character column that Python reports.
int byte_column(std::string_view line, int characters) {
    std::size_t at = 0;
    for (int n = 1; n < characters && at < line.size(); ++n) {
        at += std::max<std::size_t>(1, sequence_length(line, at));
    }
    return static_cast<int>(at) + 1;
}

/// Turns the pending Python exception into a value.
SyntaxError take_python_error(std::string_view text) {
    PyObject* type = nullptr;
    PyObject* value = nullptr;
    PyObject* trace = nullptr;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    SyntaxError error;
    if (value && type && PyErr_GivenExceptionMatches(type, PyExc_SyntaxError)) {
        PyObject* message = PyObject_GetAttrString(value, "msg");
        const int line = int_attribute(value, "lineno");
        const int column = int_attribute(value, "offset");
        error = make_error(text, text_of(message), line, byte_column(line_of(text, line), column));
        Py_XDECREF(message);
    } else if (type && (PyErr_GivenExceptionMatches(type, PyExc_RecursionError) ||
                        PyErr_GivenExceptionMatches(type, PyExc_MemoryError))) {
        // The parser reports a full stack as one of these two, without a position.
        error = make_error(text, "too many nested expressions or statements for the parser", 1, 1);
    } else {
        error = make_error(text, "the source cannot be parsed: " + text_of(value), 1, 1);
    }
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
    PyErr_Clear();
    return error;
}

Result<Module, SyntaxError> parse_text(std::string text) {
    const GilGuard gil;
    PyCompilerFlags flags{};
    flags.cf_flags = PyCF_ONLY_AST | PyCF_IGNORE_COOKIE;  // the text is UTF-8 whatever it declares
    flags.cf_feature_version = PY_MINOR_VERSION;
    PyObject* tree = Py_CompileStringExFlags(text.c_str(), "<kernel>", Py_file_input, &flags, -1);
    if (!tree) return Failure{take_python_error(text)};
    Module module;
    std::optional<SyntaxError> error;
    try {
        module.body = Converter(text).module(tree);
    } catch (const ConversionFailure& failure) {
        error = make_error(text, failure.message, failure.line, failure.column);
    }
    Py_DECREF(tree);
    if (error) return Failure{std::move(*error)};
    module.source = std::move(text);
    return module;
}

}  // namespace

Result<Module, SyntaxError> parse(std::string_view source) {
    if (std::optional<SyntaxError> error = check_bytes(source)) return Failure{std::move(*error)};
    start_python();
    return parse_text(with_plain_newlines(source));
}

}  // namespace accelopt::nki
