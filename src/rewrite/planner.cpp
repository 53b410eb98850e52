#include "rewrite/planner.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>

#include "core/rng.h"

namespace accelopt::rewrite {

namespace {

/// Chances that a plan takes a second and a third step: rewrites often help only together (wide
/// tiles need the buffers that fusion frees).
constexpr double kMoreSteps[] = {0.55, 0.45};
/// Each place down the ranking weighs this much less.
constexpr double kRankDecay = 0.9;

struct EngineUse {
    const char* name;
    double share;
};

std::vector<EngineUse> engine_use(const protocol::Profile& profile) {
    return {{"DMA", profile.dma_active_time_percent.value_or(0)},
            {"PE", profile.tensor_engine_active_time_percent.value_or(0)},
            {"ACT", profile.scalar_engine_active_time_percent.value_or(0)},
            {"DVE", profile.vector_engine_active_time_percent.value_or(0)}};
}

bool relieves(const Site& site, const std::string& engine) {
    return (" " + site.relieves + " ").find(" " + engine + " ") != std::string::npos;
}

/// How well a site fits the profile: the busier the engine it relieves, the better.
double profile_factor(const Site& site, const std::optional<protocol::Profile>& profile) {
    if (!profile) return 1;
    double busiest = 0;
    for (const EngineUse& use : engine_use(*profile)) {
        if (relieves(site, use.name)) busiest = std::max(busiest, use.share);
    }
    const bool bound = !profile->bound.empty() && relieves(site, profile->bound);
    return (0.3 + 1.4 * busiest * busiest) * (bound ? 1.5 : 1.0);
}

std::string lower_words(const std::string& text) {
    std::string out;
    for (const char c : text) {
        const auto u = static_cast<unsigned char>(c);
        out += std::isalnum(u) ? static_cast<char>(std::tolower(u)) : ' ';
    }
    return out;
}

double memory_factor(const std::string& rule,
                     const std::vector<protocol::Experience>& experiences) {
    const std::string name = lower_words(rule);
    double factor = 1;
    for (const auto& item : experiences) {
        if (lower_words(item.title).find(name) == std::string::npos) continue;
        const double gain = std::clamp(item.speedup - 1, 0.0, 1.0);
        factor *= item.positive ? 1 + gain : 1 / (1 + 2 * gain);
    }
    return std::clamp(factor, 0.1, 4.0);
}

const RankedSite& draw(const std::vector<RankedSite>& ranked, RandomStream& stream) {
    double total = 0;
    for (const RankedSite& item : ranked) total += item.weight;
    double left = stream.uniform() * total;
    for (const RankedSite& item : ranked) {
        left -= item.weight;
        if (left < 0) return item;
    }
    return ranked.back();
}

std::string percent(double share) {
    char text[16];
    std::snprintf(text, sizeof text, "%.0f%%", 100 * share);
    return text;
}

std::string describe_profile(const std::optional<protocol::Profile>& profile) {
    if (!profile) return "There is no profile of this kernel yet.";
    std::string out = profile->bound.empty() ? "The profile shows"
                                             : "The kernel is bound by " + profile->bound + ":";
    for (const EngineUse& use : engine_use(*profile)) {
        out += std::string(use.name == std::string("DMA") ? " " : ", ") + use.name + " active " +
               percent(use.share);
    }
    return out + ".";
}

}  // namespace

std::vector<RankedSite> rank_sites(const std::vector<Site>& sites,
                                   const std::optional<protocol::Profile>& profile,
                                   const std::vector<protocol::Experience>& experiences) {
    std::map<std::string, int> of_rule;
    for (const Site& site : sites) ++of_rule[site.rule];
    std::vector<RankedSite> ranked;
    for (const Site& site : sites) {
        // A rule with many places must not crowd out the others.
        const double crowd = std::sqrt(static_cast<double>(of_rule[site.rule]));
        ranked.push_back({site, site.benefit * profile_factor(site, profile) *
                                    memory_factor(site.rule, experiences) / crowd});
    }
    std::stable_sort(ranked.begin(), ranked.end(),
                     [](const auto& a, const auto& b) { return a.weight > b.weight; });
    double decay = 1;
    for (RankedSite& item : ranked) {
        item.weight *= decay;
        decay *= kRankDecay;
    }
    return ranked;
}

std::string answer_planner(Rewriter& rewriter, const llm::Context& context) {
    RandomStream stream = RandomStream::keyed(context.seed, "rewrite/planner");
    std::string source = context.source;
    std::vector<Step> steps;
    std::string text = describe_profile(context.profile) + "\n\n";
    for (std::size_t i = 0; i <= std::size(kMoreSteps); ++i) {
        // Drawn whether used or not, so that later draws do not depend on earlier outcomes.
        const bool more = i == 0 || stream.uniform() < kMoreSteps[i - 1];
        if (!more) break;
        const auto sites = rewriter.sites(source, context.input_shapes);
        if (!sites) {
            if (steps.empty()) return "No plan: " + sites.error() + ".\n";
            break;
        }
        std::vector<Site> usable;
        for (const Site& site : *sites) {
            const bool again = std::any_of(steps.begin(), steps.end(), [&](const Step& step) {
                return step.rule == site.rule && step.parameters.count("width") > 0;
            });
            if (!again) usable.push_back(site);
        }
        if (usable.empty()) break;
        const Site site =
            draw(rank_sites(usable, context.profile, context.experiences), stream).site;
        const auto rewritten = rewriter.apply(source, context.input_shapes, {step_of(site)});
        if (!rewritten) break;
        text += (steps.empty() ? "Step: " : "Then: ") + site.what + ". " +
                find_rule(site.rule)->advice() + "\n";
        steps.push_back(step_of(site));
        source = *rewritten;
    }
    if (steps.empty()) {
        return "No plan: none of the rewrites that are known applies to this kernel.\n";
    }
    return text + "\n" + plan_line(steps) + "\n";
}

}  // namespace accelopt::rewrite
