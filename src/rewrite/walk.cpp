#include "rewrite/walk.h"

namespace accelopt::rewrite {

using nki::Block;
using nki::Expr;
using nki::ExprKind;
using nki::ExprPtr;
using nki::Stmt;
using nki::StmtKind;

void visit_slots(ExprPtr& slot, const SlotVisitor& visit) {
    if (!slot || !visit(slot) || !slot) return;
    for (ExprPtr& operand : slot->operands) visit_slots(operand, visit);
    for (auto& keyword : slot->keywords) visit_slots(keyword.value, visit);
    for (auto& parameter : slot->parameters) {
        visit_slots(parameter.annotation, visit);
        visit_slots(parameter.default_value, visit);
    }
    for (auto& generator : slot->generators) {
        visit_slots(generator.target, visit);
        visit_slots(generator.iterable, visit);
        for (ExprPtr& condition : generator.conditions) visit_slots(condition, visit);
    }
}

void visit_slots(Stmt& stmt, const SlotVisitor& visit) {
    for (ExprPtr& target : stmt.targets) visit_slots(target, visit);
    visit_slots(stmt.value, visit);
    visit_slots(stmt.annotation, visit);
    for (auto& parameter : stmt.parameters) {
        visit_slots(parameter.annotation, visit);
        visit_slots(parameter.default_value, visit);
    }
    for (ExprPtr& decorator : stmt.decorators) visit_slots(decorator, visit);
    for (auto& item : stmt.items) {
        visit_slots(item.context, visit);
        visit_slots(item.variable, visit);
    }
    visit_slots(stmt.body, visit);
    visit_slots(stmt.otherwise, visit);
}

void visit_slots(Block& block, const SlotVisitor& visit) {
    for (auto& stmt : block) visit_slots(*stmt, visit);
}

void visit(const Expr& expr, const ExprVisitor& visitor) {
    if (!visitor(expr)) return;
    auto below = [&](const ExprPtr& slot) {
        if (slot) visit(*slot, visitor);
    };
    for (const ExprPtr& operand : expr.operands) below(operand);
    for (const auto& keyword : expr.keywords) below(keyword.value);
    for (const auto& parameter : expr.parameters) {
        below(parameter.annotation);
        below(parameter.default_value);
    }
    for (const auto& generator : expr.generators) {
        below(generator.target);
        below(generator.iterable);
        for (const ExprPtr& condition : generator.conditions) below(condition);
    }
}

void visit(const Stmt& stmt, const ExprVisitor& visitor) {
    auto below = [&](const ExprPtr& slot) {
        if (slot) visit(*slot, visitor);
    };
    for (const ExprPtr& target : stmt.targets) below(target);
    below(stmt.value);
    below(stmt.annotation);
    for (const auto& parameter : stmt.parameters) {
        below(parameter.annotation);
        below(parameter.default_value);
    }
    for (const ExprPtr& decorator : stmt.decorators) below(decorator);
    for (const auto& item : stmt.items) {
        below(item.context);
        below(item.variable);
    }
    visit(stmt.body, visitor);
    visit(stmt.otherwise, visitor);
}

void visit(const Block& block, const ExprVisitor& visitor) {
    for (const auto& stmt : block) visit(*stmt, visitor);
}

namespace {

void list_places(Block& block, std::vector<Stmt*>& loops, bool guarded, std::vector<Place>& out) {
    for (std::size_t i = 0; i < block.size(); ++i) {
        Stmt* stmt = block[i].get();
        out.push_back({&block, i, stmt, loops, guarded});
        const bool loop = stmt->kind == StmtKind::kFor;
        if (loop) loops.push_back(stmt);
        list_places(stmt->body, loops, guarded || !loop, out);
        if (loop) loops.pop_back();
        list_places(stmt->otherwise, loops, true, out);
    }
}

}  // namespace

std::vector<Place> places(Block& block) {
    std::vector<Place> out;
    std::vector<Stmt*> loops;
    list_places(block, loops, false, out);
    return out;
}

bool mentions(const Expr& expr, const std::string& name) {
    bool found = false;
    visit(expr, [&](const Expr& node) {
        found = found || (node.kind == ExprKind::kName && node.text == name);
        return !found;
    });
    return found;
}

void collect_names(const Expr& expr, std::set<std::string>& names) {
    visit(expr, [&](const Expr& node) {
        if (node.kind == ExprKind::kName) names.insert(node.text);
        return true;
    });
}

void substitute(ExprPtr& slot, const std::string& name, const Expr& replacement) {
    visit_slots(slot, [&](ExprPtr& node) {
        if (node->kind != ExprKind::kName || node->text != name) return true;
        node = nki::clone(replacement);
        return false;
    });
}

void substitute(Block& block, const std::string& name, const Expr& replacement) {
    visit_slots(block, [&](ExprPtr& node) {
        if (node->kind != ExprKind::kName || node->text != name) return true;
        node = nki::clone(replacement);
        return false;
    });
}

std::string base_name(const Expr& expr) {
    const Expr* node = &expr;
    while (node->kind == ExprKind::kSubscript) node = node->operands[0].get();
    return node->kind == ExprKind::kName ? node->text : "";
}

}  // namespace accelopt::rewrite
