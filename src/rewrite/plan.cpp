#include "rewrite/plan.h"

#include <charconv>
#include <sstream>

#include "nki/syntax/parser.h"
#include "nki/syntax/printer.h"

namespace accelopt::rewrite {

namespace {

constexpr const char* kPrefix = "rewrite: ";
constexpr const char* kSeparator = "; then ";

std::optional<std::int64_t> read_integer(const std::string& text) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return value;
}

/// "RULE at line N [name value]..."
std::optional<Step> parse_step(const std::string& text) {
    std::istringstream words(text);
    Step step;
    std::string at;
    std::string line;
    std::string number;
    if (!(words >> step.rule >> at >> line >> number) || at != "at" || line != "line") {
        return std::nullopt;
    }
    const auto position = read_integer(number);
    if (!position || *position < 1 || *position > 1'000'000'000) return std::nullopt;
    step.line = static_cast<int>(*position);
    std::string name;
    while (words >> name) {
        std::string value;
        if (!(words >> value)) return std::nullopt;
        const auto parameter = read_integer(value);
        if (!parameter) return std::nullopt;
        step.parameters[name] = *parameter;
    }
    return step;
}

std::string syntax_message(const nki::SyntaxError& error) {
    return "line " + std::to_string(error.line) + ": " + error.message;
}

}  // namespace

Step step_of(const Site& site) { return {site.rule, site.line, site.parameters}; }

std::string plan_line(const std::vector<Step>& steps) {
    std::string out = kPrefix;
    for (std::size_t i = 0; i < steps.size(); ++i) {
        if (i > 0) out += kSeparator;
        out += steps[i].rule + " at line " + std::to_string(steps[i].line);
        for (const auto& [name, value] : steps[i].parameters) {
            out += " " + name + " " + std::to_string(value);
        }
    }
    return out;
}

std::vector<Step> parse_plan(const std::string& text) {
    std::string found;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
        if (line.rfind(kPrefix, 0) == 0) found = line.substr(std::string(kPrefix).size());
    }
    std::vector<Step> steps;
    const std::string separator = kSeparator;
    for (std::size_t begin = 0; begin < found.size();) {
        const std::size_t end = std::min(found.find(separator, begin), found.size());
        const auto step = parse_step(found.substr(begin, end - begin));
        if (!step) return {};
        steps.push_back(*step);
        begin = end + separator.size();
    }
    return steps;
}

namespace {

/// Entries kept per table; a table that is full starts over.
constexpr std::size_t kRemembered = 2000;

std::string key_of(const std::string& source, const Shapes& input_shapes) {
    std::string key;
    for (const Shape& shape : input_shapes) {
        for (const std::int64_t extent : shape) key += std::to_string(extent) + "x";
        key += ",";
    }
    return key + "\n" + source;
}

Result<std::string, std::string> apply_step(const std::string& source, const Shapes& input_shapes,
                                            const Step& step) {
    const Rule* rule = find_rule(step.rule);
    if (!rule) return Failure{"there is no rewrite named " + step.rule};
    const auto module = nki::parse(source);
    if (!module) {
        return Failure{"the kernel cannot be parsed: " + syntax_message(module.error())};
    }
    Site site;
    site.rule = step.rule;
    site.line = step.line;
    site.parameters = step.parameters;
    const auto rewritten = rule->apply({*module, input_shapes}, site);
    if (!rewritten) {
        return Failure{step.rule + " does not apply at line " + std::to_string(step.line) + ": " +
                       rewritten.error()};
    }
    return nki::print(*rewritten);
}

Result<std::vector<Site>, std::string> find_all(const std::string& source,
                                                const Shapes& input_shapes) {
    const auto module = nki::parse(source);
    if (!module) return Failure{"the kernel cannot be parsed: " + syntax_message(module.error())};
    std::vector<Site> sites;
    for (const auto& rule : all_rules()) {
        for (Site& site : rule->find({*module, input_shapes})) sites.push_back(std::move(site));
    }
    return sites;
}

}  // namespace

Result<std::string, std::string> Rewriter::apply(const std::string& source,
                                                 const Shapes& input_shapes,
                                                 const std::vector<Step>& steps) {
    std::string text = source;
    for (const Step& step : steps) {
        const std::string key = plan_line({step}) + "\n" + key_of(text, input_shapes);
        auto found = rewritten_.find(key);
        if (found == rewritten_.end()) {
            if (rewritten_.size() >= kRemembered) rewritten_.clear();
            found = rewritten_.emplace(key, apply_step(text, input_shapes, step)).first;
        }
        if (!found->second) return found->second;
        text = *found->second;
    }
    return text;
}

Result<std::vector<Site>, std::string> Rewriter::sites(const std::string& source,
                                                       const Shapes& input_shapes) {
    const std::string key = key_of(source, input_shapes);
    auto found = sites_.find(key);
    if (found == sites_.end()) {
        if (sites_.size() >= kRemembered) sites_.clear();
        found = sites_.emplace(key, find_all(source, input_shapes)).first;
    }
    return found->second;
}

}  // namespace accelopt::rewrite
