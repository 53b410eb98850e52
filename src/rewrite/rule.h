#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/result.h"
#include "nki/syntax/ast.h"
#include "rewrite/kernel.h"

namespace accelopt::rewrite {

/// The kernel that rules look at.
struct Subject {
    const nki::Module& module;
    const Shapes& input_shapes;
};

/// A place where a rule applies, named by the line of its statement in the kernel's source.
struct Site {
    std::string rule;
    int line = 0;
    std::map<std::string, std::int64_t> parameters;  ///< e.g. width
    std::string what;                                ///< what would change, for the plan's reader
    std::string relieves;  ///< engines that get less work: "DMA", "PE", "ACT DVE", ...
    double benefit = 1;    ///< rough size of the gain among sites of all rules, > 0
};

/// One rewrite of NKI kernels. Rules read the kernel only; they know no problem.
class Rule {
  public:
    virtual ~Rule() = default;
    virtual std::string name() const = 0;
    /// When and why it helps: one or two sentences.
    virtual std::string advice() const = 0;
    /// Finds the places where the rewrite is legal.
    virtual std::vector<Site> find(const Subject& subject) const = 0;
    /// Makes the rewritten module; the error says why the rewrite does not apply there.
    virtual Result<nki::Module, std::string> apply(const Subject& subject,
                                                   const Site& site) const = 0;
};

/// All rules, in a fixed order.
const std::vector<std::unique_ptr<Rule>>& all_rules();
const Rule* find_rule(const std::string& name);

std::unique_ptr<Rule> make_widen_free_tile();
std::unique_ptr<Rule> make_merge_subtiles();
std::unique_ptr<Rule> make_fuse_elementwise();
std::unique_ptr<Rule> make_fuse_scalar_tensor();
std::unique_ptr<Rule> make_sigmoid_form();
std::unique_ptr<Rule> make_hoist_invariant();
std::unique_ptr<Rule> make_hoist_transpose();
std::unique_ptr<Rule> make_reuse_load();
std::unique_ptr<Rule> make_move_factor_out();

}  // namespace accelopt::rewrite
