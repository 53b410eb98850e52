#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/result.h"
#include "rewrite/rule.h"

namespace accelopt::rewrite {

/// One step of a plan: a rule and its place. The line counts in the kernel as the step before
/// printed it (the first step: in the candidate's source).
struct Step {
    std::string rule;
    int line = 0;
    std::map<std::string, std::int64_t> parameters;
    bool operator==(const Step&) const = default;
};

Step step_of(const Site& site);

/// "rewrite: widen_free_tile at line 31 width 2048; then sigmoid_form at line 40".
std::string plan_line(const std::vector<Step>& steps);
/// Finds the last such line of a text; empty when there is none or it is malformed.
std::vector<Step> parse_plan(const std::string& text);

/// Finds sites in and applies steps to kernel sources. Remembers recent results, since a search
/// asks about the same kernel for every plan. Not for use by several threads.
class Rewriter {
  public:
    /// All sites of all rules; the error says why the source cannot be read.
    Result<std::vector<Site>, std::string> sites(const std::string& source,
                                                 const Shapes& input_shapes);
    /// The printed kernel after the steps.
    Result<std::string, std::string> apply(const std::string& source, const Shapes& input_shapes,
                                           const std::vector<Step>& steps);

  private:
    std::map<std::string, Result<std::vector<Site>, std::string>> sites_;
    std::map<std::string, Result<std::string, std::string>> rewritten_;
};

}  // namespace accelopt::rewrite
