#include "report/grid.h"

#include <algorithm>

#include "core/error.h"
#include "core/text.h"

namespace accelopt::report {
namespace {

/// Width on a terminal: bytes that continue a UTF-8 character take no column.
std::size_t display_width(const std::string& text) {
    return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
        return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
    }));
}

std::string padded(const std::string& text, std::size_t width, bool right) {
    const std::size_t used = display_width(text);
    const std::string gap(width > used ? width - used : 0, ' ');
    return right ? gap + text : text + gap;
}

void trim_right(std::string& line) { line.erase(line.find_last_not_of(' ') + 1); }

std::vector<std::size_t> column_widths(const Grid& grid) {
    std::vector<std::size_t> widths;
    for (std::size_t c = 0; c < grid.columns.size(); ++c) {
        std::size_t width = display_width(grid.columns[c].title);
        for (const auto& row : grid.rows) width = std::max(width, display_width(row[c]));
        widths.push_back(width);
    }
    return widths;
}

std::vector<std::string> titles(const Grid& grid) {
    std::vector<std::string> list;
    for (const auto& column : grid.columns) list.push_back(column.title);
    return list;
}

bool is_total(const Grid& grid, std::size_t row) {
    return grid.last_row_is_total && row + 1 == grid.rows.size() && row > 0;
}

std::string render_text(const Grid& grid) {
    const auto widths = column_widths(grid);
    const auto line_of = [&](const std::vector<std::string>& cells) {
        std::string line;
        for (std::size_t c = 0; c < cells.size(); ++c) {
            if (c > 0) line += "  ";
            line += padded(cells[c], widths[c], grid.columns[c].numeric);
        }
        trim_right(line);
        return line + "\n";
    };
    std::size_t total_width = widths.empty() ? 0 : 2 * (widths.size() - 1);
    for (const std::size_t width : widths) total_width += width;
    const std::string rule = std::string(total_width, '-') + "\n";
    std::string text = grid.caption.empty() ? "" : grid.caption + "\n";
    text += line_of(titles(grid)) + rule;
    for (std::size_t r = 0; r < grid.rows.size(); ++r) {
        if (is_total(grid, r)) text += rule;
        text += line_of(grid.rows[r]);
    }
    return text;
}

std::string csv_cell(const std::string& text) {
    if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
    std::string quoted = "\"";
    for (const char c : text) {
        if (c == '"') quoted += '"';
        quoted += c;
    }
    return quoted + "\"";
}

std::string render_csv(const Grid& grid) {
    const auto line_of = [](const std::vector<std::string>& cells) {
        std::vector<std::string> quoted;
        for (const auto& cell : cells) quoted.push_back(csv_cell(cell));
        return join(quoted, ",") + "\n";
    };
    std::string text = line_of(titles(grid));
    for (const auto& row : grid.rows) text += line_of(row);
    return text;
}

std::string markdown_cell(const std::string& text) {
    std::string escaped;
    for (const char c : text) {
        if (c == '|') escaped += '\\';
        escaped += c == '\n' ? ' ' : c;
    }
    return escaped;
}

std::string render_markdown(const Grid& grid) {
    const auto line_of = [](const std::vector<std::string>& cells) {
        std::string line = "|";
        for (const auto& cell : cells) line += " " + markdown_cell(cell) + " |";
        return line + "\n";
    };
    std::string text = grid.caption.empty() ? "" : grid.caption + "\n\n";
    text += line_of(titles(grid)) + "|";
    for (const auto& column : grid.columns) text += column.numeric ? " ---: |" : " --- |";
    text += "\n";
    for (const auto& row : grid.rows) text += line_of(row);
    return text;
}

std::string latex_cell(const std::string& text) {
    std::string escaped;
    for (const char c : text) {
        switch (c) {
            case '&':
            case '%':
            case '$':
            case '#':
            case '_':
            case '{':
            case '}':
                escaped += std::string("\\") + c;
                break;
            case '~':
                escaped += "\\textasciitilde{}";
                break;
            case '^':
                escaped += "\\textasciicircum{}";
                break;
            case '\\':
                escaped += "\\textbackslash{}";
                break;
            case '<':
                escaped += "\\textless{}";
                break;
            case '>':
                escaped += "\\textgreater{}";
                break;
            case '\n':
                escaped += ' ';
                break;
            default:
                escaped += c;
        }
    }
    return escaped;
}

std::string render_latex(const Grid& grid) {
    const auto line_of = [](const std::vector<std::string>& cells) {
        std::vector<std::string> escaped;
        for (const auto& cell : cells) escaped.push_back(latex_cell(cell));
        return join(escaped, " & ") + " \\\\\n";
    };
    std::string text = "\\begin{tabular}{";
    for (const auto& column : grid.columns) text += column.numeric ? 'r' : 'l';
    text += "}\n\\toprule\n" + line_of(titles(grid)) + "\\midrule\n";
    for (std::size_t r = 0; r < grid.rows.size(); ++r) {
        if (is_total(grid, r)) text += "\\midrule\n";
        text += line_of(grid.rows[r]);
    }
    return text + "\\bottomrule\n\\end{tabular}\n";
}

}  // namespace

const std::vector<std::string>& format_names() {
    static const std::vector<std::string> names = {"text", "csv", "md", "latex"};
    return names;
}

std::string render_grid(const Grid& grid, const std::string& format) {
    for (const auto& row : grid.rows) {
        require(row.size() == grid.columns.size(), "every row of a table fills its columns");
    }
    if (format == "text") return render_text(grid);
    if (format == "csv") return render_csv(grid);
    if (format == "md") return render_markdown(grid);
    if (format == "latex") return render_latex(grid);
    const std::string near = nearest_word(format, format_names());
    throw Error(ErrorSource::kUser, "unknown_format",
                "unknown format \"" + format + "\"" +
                    (near.empty() ? "" : " (did you mean \"" + near + "\"?)") + "; formats are " +
                    join(format_names(), ", "));
}

}  // namespace accelopt::report
