#include "store/profile_lists.h"

#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "protocol/profile_members.h"

namespace accelopt::store {
namespace {

using Integers = std::vector<std::int64_t>;
using Numbers = std::vector<double>;
using Texts = std::vector<std::string>;

// The kind of column of a member, and the value of a row.
Column::Values column_for(std::int64_t) { return Integers{}; }
Column::Values column_for(int) { return Integers{}; }
Column::Values column_for(double) { return Numbers{}; }
Column::Values column_for(const std::optional<double>&) { return Numbers{}; }
Column::Values column_for(const std::vector<double>&) { return Numbers{}; }
Column::Values column_for(const std::string&) { return Texts{}; }

void append(Column::Values& values, std::int64_t value, std::size_t) {
    std::get<Integers>(values).push_back(value);
}
void append(Column::Values& values, int value, std::size_t) {
    std::get<Integers>(values).push_back(value);
}
void append(Column::Values& values, double value, std::size_t) {
    std::get<Numbers>(values).push_back(value);
}
void append(Column::Values& values, const std::optional<double>& value, std::size_t) {
    std::get<Numbers>(values).push_back(value.value_or(std::numeric_limits<double>::quiet_NaN()));
}
void append(Column::Values& values, const std::vector<double>& series, std::size_t position) {
    std::get<Numbers>(values).push_back(series.at(position));
}
void append(Column::Values& values, const std::string& value, std::size_t) {
    std::get<Texts>(values).push_back(value);
}

/// A table of entries of type T: the profile, the position in its list, and the members.
template <typename T>
class ListTable {
  public:
    explicit ListTable(std::string name) : table_(std::move(name)) {
        protocol::visit_members(blank_, [&](const char* member, const auto& value) {
            // `kind` is the profile's: a tensor has its own.
            const bool taken = std::string_view(member) == "kind";
            columns_.push_back({taken ? "tensor_kind" : member, column_for(value)});
        });
    }
    /// Adds an entry; of a member that is a series itself, the value at `position`.
    void add(const ProfileRow& row, std::size_t position, const T& entry) {
        candidates_.push_back(row.candidate);
        kinds_.emplace_back(row.kind);
        positions_.push_back(static_cast<std::int64_t>(position));
        std::size_t at = 0;
        protocol::visit_members(entry, [&](const char*, const auto& value) {
            append(columns_[at++].values, value, position);
        });
    }
    void add_all(const ProfileRow& row, const std::vector<T>& entries) {
        for (std::size_t i = 0; i < entries.size(); ++i) add(row, i, entries[i]);
    }
    /// The table; `extra` is a column between the position and the members.
    Table take(std::vector<Column> extra = {}) {
        table_.add("candidate", std::move(candidates_));
        table_.add("kind", std::move(kinds_));
        table_.add("position", std::move(positions_));
        for (auto* columns : {&extra, &columns_}) {
            for (Column& column : *columns) {
                table_.add(std::move(column.name), std::move(column.values));
            }
        }
        return std::move(table_);
    }

  private:
    Table table_;
    const T blank_{};
    Texts candidates_;
    Texts kinds_;
    Integers positions_;
    std::vector<Column> columns_;
};

}  // namespace

std::vector<Table> profile_list_tables(const std::vector<ProfileRow>& rows) {
    ListTable<protocol::LineProfile> lines("profile_lines");
    ListTable<protocol::CriticalPart> path("profile_critical_path");
    ListTable<protocol::TensorTraffic> tensors("profile_tensors");
    ListTable<protocol::Occupancy> occupancy("profile_occupancy");
    Texts memories;
    for (const ProfileRow& row : rows) {
        if (!row.profile->detail) continue;
        const protocol::ProfileDetail& detail = *row.profile->detail;
        lines.add_all(row, detail.lines);
        path.add_all(row, detail.critical_path);
        tensors.add_all(row, detail.tensors);
        for (const auto& [name, memory] :
             {std::pair("sbuf", &detail.sbuf), std::pair("psum", &detail.psum)}) {
            const std::size_t parts = *memory ? (*memory)->series.size() : 0;
            for (std::size_t part = 0; part < parts; ++part) {
                occupancy.add(row, part, **memory);
                memories.emplace_back(name);
            }
        }
    }
    std::vector<Table> tables;
    tables.push_back(lines.take());
    tables.push_back(path.take());
    tables.push_back(tensors.take());
    tables.push_back(occupancy.take({{"memory", std::move(memories)}}));
    return tables;
}

}  // namespace accelopt::store
