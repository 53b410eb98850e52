#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <string_view>
#include <utility>

#include "agents/agents.h"
#include "core/error.h"
#include "core/text.h"

namespace accelopt::agents {
namespace {

/// The templates of one role and the placeholders that its request has values for.
struct RoleTemplates {
    const char* role;
    std::vector<std::string> placeholders;
    std::vector<std::string> optional;  ///< that the templates may leave out
};

const std::array<RoleTemplates, 4>& role_templates() {
    static const std::array<RoleTemplates, 4> kRoles = {{
        {"planner",
         {"experiences", "input_shapes", "kernel", "nki_rules", "problem", "profile", "reference"},
         {"analysis", "api", "api_entries"}},
        {"executor",
         {"input_shapes", "kernel", "nki_rules", "plan", "problem", "reference"},
         {"api", "api_entries"}},
        {"fixer",
         {"diagnostics", "input_shapes", "kernel", "nki_rules", "problem", "reference"},
         {"api", "api_entries"}},
        {"summarizer", {"fast_kernel", "problem", "slow_kernel", "speedup"}, {}},
    }};
    return kRoles;
}

/// Shared text that the placeholder nki_rules stands for; has no placeholders itself.
constexpr const char* kRulesName = "nki.rules";

/// A placeholder found in a template: text[begin, end) is "{{name}}".
struct Placeholder {
    std::string name;
    std::size_t begin = 0;
    std::size_t end = 0;
};

std::string place(const std::string& path, const std::string& text, std::size_t at) {
    const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<long>(at), '\n');
    return path + ":" + std::to_string(line);
}

[[noreturn]] void fail(const std::string& where, const std::string& message) {
    throw Error(ErrorSource::kConfig, "prompts", where + ": " + message);
}

/// Finds all placeholders; "{{" that opens none is an error, so that a typing mistake never reaches
/// a model. `path` is for messages.
std::vector<Placeholder> find_placeholders(const std::string& text, const std::string& path) {
    static constexpr std::string_view kNameCharacters = "abcdefghijklmnopqrstuvwxyz0123456789_";
    std::vector<Placeholder> found;
    for (auto at = text.find("{{"); at != std::string::npos; at = text.find("{{", at)) {
        const auto end = text.find_first_not_of(kNameCharacters, at + 2);
        if (end == std::string::npos || end == at + 2 || text.compare(end, 2, "}}") != 0) {
            fail(place(path, text, at), "a placeholder is spelt {{name}}, in lower case");
        }
        found.push_back({text.substr(at + 2, end - at - 2), at, end + 2});
        at = end + 2;
    }
    return found;
}

std::string read_template(const std::string& path) {
    if (!std::filesystem::is_regular_file(path)) fail(path, "the prompt template is missing");
    return read_file(path);
}

void check_known(const Placeholder& placeholder, const std::vector<std::string>& known,
                 const std::string& path, const std::string& text) {
    if (std::find(known.begin(), known.end(), placeholder.name) != known.end()) return;
    std::string message = "unknown placeholder {{" + placeholder.name + "}}";
    const std::string near = nearest_word(placeholder.name, known);
    if (!near.empty()) message += "; did you mean {{" + near + "}}?";
    fail(place(path, text, placeholder.begin), message + " Known here: " + join(known, ", "));
}

}  // namespace

Prompts::Prompts(const std::string& folder) {
    const auto path_of = [&folder](const std::string& name) { return folder + "/" + name + ".md"; };
    texts_[kRulesName] = read_template(path_of(kRulesName));
    for (const auto& placeholder : find_placeholders(texts_[kRulesName], path_of(kRulesName))) {
        check_known(placeholder, {}, path_of(kRulesName), texts_[kRulesName]);
    }
    for (const auto& role : role_templates()) {
        std::set<std::string> unused(role.placeholders.begin(), role.placeholders.end());
        std::vector<std::string> known = role.placeholders;
        known.insert(known.end(), role.optional.begin(), role.optional.end());
        std::sort(known.begin(), known.end());
        std::string last_line;
        for (const char* part : {".system", ".user"}) {
            const std::string name = std::string(role.role) + part;
            const std::string path = path_of(name);
            const std::string text = read_template(path);
            for (const auto& placeholder : find_placeholders(text, path)) {
                check_known(placeholder, known, path, text);
                unused.erase(placeholder.name);
            }
            last_line = place(path, text, text.empty() ? 0 : text.size() - 1);
            texts_[name] = text;
        }
        if (!unused.empty()) {
            fail(last_line, "no template of the " + std::string(role.role) + " uses {{" +
                                *unused.begin() + "}}");
        }
    }
}

const std::string& Prompts::text(const std::string& name) const {
    const auto at = texts_.find(name);
    require(at != texts_.end(), "no such prompt template: " + name);
    return at->second;
}

std::string Prompts::fill(const std::string& name,
                          const std::map<std::string, std::string>& values) const {
    const std::string& source = text(name);
    std::string filled;
    std::size_t copied = 0;
    for (const auto& placeholder : find_placeholders(source, name)) {
        const auto value = values.find(placeholder.name);
        require(value != values.end(), "no value for the placeholder " + placeholder.name);
        filled.append(source, copied, placeholder.begin - copied);
        filled += value->second;
        copied = placeholder.end;
    }
    return filled.append(source, copied);
}

}  // namespace accelopt::agents
