#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "nki/syntax/ast.h"

namespace accelopt::rewrite {

/// Visits expression slots; returns true to descend into the (possibly replaced) expression.
using SlotVisitor = std::function<bool(nki::ExprPtr&)>;
/// Visits expressions; returns true to descend.
using ExprVisitor = std::function<bool(const nki::Expr&)>;

/// Visits `slot` and the slots below it, outermost first. Null slots are skipped.
void visit_slots(nki::ExprPtr& slot, const SlotVisitor& visit);
/// Visits the slots of a statement and of the statements nested in it.
void visit_slots(nki::Stmt& stmt, const SlotVisitor& visit);
/// The same for a block.
void visit_slots(nki::Block& block, const SlotVisitor& visit);

/// Read-only walks of the same order.
void visit(const nki::Expr& expr, const ExprVisitor& visitor);
void visit(const nki::Stmt& stmt, const ExprVisitor& visitor);
void visit(const nki::Block& block, const ExprVisitor& visitor);

/// Where a statement stands: its block, its index there, and the loops around it, outermost first.
/// Pointers stay valid until a block is edited.
struct Place {
    nki::Block* block = nullptr;
    std::size_t index = 0;
    nki::Stmt* stmt = nullptr;
    std::vector<nki::Stmt*> loops;
    bool guarded = false;  ///< inside an `if`, `while`, `with` or nested function
};

/// Lists all statements below `block` in program order.
std::vector<Place> places(nki::Block& block);

/// Says whether `name` occurs in the expression.
bool mentions(const nki::Expr& expr, const std::string& name);
/// Adds every name that occurs in the expression.
void collect_names(const nki::Expr& expr, std::set<std::string>& names);

/// Replaces every occurrence of `name` by a copy of `replacement`.
void substitute(nki::ExprPtr& slot, const std::string& name, const nki::Expr& replacement);
void substitute(nki::Block& block, const std::string& name, const nki::Expr& replacement);

/// Name of the variable at the root of `x`, `x[...]`, `x[...][...]`; "" for anything else.
std::string base_name(const nki::Expr& expr);

}  // namespace accelopt::rewrite
