#include "agents/fence.h"

#include <algorithm>
#include <cctype>
#include <optional>

namespace accelopt::agents {
namespace {

struct FenceLine {
    char mark = '`';
    std::size_t length = 0;
    std::size_t indent = 0;
    std::string_view info;
};

std::string_view trim(std::string_view text) {
    const auto first = text.find_first_not_of(" \t\r");
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

std::optional<FenceLine> read_fence_line(std::string_view line) {
    FenceLine fence;
    fence.indent = line.find_first_not_of(" \t");
    if (fence.indent == std::string_view::npos) return std::nullopt;
    line.remove_prefix(fence.indent);
    fence.mark = line[0];
    if (fence.mark != '`' && fence.mark != '~') return std::nullopt;
    fence.length = std::min(line.find_first_not_of(fence.mark), line.size());
    if (fence.length < 3) return std::nullopt;
    fence.info = trim(line.substr(fence.length));
    if (fence.info.find('`') != std::string_view::npos) return std::nullopt;  // inline code
    return fence;
}

/// Follows Python's triple-quoted strings from line to line. It only has to know whether a line
/// begins inside one, so that other tokens are skipped roughly.
class StringTracker {
  public:
    bool inside() const { return quote_ != 0; }

    void read(std::string_view line) {
        for (std::size_t i = 0; i < line.size(); ++i) {
            if (inside()) {
                if (line[i] == '\\') {
                    ++i;
                } else if (triple(line, i) == quote_) {
                    quote_ = 0;
                    i += 2;
                }
            } else if (line[i] == '#') {
                return;
            } else if (const char quote = triple(line, i)) {
                quote_ = quote;
                i += 2;
            } else if (line[i] == '"' || line[i] == '\'') {
                i = skip_string(line, i);
            }
        }
    }

  private:
    static char triple(std::string_view line, std::size_t at) {
        const char mark = line[at];
        const bool three = (mark == '"' || mark == '\'') && at + 2 < line.size() &&
                           line[at + 1] == mark && line[at + 2] == mark;
        return three ? mark : '\0';
    }
    /// Returns the index of the closing quote, or the end of the line.
    static std::size_t skip_string(std::string_view line, std::size_t at) {
        const char mark = line[at];
        for (std::size_t i = at + 1; i < line.size(); ++i) {
            if (line[i] == '\\') {
                ++i;
            } else if (line[i] == mark) {
                return i;
            }
        }
        return line.size();
    }

    char quote_ = 0;
};

std::vector<std::string_view> split_lines(std::string_view text) {
    std::vector<std::string_view> lines;
    while (!text.empty()) {
        const auto end = std::min(text.find('\n'), text.size());
        std::string_view line = text.substr(0, end);
        if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
        lines.push_back(line);
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return lines;
}

/// Returns the line of the closing fence, or lines.size(). `strings`: ignore what stands inside
/// triple-quoted strings.
std::size_t find_close(const std::vector<std::string_view>& lines, std::size_t first,
                       const FenceLine& open, bool strings) {
    StringTracker tracker;
    for (std::size_t i = first; i < lines.size(); ++i) {
        if (!strings || !tracker.inside()) {
            const auto close = read_fence_line(lines[i]);
            if (close && close->mark == open.mark && close->length >= open.length &&
                close->info.empty()) {
                return i;
            }
        }
        if (strings) tracker.read(lines[i]);
    }
    return lines.size();
}

}  // namespace

bool holds_python(const Fence& fence) {
    return fence.language.empty() || fence.language == "python" || fence.language == "py" ||
           fence.language == "python3";
}

std::vector<Fence> find_fences(std::string_view reply) {
    const auto lines = split_lines(reply);
    std::vector<Fence> fences;
    for (std::size_t i = 0; i < lines.size(); ++i) {
        const auto open = read_fence_line(lines[i]);
        if (!open) continue;
        Fence fence;
        fence.line = static_cast<int>(i) + 1;
        for (const char c : open->info.substr(0, open->info.find_first_of(" \t{:"))) {
            fence.language += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        }
        std::size_t close = find_close(lines, i + 1, *open, holds_python(fence));
        // Code with a string that never ends still has its fence.
        if (close == lines.size()) close = find_close(lines, i + 1, *open, false);
        fence.closed = close < lines.size();
        for (std::size_t k = i + 1; k < close; ++k) {
            const auto blank = std::min(lines[k].find_first_not_of(" \t"), lines[k].size());
            fence.text += lines[k].substr(std::min(blank, open->indent));
            fence.text += '\n';
        }
        fences.push_back(std::move(fence));
        i = close;
    }
    return fences;
}

std::string fenced(const std::string& text, const std::string& language) {
    std::size_t longest = 2;
    std::size_t run = 0;
    for (const char c : text) {
        run = c == '`' ? run + 1 : 0;
        longest = std::max(longest, run);
    }
    const std::string fence(longest + 1, '`');
    const bool ends = text.empty() || text.back() == '\n';
    return fence + language + "\n" + text + (ends ? "" : "\n") + fence;
}

}  // namespace accelopt::agents
