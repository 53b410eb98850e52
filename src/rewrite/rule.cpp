#include "rewrite/rule.h"

namespace accelopt::rewrite {

const std::vector<std::unique_ptr<Rule>>& all_rules() {
    static const std::vector<std::unique_ptr<Rule>> kRules = [] {
        std::vector<std::unique_ptr<Rule>> rules;
        rules.push_back(make_widen_free_tile());
        rules.push_back(make_merge_subtiles());
        rules.push_back(make_sigmoid_form());
        rules.push_back(make_fuse_elementwise());
        rules.push_back(make_fuse_scalar_tensor());
        rules.push_back(make_move_factor_out());
        rules.push_back(make_hoist_transpose());
        rules.push_back(make_hoist_invariant());
        rules.push_back(make_reuse_load());
        return rules;
    }();
    return kRules;
}

const Rule* find_rule(const std::string& name) {
    for (const auto& rule : all_rules()) {
        if (rule->name() == name) return rule.get();
    }
    return nullptr;
}

}  // namespace accelopt::rewrite
