#include "store/table.h"

#include "core/error.h"
#include "core/text.h"

namespace accelopt::store {

std::size_t Column::size() const {
    return std::visit([](const auto& list) { return list.size(); }, values);
}

void Table::add(std::string name, Column::Values values) {
    Column column{std::move(name), std::move(values)};
    require(columns_.empty() || column.size() == rows(), "columns of a table are equally long");
    for (const auto& other : columns_) {
        require(other.name != column.name, "columns of a table have different names");
    }
    columns_.push_back(std::move(column));
}

template <typename T>
const std::vector<T>& Table::values(std::string_view column) const {
    std::vector<std::string> names;
    for (const auto& candidate : columns_) {
        names.push_back(candidate.name);
        if (candidate.name != column) continue;
        if (const auto* list = std::get_if<std::vector<T>>(&candidate.values)) return *list;
    }
    throw Error(ErrorSource::kExternal, "table",
                "table " + name_ + " has no column \"" + std::string(column) +
                    "\" of the wanted type; it has " + join(names, ", "));
}

const std::vector<std::int64_t>& Table::integers(std::string_view column) const {
    return values<std::int64_t>(column);
}
const std::vector<double>& Table::numbers(std::string_view column) const {
    return values<double>(column);
}
const std::vector<std::string>& Table::texts(std::string_view column) const {
    return values<std::string>(column);
}

}  // namespace accelopt::store
