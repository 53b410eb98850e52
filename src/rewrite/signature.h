#pragma once

#include <functional>
#include <string>
#include <vector>

#include "rewrite/index.h"
#include "rewrite/kernel.h"

namespace accelopt::rewrite {

/// What a rewrite means to change, applied to the canonical form of the old kernel. A missing
/// function changes nothing.
struct IntendedChange {
    /// A subscript: its base expression and indices, and the loops around it.
    std::function<void(const nki::Expr& base, std::vector<Index>&, const std::vector<nki::Stmt*>&)>
        access;
    /// The shape of an allocation or fill bound to `name` ("" when not bound directly).
    std::function<void(const std::string& name, Shape&, const std::vector<nki::Stmt*>&)> shape;
    std::function<void(const nki::Stmt& loop, LoopRange&)> range;
};

/// Canonical form of the kernel, one line per statement that does something: names that stand for
/// numbers and indices are replaced by what they stand for, so two kernels with equal signatures do
/// the same. With an intended change it is the form the rewritten kernel must have.
std::vector<std::string> signature(Kernel& kernel, const IntendedChange& change = {});

}  // namespace accelopt::rewrite
