#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace accelopt::store {

/// One column: whole numbers, numbers or texts (any bytes). An absent whole number is -1, an
/// absent number NaN, an absent text "". Truth values are whole numbers 0 and 1.
struct Column {
    using Values =
        std::variant<std::vector<std::int64_t>, std::vector<double>, std::vector<std::string>>;
    std::string name;
    Values values;

    std::size_t size() const;
};

/// A table of equally long columns; a group of an archive file.
class Table {
  public:
    explicit Table(std::string name) : name_(std::move(name)) {}

    const std::string& name() const { return name_; }
    const std::vector<Column>& columns() const { return columns_; }
    std::size_t rows() const { return columns_.empty() ? 0 : columns_.front().size(); }

    /// Adds a column; all must have the same length and different names.
    void add(std::string name, Column::Values values);

    /// Access by name and type; a missing or differently typed column is Error(kExternal, "table")
    /// naming it and the columns there are.
    const std::vector<std::int64_t>& integers(std::string_view column) const;
    const std::vector<double>& numbers(std::string_view column) const;
    const std::vector<std::string>& texts(std::string_view column) const;

  private:
    template <typename T>
    const std::vector<T>& values(std::string_view column) const;

    std::string name_;
    std::vector<Column> columns_;
};

}  // namespace accelopt::store
