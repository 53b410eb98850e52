#include "protocol/diagnostic.h"

#include <algorithm>
#include <cctype>

namespace accelopt::protocol {
namespace {

/// Longest part of a source line that is shown.
constexpr std::size_t kShownBytes = 160;

bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

/// Where the place that starts at `at` ends: a dotted name, number or string with the brackets that
/// follow it, as far as they close in this line.
std::size_t end_of_place(const std::string& line, std::size_t at) {
    const auto is_word = [&](std::size_t k) {
        const auto c = static_cast<unsigned char>(line[k]);
        return std::isalnum(c) != 0 || c == '_' || c == '.' || c >= 0x80;
    };
    std::size_t end = at;
    while (end < line.size() && is_word(end)) ++end;
    if (end < line.size() && end == at && (line[end] == '"' || line[end] == '\'')) {
        const std::size_t close = line.find(line[end], end + 1);
        return close == std::string::npos ? at + 1 : close + 1;
    }
    if (end == at) return at + 1;
    int open = 0;
    for (std::size_t k = end; k < line.size(); ++k) {
        const char c = line[k];
        if (open == 0 && c != '(' && c != '[') return k;
        if (c == '(' || c == '[' || c == '{') ++open;
        if ((c == ')' || c == ']' || c == '}') && --open == 0) end = k + 1;
    }
    return end;
}

/// The source line with carets under the place, cut around them when it is long.
std::string marked_line(const Diagnostic& d) {
    std::string line = d.snippet;
    for (char& c : line)
        if (static_cast<unsigned char>(c) < 0x20 && c != '\t') c = ' ';
    const std::size_t at = d.column > 0 ? static_cast<std::size_t>(d.column) - 1 : 0;
    const bool marked = d.column > 0 && at <= line.size();
    std::size_t begin = 0;
    if (marked && line.size() > kShownBytes && at > kShownBytes / 2) begin = at - kShownBytes / 2;
    while (begin < line.size() && continues_character(line[begin])) ++begin;
    std::size_t stop = std::min(line.size(), begin + kShownBytes);
    while (stop < line.size() && continues_character(line[stop])) ++stop;
    std::string text = "    " + line.substr(begin, stop - begin) + "\n";
    if (!marked || at < begin) return text;
    const std::size_t end = std::min(end_of_place(line, at), std::max(stop, at + 1));
    text += "    ";
    // Tabs stay tabs and a character of several bytes is one column, so that the carets line up.
    for (std::size_t k = begin; k < at; ++k)
        if (!continues_character(line[k])) text += line[k] == '\t' ? '\t' : ' ';
    text += '^';
    for (std::size_t k = at + 1; k < end && k < line.size(); ++k)
        if (!continues_character(line[k])) text += '~';
    return text + "\n";
}

}  // namespace

std::string render(const Diagnostic& d, const std::string& file_name) {
    std::string text = file_name;
    if (d.line > 0) {
        text += ":" + std::to_string(d.line);
        if (d.column > 0) text += ":" + std::to_string(d.column);
    }
    text += ": " + d.severity + "[" + d.code + "]: " + d.message + "\n";
    if (!d.snippet.empty()) text += marked_line(d);
    std::string about = d.operation;
    for (const auto& shape : d.shapes) {
        about += about.empty() ? "[" : " [";
        for (std::size_t i = 0; i < shape.size(); ++i) {
            about += (i ? ", " : "") + std::to_string(shape[i]);
        }
        about += "]";
    }
    if (d.limit) about += (about.empty() ? "limit " : ", limit ") + std::to_string(*d.limit);
    if (!about.empty()) {
        text +=
            std::string("    ") + (d.operation.empty() ? "about: " : "operation: ") + about + "\n";
    }
    if (!d.remedy.empty()) text += "    remedy: " + d.remedy + "\n";
    return text;
}

}  // namespace accelopt::protocol
