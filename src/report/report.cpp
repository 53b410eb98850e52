#include "report/report.h"

#include "core/error.h"
#include "core/text.h"
#include "report/grid.h"
#include "report/run_tables.h"

namespace accelopt::report {
namespace {

struct NamedTable {
    const char* name;
    Grid (*build)(const store::RunData&);
};

constexpr NamedTable kTables[] = {{"summary", summary_grid},
                                  {"rounds", rounds_grid},
                                  {"outcomes", outcomes_grid},
                                  {"cost", cost_grid},
                                  {"best", best_grid}};

}  // namespace

const std::vector<std::string>& table_names() {
    static const std::vector<std::string> names = [] {
        std::vector<std::string> list;
        for (const auto& table : kTables) list.emplace_back(table.name);
        return list;
    }();
    return names;
}

std::string render_table(const store::RunData& run, const std::string& table,
                         const std::string& format) {
    for (const auto& known : kTables) {
        if (table == known.name) return render_grid(known.build(run), format);
    }
    const std::string near = nearest_word(table, table_names());
    throw Error(ErrorSource::kUser, "unknown_table",
                "unknown table \"" + table + "\"" +
                    (near.empty() ? "" : " (did you mean \"" + near + "\"?)") + "; tables are " +
                    join(table_names(), ", "));
}

}  // namespace accelopt::report
