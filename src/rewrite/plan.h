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

/// Applies steps to a source; the result is the printed kernel.
Result<std::string, std::string> apply_steps(const std::string& source, const Shapes& input_shapes,
                                             const std::vector<Step>& steps);

/// All sites of all rules on a source; the error says why it cannot be read.
Result<std::vector<Site>, std::string> find_sites(const std::string& source,
                                                  const Shapes& input_shapes);

}  // namespace accelopt::rewrite
