#pragma once

#include "nki/syntax/ast.h"

namespace accelopt::nki {

/// Calls `visit(child)` for every direct child of an expression.
template <typename Visit>
void for_each_child(const Expr& expr, Visit visit) {
    const auto maybe = [&](const ExprPtr& child) {
        if (child) visit(*child);
    };
    for (const ExprPtr& operand : expr.operands) maybe(operand);
    for (const Keyword& keyword : expr.keywords) maybe(keyword.value);
    for (const Parameter& p : expr.parameters) {
        maybe(p.annotation);
        maybe(p.default_value);
    }
    for (const Generator& generator : expr.generators) {
        maybe(generator.target);
        maybe(generator.iterable);
        for (const ExprPtr& condition : generator.conditions) maybe(condition);
    }
}

/// Calls `visit(expression)` for every direct expression of a statement.
template <typename Visit>
void for_each_expression(const Stmt& stmt, Visit visit) {
    const auto maybe = [&](const ExprPtr& child) {
        if (child) visit(*child);
    };
    for (const ExprPtr& target : stmt.targets) maybe(target);
    maybe(stmt.value);
    maybe(stmt.annotation);
    for (const Parameter& p : stmt.parameters) {
        maybe(p.annotation);
        maybe(p.default_value);
    }
    for (const ExprPtr& decorator : stmt.decorators) maybe(decorator);
    for (const WithItem& item : stmt.items) {
        maybe(item.context);
        maybe(item.variable);
    }
}

}  // namespace accelopt::nki
