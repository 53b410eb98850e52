#include "nki/syntax/ast.h"

#include <algorithm>
#include <bit>

namespace accelopt::nki {

namespace {

template <typename T>
std::vector<T> clone_all(const std::vector<T>& items) {
    std::vector<T> result;
    result.reserve(items.size());
    for (const T& item : items) result.push_back(clone(item));
    return result;
}

std::vector<Parameter> clone_parameters(const std::vector<Parameter>& parameters) {
    std::vector<Parameter> result;
    result.reserve(parameters.size());
    for (const Parameter& p : parameters) {
        result.push_back({p.name, p.kind, clone(p.annotation), clone(p.default_value)});
    }
    return result;
}

bool equal_pointer(const ExprPtr& a, const ExprPtr& b) {
    if (!a || !b) return !a && !b;
    return equal(*a, *b);
}

template <typename T, typename Equal>
bool equal_all(const std::vector<T>& a, const std::vector<T>& b, Equal same) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), same);
}

bool equal_expressions(const std::vector<ExprPtr>& a, const std::vector<ExprPtr>& b) {
    return equal_all(a, b, equal_pointer);
}

bool equal_parameters(const std::vector<Parameter>& a, const std::vector<Parameter>& b) {
    return equal_all(a, b, [](const Parameter& x, const Parameter& y) {
        return x.name == y.name && x.kind == y.kind && equal_pointer(x.annotation, y.annotation) &&
               equal_pointer(x.default_value, y.default_value);
    });
}

bool equal_constants(const Constant& a, const Constant& b) {
    const double* x = std::get_if<double>(&a);
    const double* y = std::get_if<double>(&b);
    // By bits: 0.0 and -0.0 are different literals, and a NaN equals itself.
    if (x && y) return std::bit_cast<std::uint64_t>(*x) == std::bit_cast<std::uint64_t>(*y);
    return a == b;
}

}  // namespace

ExprPtr clone(const Expr& expr) {
    auto copy = std::make_unique<Expr>();
    copy->kind = expr.kind;
    copy->location = expr.location;
    copy->text = expr.text;
    copy->constant = expr.constant;
    copy->operands = clone_all(expr.operands);
    copy->keywords.reserve(expr.keywords.size());
    for (const Keyword& k : expr.keywords) copy->keywords.push_back({k.name, clone(k.value)});
    copy->comparators = expr.comparators;
    copy->parameters = clone_parameters(expr.parameters);
    copy->generators.reserve(expr.generators.size());
    for (const Generator& g : expr.generators) {
        copy->generators.push_back({clone(g.target), clone(g.iterable), clone_all(g.conditions)});
    }
    return copy;
}

ExprPtr clone(const ExprPtr& expr) { return expr ? clone(*expr) : nullptr; }

StmtPtr clone(const Stmt& stmt) {
    auto copy = std::make_unique<Stmt>();
    copy->kind = stmt.kind;
    copy->location = stmt.location;
    copy->text = stmt.text;
    copy->targets = clone_all(stmt.targets);
    copy->value = clone(stmt.value);
    copy->annotation = clone(stmt.annotation);
    copy->parameters = clone_parameters(stmt.parameters);
    copy->decorators = clone_all(stmt.decorators);
    copy->names = stmt.names;
    copy->items.reserve(stmt.items.size());
    for (const WithItem& item : stmt.items) {
        copy->items.push_back({clone(item.context), clone(item.variable)});
    }
    copy->body = clone(stmt.body);
    copy->otherwise = clone(stmt.otherwise);
    return copy;
}

Block clone(const Block& block) {
    Block copy;
    copy.reserve(block.size());
    for (const StmtPtr& stmt : block) copy.push_back(stmt ? clone(*stmt) : nullptr);
    return copy;
}

Module clone(const Module& module) { return {clone(module.body), module.source}; }

bool equal(const Expr& a, const Expr& b) {
    return a.kind == b.kind && a.text == b.text && equal_constants(a.constant, b.constant) &&
           a.comparators == b.comparators && equal_expressions(a.operands, b.operands) &&
           equal_all(a.keywords, b.keywords,
                     [](const Keyword& x, const Keyword& y) {
                         return x.name == y.name && equal_pointer(x.value, y.value);
                     }) &&
           equal_parameters(a.parameters, b.parameters) &&
           equal_all(a.generators, b.generators, [](const Generator& x, const Generator& y) {
               return equal_pointer(x.target, y.target) && equal_pointer(x.iterable, y.iterable) &&
                      equal_expressions(x.conditions, y.conditions);
           });
}

bool equal(const Stmt& a, const Stmt& b) {
    return a.kind == b.kind && a.text == b.text && equal_expressions(a.targets, b.targets) &&
           equal_pointer(a.value, b.value) && equal_pointer(a.annotation, b.annotation) &&
           equal_parameters(a.parameters, b.parameters) &&
           equal_expressions(a.decorators, b.decorators) &&
           equal_all(a.names, b.names,
                     [](const ImportedName& x, const ImportedName& y) {
                         return x.name == y.name && x.alias == y.alias;
                     }) &&
           equal_all(a.items, b.items,
                     [](const WithItem& x, const WithItem& y) {
                         return equal_pointer(x.context, y.context) &&
                                equal_pointer(x.variable, y.variable);
                     }) &&
           equal(a.body, b.body) && equal(a.otherwise, b.otherwise);
}

bool equal(const Block& a, const Block& b) {
    return equal_all(a, b, [](const StmtPtr& x, const StmtPtr& y) {
        return (!x || !y) ? !x && !y : equal(*x, *y);
    });
}

bool equal(const Module& a, const Module& b) { return equal(a.body, b.body); }

}  // namespace accelopt::nki
