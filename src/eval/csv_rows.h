#pragma once

#include <map>
#include <string>
#include <vector>

namespace accelopt::eval {

/// One row of a table: its line in the file (from 1) and its fields by column name.
struct CsvRow {
    int line = 0;
    std::map<std::string, std::string> fields;

    /// The field of a column, "" when the table has no such column.
    const std::string& get(const std::string& column) const;
};

/// A table with a header line.
struct CsvTable {
    std::string path;
    std::vector<std::string> columns;
    std::vector<CsvRow> rows;

    /// Throws Error(kUser, "csv") as "PATH:LINE: what".
    [[noreturn]] void fail(int line, const std::string& what) const;
};

/// Reads comma-separated values: a header, one row per line, fields in double quotes where they
/// hold commas or quotes ("" is a quote); empty lines and lines that start with '#' are skipped.
/// Throws Error(kUser, "csv") with file and line for an unclosed quote, a row of another width than
/// the header, an empty or repeated column name, or a file without rows.
CsvTable read_csv(const std::string& path);

}  // namespace accelopt::eval
