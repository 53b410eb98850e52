#include "eval/csv_rows.h"

#include <algorithm>

#include "core/error.h"
#include "core/text.h"

namespace accelopt::eval {
namespace {

/// Splits one line; false for a quote that is not closed, or text behind a closed one.
bool split_fields(const std::string& line, std::vector<std::string>& fields) {
    fields.assign(1, "");
    bool quoted = false;
    bool closed = false;
    for (std::size_t i = 0; i < line.size(); ++i) {
        const char c = line[i];
        if (quoted) {
            if (c != '"') {
                fields.back() += c;
            } else if (i + 1 < line.size() && line[i + 1] == '"') {
                fields.back() += line[++i];
            } else {
                quoted = false;
                closed = true;
            }
        } else if (c == ',') {
            fields.emplace_back();
            closed = false;
        } else if (c == '"' && fields.back().empty() && !closed) {
            quoted = true;
        } else if (closed) {
            return false;
        } else {
            fields.back() += c;
        }
    }
    return !quoted;
}

void check_header(const CsvTable& table, int line) {
    for (std::size_t c = 0; c < table.columns.size(); ++c) {
        const std::string& name = table.columns[c];
        if (name.empty()) table.fail(line, "column " + std::to_string(c + 1) + " has no name");
        const auto first = std::find(table.columns.begin(), table.columns.end(), name);
        if (first != table.columns.begin() + static_cast<std::ptrdiff_t>(c))
            table.fail(line, "two columns are called '" + name + "'");
    }
}

}  // namespace

const std::string& CsvRow::get(const std::string& column) const {
    static const std::string kNone;
    const auto found = fields.find(column);
    return found == fields.end() ? kNone : found->second;
}

void CsvTable::fail(int line, const std::string& what) const {
    throw Error(ErrorSource::kUser, "csv", path + ":" + std::to_string(line) + ": " + what);
}

CsvTable read_csv(const std::string& path) {
    CsvTable table;
    table.path = path;
    int number = 0;
    for (std::string line : split(read_file(path), '\n')) {
        ++number;
        if (!line.empty() && line.back() == '\r') line.pop_back();
        if (line.empty() || line[0] == '#') continue;
        std::vector<std::string> fields;
        if (!split_fields(line, fields))
            table.fail(number, "a quoted field is not closed properly");
        if (table.columns.empty()) {
            table.columns = std::move(fields);
            check_header(table, number);
            continue;
        }
        if (fields.size() != table.columns.size()) {
            table.fail(number, std::to_string(fields.size()) + " fields, the header has " +
                                   std::to_string(table.columns.size()));
        }
        CsvRow row;
        row.line = number;
        for (std::size_t c = 0; c < fields.size(); ++c)
            row.fields[table.columns[c]] = std::move(fields[c]);
        table.rows.push_back(std::move(row));
    }
    if (table.rows.empty()) table.fail(std::max(1, number), "the table has no rows");
    return table;
}

}  // namespace accelopt::eval
