#pragma once

#include <string>
#include <vector>

#include "llm/message.h"
#include "rewrite/plan.h"

namespace accelopt::rewrite {

/// A site with its weight in the draw.
struct RankedSite {
    Site site;
    double weight = 0;
};

/// Orders sites by what they promise on this profile and by what memory says of their rules.
/// Heaviest first; ties keep their order.
std::vector<RankedSite> rank_sites(const std::vector<Site>& sites,
                                   const std::optional<protocol::Profile>& profile,
                                   const std::vector<protocol::Experience>& experiences);

/// Answers a planner's request: an explained plan whose last line executors read, or a sentence
/// that no rewrite applies.
std::string answer_planner(Rewriter& rewriter, const llm::Context& context);

}  // namespace accelopt::rewrite
