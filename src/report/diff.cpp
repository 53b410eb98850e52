#include "report/diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace accelopt::report {
namespace {

// The trace of the search grows with the square of this; kernels are far below it.
constexpr int kMostEdits = 3000;

using Lines = std::vector<std::string_view>;

/// One line of the script: kept (' '), removed ('-') or added ('+').
struct Edit {
    char kind;
    std::string_view line;
};

/// Lines with their newline, so that a missing last newline is a difference.
Lines lines_of(std::string_view text) {
    Lines lines;
    while (!text.empty()) {
        const auto end = text.find('\n');
        const std::size_t length = end == std::string_view::npos ? text.size() : end + 1;
        lines.push_back(text.substr(0, length));
        text.remove_prefix(length);
    }
    return lines;
}

/// Myers' greedy search over diagonals k = x - y; `trace` holds the furthest x per diagonal before
/// each number of edits.
class ShortestEdit {
  public:
    ShortestEdit(const Lines& before, const Lines& after)
        : before_(before),
          after_(after),
          n_(static_cast<int>(before.size())),
          m_(static_cast<int>(after.size())) {}

    std::vector<Edit> script() {
        if (!search()) return replacement();
        std::vector<Edit> edits;
        int x = n_;
        int y = m_;
        for (int d = static_cast<int>(trace_.size()) - 1; d >= 0; --d) {
            const auto& furthest = trace_[static_cast<std::size_t>(d)];
            const int k = x - y;
            const bool down =
                k == -d || (k != d && at(furthest, d, k - 1) < at(furthest, d, k + 1));
            const int previous_x = d == 0 ? 0 : at(furthest, d, down ? k + 1 : k - 1);
            const int previous_y = d == 0 ? 0 : previous_x - (down ? k + 1 : k - 1);
            while (x > previous_x && y > previous_y) {
                edits.push_back({' ', before_[static_cast<std::size_t>(--x)]});
                --y;
            }
            if (d == 0) break;
            if (down)
                edits.push_back({'+', after_[static_cast<std::size_t>(--y)]});
            else
                edits.push_back({'-', before_[static_cast<std::size_t>(--x)]});
        }
        std::reverse(edits.begin(), edits.end());
        return edits;
    }

  private:
    /// Furthest x on diagonal k before edit d; the row covers -d..d.
    static int at(const std::vector<int>& row, int d, int k) {
        return row[static_cast<std::size_t>(k + d)];
    }

    bool search() {
        const int most = std::min(n_ + m_, kMostEdits);
        std::vector<int> furthest(static_cast<std::size_t>(2 * most + 3), 0);
        const auto cell = [&](int k) -> int& {
            return furthest[static_cast<std::size_t>(k + most + 1)];
        };
        for (int d = 0; d <= most; ++d) {
            std::vector<int> before_step;
            for (int k = -d; k <= d; ++k) before_step.push_back(cell(k));
            trace_.push_back(std::move(before_step));
            for (int k = -d; k <= d; k += 2) {
                const bool down = k == -d || (k != d && cell(k - 1) < cell(k + 1));
                int x = d == 0 ? 0 : (down ? cell(k + 1) : cell(k - 1) + 1);
                int y = x - k;
                while (x < n_ && y < m_ &&
                       before_[static_cast<std::size_t>(x)] ==
                           after_[static_cast<std::size_t>(y)]) {
                    ++x;
                    ++y;
                }
                cell(k) = x;
                if (x >= n_ && y >= m_) return true;
            }
        }
        return false;
    }

    std::vector<Edit> replacement() const {
        std::vector<Edit> edits;
        for (const auto line : before_) edits.push_back({'-', line});
        for (const auto line : after_) edits.push_back({'+', line});
        return edits;
    }

    const Lines& before_;
    const Lines& after_;
    int n_;
    int m_;
    std::vector<std::vector<int>> trace_;
};

std::vector<Edit> edit_script(Lines before, Lines after) {
    std::vector<Edit> edits;
    std::size_t same = 0;
    while (same < before.size() && same < after.size() && before[same] == after[same]) {
        edits.push_back({' ', before[same++]});
    }
    std::vector<Edit> tail;
    while (before.size() > same && after.size() > same && before.back() == after.back()) {
        tail.push_back({' ', before.back()});
        before.pop_back();
        after.pop_back();
    }
    before.erase(before.begin(), before.begin() + static_cast<std::ptrdiff_t>(same));
    after.erase(after.begin(), after.begin() + static_cast<std::ptrdiff_t>(same));
    for (auto& edit : ShortestEdit(before, after).script()) edits.push_back(edit);
    edits.insert(edits.end(), tail.rbegin(), tail.rend());
    return edits;
}

/// "12,5": first line and count; a count of one is left out, an empty range names the line before.
std::string range_text(std::size_t lines_before, std::size_t count) {
    if (count == 1) return fmt::format("{}", lines_before + 1);
    return fmt::format("{},{}", count == 0 ? lines_before : lines_before + 1, count);
}

std::string hunk_text(const std::vector<Edit>& edits, std::size_t from, std::size_t to,
                      std::size_t before_line, std::size_t after_line) {
    std::string body;
    std::size_t removed = 0;
    std::size_t added = 0;
    for (std::size_t i = from; i < to; ++i) {
        removed += edits[i].kind != '+' ? 1 : 0;
        added += edits[i].kind != '-' ? 1 : 0;
        body += edits[i].kind;
        body += edits[i].line;
        if (edits[i].line.empty() || edits[i].line.back() != '\n') {
            body += "\n\\ No newline at end of file\n";
        }
    }
    return fmt::format("@@ -{} +{} @@\n{}", range_text(before_line, removed),
                       range_text(after_line, added), body);
}

}  // namespace

std::string unified_diff(std::string_view before, std::string_view after,
                         const std::string& before_name, const std::string& after_name,
                         int context) {
    if (before == after) return "";
    const auto edits = edit_script(lines_of(before), lines_of(after));
    const auto around = static_cast<std::size_t>(std::max(context, 0));
    std::string text = "--- " + before_name + "\n+++ " + after_name + "\n";
    std::size_t position = 0;
    std::size_t before_line = 0;
    std::size_t after_line = 0;
    const auto advance_to = [&](std::size_t end) {
        for (; position < end; ++position) {
            before_line += edits[position].kind != '+' ? 1 : 0;
            after_line += edits[position].kind != '-' ? 1 : 0;
        }
    };
    for (std::size_t i = 0; i < edits.size();) {
        if (edits[i].kind == ' ') {
            ++i;
            continue;
        }
        // A hunk goes on while the next change is close enough to share its context.
        std::size_t last = i;
        for (std::size_t j = i; j < edits.size() && j <= last + 2 * around + 1; ++j) {
            if (edits[j].kind != ' ') last = j;
        }
        const std::size_t from = i > position + around ? i - around : position;
        const std::size_t to = std::min(edits.size(), last + around + 1);
        advance_to(from);
        text += hunk_text(edits, from, to, before_line, after_line);
        advance_to(to);
        i = to;
    }
    return text;
}

}  // namespace accelopt::report
