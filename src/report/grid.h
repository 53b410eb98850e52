#pragma once

#include <string>
#include <vector>

namespace accelopt::report {

/// A table of finished cells, before it is laid out.
struct Grid {
    struct Column {
        std::string title;
        bool numeric = false;  ///< aligned to the right
    };
    std::string caption;
    std::vector<Column> columns;
    std::vector<std::vector<std::string>> rows;
    bool last_row_is_total = false;  ///< set apart by a line where the format has one
};

/// Formats a grid can be rendered in: text, csv, md, latex.
const std::vector<std::string>& format_names();

/// Lays a grid out. `text` is aligned for a terminal, `csv` follows RFC 4180, `md` is a Markdown
/// table, `latex` a booktabs tabular. Throws Error(kUser, "unknown_format") with a suggestion.
std::string render_grid(const Grid& grid, const std::string& format);

}  // namespace accelopt::report
