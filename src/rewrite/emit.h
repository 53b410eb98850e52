#pragma once

#include <string>
#include <vector>

#include "nki/syntax/ast.h"
#include "rewrite/algebra.h"

namespace accelopt::rewrite {

/// New code for one elementwise statement: statements before it, and its new value.
struct Replacement {
    std::vector<nki::StmtPtr> before;
    nki::ExprPtr value;
};

/// Makers of single instructions that write where `root` writes; mask and dtype are added by the
/// caller. All read float32 tiles as they stand in the root's block.
nki::ExprPtr emit_activation(Kernel& kernel, const std::string& function, const Term& data,
                             double scale, nki::ExprPtr bias);
/// (data * factor) + constant, as one tensor_scalar.
nki::ExprPtr emit_affine(Kernel& kernel, const Term& data, double factor, double constant);
/// (data * factor) op other.
nki::ExprPtr emit_scaled_pair(Kernel& kernel, const Term& data, double factor,
                              const std::string& op, const Term& other);
/// a op b.
nki::ExprPtr emit_pair(Kernel& kernel, const Term& a, const Term& b, const std::string& op);

/// Puts the replacement in place of the root's value, with the root's mask and dtype, and
/// refreshes.
void replace_value(Kernel& kernel, const Elementwise& root, Replacement replacement);

/// Estimated engine nanoseconds per partition row of all elementwise work, loops multiplied out:
/// only differences between versions of one kernel mean something.
double elementwise_cost(Kernel& kernel);

}  // namespace accelopt::rewrite
