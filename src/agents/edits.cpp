#include "agents/edits.h"

#include <fmt/format.h>

#include <algorithm>

namespace accelopt::agents {
namespace {

enum class Marker { kNone, kSearch, kDivider, kReplace };

std::string_view without_end_blanks(std::string_view line) {
    const auto last = line.find_last_not_of(" \t\r");
    return last == std::string_view::npos ? std::string_view() : line.substr(0, last + 1);
}

/// At least five signs, then the word: models miscount.
Marker marker_of(std::string_view line) {
    line = without_end_blanks(line);
    const auto is = [&](char sign, std::string_view word) {
        const auto signs = std::min(line.find_first_not_of(sign), line.size());
        if (signs < 5) return false;
        std::string_view rest = line.substr(signs);
        if (word.empty()) return rest.empty();
        return rest.size() == word.size() + 1 && rest[0] == ' ' && rest.substr(1) == word;
    };
    if (is('<', "SEARCH")) return Marker::kSearch;
    if (is('=', "")) return Marker::kDivider;
    if (is('>', "REPLACE")) return Marker::kReplace;
    return Marker::kNone;
}

std::vector<std::string_view> lines_of(std::string_view text) {
    std::vector<std::string_view> lines;
    while (!text.empty()) {
        const auto end = std::min(text.find('\n'), text.size());
        lines.push_back(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return lines;
}

struct Scan {
    std::vector<Edit> edits;
    bool open = false;
};

Scan scan(std::string_view reply) {
    Scan result;
    Edit edit;
    enum class Part { kOutside, kSearch, kReplace } part = Part::kOutside;
    int number = 0;
    for (const auto line : lines_of(reply)) {
        ++number;
        const Marker marker = marker_of(line);
        if (marker == Marker::kSearch) {
            edit = {};
            edit.line = number;
            part = Part::kSearch;
        } else if (marker == Marker::kDivider && part == Part::kSearch) {
            part = Part::kReplace;
        } else if (marker == Marker::kReplace && part == Part::kReplace) {
            result.edits.push_back(std::move(edit));
            part = Part::kOutside;
        } else if (part != Part::kOutside) {
            std::string& text = part == Part::kSearch ? edit.search : edit.replace;
            text += without_end_blanks(line);
            text += '\n';
        }
    }
    result.open = part != Part::kOutside;
    return result;
}

/// Lines at which `wanted` stands in `lines`.
std::vector<std::size_t> places(const std::vector<std::string_view>& lines,
                                const std::vector<std::string_view>& wanted) {
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i + wanted.size() <= lines.size(); ++i) {
        const bool equal =
            std::equal(wanted.begin(), wanted.end(), lines.begin() + static_cast<long>(i),
                       [](std::string_view a, std::string_view b) {
                           return without_end_blanks(a) == without_end_blanks(b);
                       });
        if (equal) found.push_back(i);
    }
    return found;
}

}  // namespace

std::vector<Edit> find_edits(std::string_view reply) { return scan(reply).edits; }

bool has_open_edit(std::string_view reply) { return scan(reply).open; }

Result<std::string, std::string> apply_edits(const std::string& source,
                                             const std::vector<Edit>& edits) {
    std::string text = source;
    for (const auto& edit : edits) {
        const auto lines = lines_of(text);
        const auto wanted = lines_of(edit.search);
        const bool empty = std::all_of(wanted.begin(), wanted.end(), [](std::string_view line) {
            return without_end_blanks(line).empty();
        });
        if (empty) {
            return Failure{fmt::format("the edit in line {} searches for nothing", edit.line)};
        }
        const auto found = places(lines, wanted);
        if (found.size() != 1) {
            return Failure{
                fmt::format("the lines that the edit in line {} searches for stand in "
                            "the kernel {} times, not once",
                            edit.line, found.size())};
        }
        std::string edited;
        for (std::size_t i = 0; i < found[0]; ++i) edited.append(lines[i]).push_back('\n');
        edited += edit.replace;
        for (std::size_t i = found[0] + wanted.size(); i < lines.size(); ++i) {
            edited.append(lines[i]).push_back('\n');
        }
        text = std::move(edited);
    }
    return text;
}

}  // namespace accelopt::agents
