#include "rewrite/summarizer.h"

#include <algorithm>
#include <cstdio>
#include <optional>

#include "nki/syntax/parser.h"
#include "nki/syntax/printer.h"

namespace accelopt::rewrite {

namespace {

std::optional<std::string> hash_of(const std::string& source) {
    const auto module = nki::parse(source);
    return module ? std::optional<std::string>(nki::normalised_hash(*module)) : std::nullopt;
}

std::map<std::string, int> count_rules(const std::vector<Site>& sites) {
    std::map<std::string, int> out;
    for (const Site& site : sites) ++out[site.rule];
    return out;
}

}  // namespace

std::vector<std::string> rules_between(Rewriter& rewriter, const std::string& from,
                                       const std::string& to, const Shapes& input_shapes) {
    const auto before = rewriter.sites(from, input_shapes);
    const auto after = rewriter.sites(to, input_shapes);
    const auto wanted = hash_of(to);
    if (!before || !after || !wanted) return {};
    for (const Site& site : *before) {
        const auto rewritten = rewriter.apply(from, input_shapes, {step_of(site)});
        if (rewritten && hash_of(*rewritten) == wanted) return {site.rule};
    }
    const auto had = count_rules(*before);
    const auto has = count_rules(*after);
    std::vector<std::string> gone;
    for (const auto& rule : all_rules()) {
        const auto x = had.find(rule->name());
        const auto y = has.find(rule->name());
        if (x != had.end() && (y == has.end() || y->second < x->second)) {
            gone.push_back(rule->name());
        }
    }
    return gone;
}

std::string answer_summarizer(Rewriter& rewriter, const llm::Context& context) {
    const protocol::Experience& pair = context.pair;
    const std::string& from = pair.positive ? pair.slow_source : pair.fast_source;
    const std::string& to = pair.positive ? pair.fast_source : pair.slow_source;
    const auto rules = rules_between(rewriter, from, to, context.input_shapes);
    if (rules.empty()) return "No optimization found.\n";
    std::vector<std::string> distinct;
    for (const std::string& rule : rules) {
        if (std::find(distinct.begin(), distinct.end(), rule) == distinct.end()) {
            distinct.push_back(rule);
        }
    }
    std::string names;
    for (const std::string& rule : distinct) names += (names.empty() ? "" : " and ") + rule;
    char speedup[32];
    std::snprintf(speedup, sizeof speedup, "%.2f", pair.speedup);
    std::string out = pair.positive ? "**" + names + " pays**\n\n" : "**" + names + " hurts**\n\n";
    for (const std::string& rule : distinct) {
        out += rule + ": " + find_rule(rule)->advice() + "\n";
    }
    out += pair.positive ? std::string("On this kernel it made the predicted run ") + speedup +
                               " times as fast.\n"
                         : std::string("On this kernel it made the predicted run ") + speedup +
                               " times as slow: do not repeat it where the profile looks alike.\n";
    return out;
}

}  // namespace accelopt::rewrite
