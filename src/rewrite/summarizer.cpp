#include "rewrite/summarizer.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <set>

#include "nki/syntax/parser.h"
#include "nki/syntax/printer.h"

namespace accelopt::rewrite {

namespace {

/// Rewrites tried in the exact search, over all depths: summaries must stay cheap.
constexpr int kTries = 150;
constexpr int kSteps = 3;

std::optional<std::string> hash_of(const std::string& source) {
    const auto module = nki::parse(source);
    return module ? std::optional<std::string>(nki::normalised_hash(*module)) : std::nullopt;
}

/// Depth-first search for the steps that lead to the wanted kernel.
class Search {
 public:
    Search(std::string wanted, const Shapes& shapes, std::set<std::string> gone)
        : wanted_(std::move(wanted)), shapes_(shapes), gone_(std::move(gone)) {}

    bool run(const std::string& source, int depth, std::vector<std::string>& rules) {
        const auto sites = find_sites(source, shapes_);
        if (!sites) return false;
        std::vector<std::pair<std::string, std::string>> next;  // rule, source
        for (const Site& site : *sites) {
            if (!gone_.empty() && depth > 1 && gone_.count(site.rule) == 0) continue;
            if (++tries_ > kTries) return false;
            auto rewritten = apply_steps(source, shapes_, {step_of(site)});
            if (!rewritten) continue;
            const auto hash = hash_of(*rewritten);
            if (!hash || !seen_.insert(*hash).second) continue;
            if (*hash == wanted_) {
                rules.push_back(site.rule);
                return true;
            }
            next.emplace_back(site.rule, std::move(*rewritten));
        }
        if (depth <= 1) return false;
        for (const auto& [rule, text] : next) {
            rules.push_back(rule);
            if (run(text, depth - 1, rules)) return true;
            rules.pop_back();
        }
        return false;
    }

 private:
    std::string wanted_;
    const Shapes& shapes_;
    std::set<std::string> gone_;
    std::set<std::string> seen_;
    int tries_ = 0;
};

std::map<std::string, int> count_rules(const std::vector<Site>& sites) {
    std::map<std::string, int> out;
    for (const Site& site : sites) ++out[site.rule];
    return out;
}

}  // namespace

std::vector<std::string> rules_between(const std::string& from, const std::string& to,
                                       const Shapes& input_shapes) {
    const auto before = find_sites(from, input_shapes);
    const auto after = find_sites(to, input_shapes);
    const auto wanted = hash_of(to);
    if (!before || !after || !wanted) return {};
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
    for (int depth = 1; depth <= kSteps; ++depth) {
        std::vector<std::string> rules;
        Search search(*wanted, input_shapes, {gone.begin(), gone.end()});
        if (search.run(from, depth, rules)) return rules;
    }
    return gone;
}

std::string answer_summarizer(const llm::Context& context) {
    const protocol::Experience& pair = context.pair;
    const std::string& from = pair.positive ? pair.slow_source : pair.fast_source;
    const std::string& to = pair.positive ? pair.fast_source : pair.slow_source;
    const auto rules = rules_between(from, to, context.input_shapes);
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
