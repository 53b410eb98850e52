#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>
#include <vector>

#include "agents/agents.h"

namespace accelopt::agents {
namespace {

/// Longest title kept; what a model writes beyond that is no title.
constexpr std::size_t kMaxTitle = 160;

std::string_view trim(std::string_view text, std::string_view characters = " \t\r\n") {
    const auto first = text.find_first_not_of(characters);
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(characters) - first + 1);
}

std::string lower(std::string_view text) {
    std::string result;
    for (const char c : text) {
        result += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    return result;
}

/// At most kMaxTitle bytes of a text, cut between characters.
std::string cut_title(std::string_view text) {
    if (text.size() <= kMaxTitle) return std::string(text);
    std::size_t end = kMaxTitle;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
    return std::string(text.substr(0, end));
}

/// True for "No optimization found.", "none identified" and their like.
bool says_nothing_found(std::string_view line) {
    static constexpr std::array<std::string_view, 4> kWhat = {"optimization", "optimisation",
                                                              "improvement", "difference"};
    static constexpr std::array<std::string_view, 6> kWhole = {
        "none", "nothing", "n/a", "nothing found", "none found", "nothing to learn"};
    const std::string text = lower(trim(line, " \t\r\n*_#.!:\"'`"));
    if (std::find(kWhole.begin(), kWhole.end(), text) != kWhole.end()) return true;
    if (text.rfind("no ", 0) != 0 && text.rfind("there is no ", 0) != 0 &&
        text.rfind("there are no ", 0) != 0) {
        return false;
    }
    // "No" and what there is none of stand close together: "no clear optimization was found".
    const std::string start = text.substr(0, 60);
    return std::any_of(kWhat.begin(), kWhat.end(), [&start](std::string_view what) {
        return start.find(what) != std::string::npos;
    });
}

struct Title {
    std::string text;
    std::string rest;  ///< of its line
};

/// The title of a line that is a heading or begins with a bold span; empty for any other line.
Title read_title(std::string_view line) {
    line = trim(line);
    if (!line.empty() && line[0] == '#') {
        const auto text = line.find_first_not_of('#');
        if (text == std::string_view::npos) return {};
        line = trim(line.substr(text), " \t#");
        const bool bold = line.size() > 4 && line.rfind("**", 0) == 0 && line.ends_with("**");
        return {std::string(bold ? line.substr(2, line.size() - 4) : line), ""};
    }
    // A list mark may stand before the bold span.
    if (line.rfind("- ", 0) == 0 || line.rfind("1. ", 0) == 0) line = trim(line.substr(2));
    if (line.rfind("**", 0) != 0) return {};
    const auto close = line.find("**", 2);
    if (close == std::string_view::npos || close == 2) return {};
    std::string text(trim(line.substr(2, close - 2)));
    std::string rest(trim(line.substr(close + 2)));
    // "**Title:** Fuse the two loops" names the label in bold and the title after it.
    const std::string label = lower(trim(text, " :"));
    if ((label == "title" || label == "optimization" || label == "summary") && !rest.empty()) {
        return {std::string(trim(rest, " :*")), ""};
    }
    return {std::string(trim(text, " :")), std::string(trim(rest, " :-"))};
}

}  // namespace

void parse_summary(const std::string& reply, protocol::Experience& experience) {
    experience.title.clear();
    experience.text.clear();
    std::string before;
    for (std::size_t begin = 0; begin < reply.size();) {
        const auto end = std::min(reply.find('\n', begin), reply.size());
        const std::string_view line = std::string_view(reply).substr(begin, end - begin);
        begin = end + 1;
        if (before.empty() && says_nothing_found(line)) return;
        Title title = read_title(line);
        if (title.text.empty()) {
            before += line;
            before += '\n';
            if (trim(before).empty()) before.clear();
            continue;
        }
        if (says_nothing_found(title.text)) return;
        const std::string after = begin < reply.size() ? reply.substr(begin) : std::string();
        experience.title = cut_title(title.text);
        experience.text = trim(title.rest + "\n" + after);
        if (experience.text.empty()) experience.text = trim(before);
        if (experience.text.empty()) experience.text = experience.title;
        return;
    }
    // No title anywhere: the first line serves as one.
    const std::string_view text = trim(reply);
    if (text.empty()) return;
    const std::string_view first = text.substr(0, text.find('\n'));
    experience.title = cut_title(first.substr(0, first.find(". ")));
    experience.text = text;
}

}  // namespace accelopt::agents
