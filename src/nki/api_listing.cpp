#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "nki/api.h"
#include "nki/interpreter.h"

namespace accelopt::nki {
namespace {

/// A parameter list as Python writes it.
std::string signature(const interp::ApiParameters& parameters) {
    std::string text;
    bool keywords = false;
    for (const interp::ApiParameters::Parameter& parameter : parameters.list) {
        if (parameter.keyword_only && !keywords) {
            text += text.empty() ? "*" : ", *";
            keywords = true;
        }
        text += (text.empty() ? "" : ", ") + parameter.name + (parameter.optional ? "=..." : "");
    }
    return text;
}

/// Calls body(section, index of an entry) in the order of the table, section by section.
template <class Body>
void each_entry(const interp::ApiTable& table, Body body) {
    std::vector<std::string_view> sections;
    for (const interp::ApiEntry& entry : table.entries())
        if (std::find(sections.begin(), sections.end(), entry.section) == sections.end())
            sections.push_back(entry.section);
    for (const std::string_view section : sections)
        for (std::size_t k = 0; k < table.entries().size(); ++k)
            if (table.entries()[k].section == section) body(section, static_cast<int>(k));
}

const interp::ApiTable& table_or_default(const interp::ApiTable* table) {
    return table != nullptr ? *table : interp::nki1_api();
}

}  // namespace

std::vector<std::string> api_entries() {
    std::vector<std::string> names;
    for (const interp::ApiEntry& entry : interp::nki1_api().entries())
        if (entry.handler != nullptr) names.emplace_back(entry.name);
    std::sort(names.begin(), names.end());
    return names;
}

std::string api_list(const interp::ApiTable* api) {
    const interp::ApiTable& table = table_or_default(api);
    std::string text;
    std::string_view last;
    std::string names;
    std::string parameters;
    const auto flush = [&] {
        if (!names.empty()) text += fmt::format("  {}({})\n", names, parameters);
        names.clear();
    };
    each_entry(table, [&](std::string_view section, int k) {
        if (table[k].handler == nullptr) return;
        const std::string own = signature(table.parameters(k));
        if (section != last || own != parameters) flush();
        if (section != last) text += fmt::format("{}{}:\n", text.empty() ? "" : "\n", section);
        last = section;
        parameters = own;
        names += (names.empty() ? "" : ", ") + std::string(table[k].name);
    });
    flush();
    return text;
}

std::string api_page(const interp::ApiTable* api) {
    const interp::ApiTable& table = table_or_default(api);
    std::string text = fmt::format("# Functions of {}\n", table.version());
    std::string_view last;
    each_entry(table, [&](std::string_view section, int k) {
        const interp::ApiEntry& entry = table[k];
        if (section != last)
            text += fmt::format(
                "\n## {}\n\n| Function | Engine | Result | dtype | Cost |\n|---|---|---|---|---|\n",
                section);
        last = section;
        text += fmt::format("| `{}({})`{} | {} | {} | {} | {} |\n", entry.name,
                            signature(table.parameters(k)),
                            entry.handler == nullptr ? " (not supported)" : "",
                            entry.engine == Engine::kAuto ? "" : to_string(entry.engine),
                            entry.rules.shape, entry.rules.dtype, entry.rules.cost);
    });
    return text;
}

}  // namespace accelopt::nki
