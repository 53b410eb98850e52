#include "rewrite/edit.h"

#include <iterator>

#include "rewrite/operation.h"

namespace accelopt::rewrite {

using nki::Block;
using nki::ExprKind;
using nki::Stmt;
using nki::StmtKind;
using nki::StmtPtr;

namespace {

/// An assignment that has no effect but its target.
bool only_assigns(const Kernel& kernel, const Stmt& stmt) {
    if (stmt.kind != StmtKind::kAssign && stmt.kind != StmtKind::kAugAssign) return false;
    if (stmt.targets.size() != 1 || base_name(*stmt.targets[0]).empty()) return false;
    return !kernel.effects(stmt).unknown;
}

void erase_assignments(Kernel& kernel, Block& block, const std::set<std::string>& names) {
    for (std::size_t i = block.size(); i-- > 0;) {
        Stmt& stmt = *block[i];
        if (only_assigns(kernel, stmt) && names.count(base_name(*stmt.targets[0])) > 0) {
            block.erase(block.begin() + static_cast<std::ptrdiff_t>(i));
            continue;
        }
        const bool idle = is_idle(stmt.body);
        erase_assignments(kernel, stmt.body, names);
        if (stmt.kind == StmtKind::kFor && !idle && is_idle(stmt.body)) {
            block.erase(block.begin() + static_cast<std::ptrdiff_t>(i));
        }
    }
}

}  // namespace

bool is_idle(const Block& body) {
    for (const auto& stmt : body) {
        const bool text =
            stmt->kind == StmtKind::kExpression && stmt->value->kind == ExprKind::kConstant;
        if (!text && stmt->kind != StmtKind::kPass) return false;
    }
    return true;
}

std::set<std::string> dead_names(Kernel& kernel) {
    std::set<std::string> candidates;
    for (const Place& place : places(kernel.body())) {
        if (!only_assigns(kernel, *place.stmt)) continue;
        const std::string name = base_name(*place.stmt->targets[0]);
        const Binding* bound = kernel.binding(name);
        if (bound && !bound->parameter && !bound->loop_variable) candidates.insert(name);
    }
    // A view that is written keeps the array it looks into.
    std::set<std::string> out;
    for (const std::string& name : candidates) {
        if (kernel.reads(name) == 0) out.insert(name);
    }
    return out;
}

void remove_dead(Kernel& kernel, const std::set<std::string>& keep) {
    for (;;) {
        std::set<std::string> dead = dead_names(kernel);
        for (const std::string& name : keep) dead.erase(name);
        // Writing through a view writes its array.
        std::erase_if(dead, [&](const std::string& name) {
            if (kernel.memory(name) == name) return false;
            for (const Place& place : places(kernel.body())) {
                for (const auto& target : place.stmt->targets) {
                    if (target->kind == ExprKind::kSubscript && base_name(*target) == name) {
                        return true;
                    }
                }
            }
            return false;
        });
        if (dead.empty()) return;
        erase_assignments(kernel, kernel.body(), dead);
        kernel.refresh();
    }
}

Stmt* statement_at(Kernel& kernel, int line) {
    for (const Place& place : places(kernel.body())) {
        if (place.stmt->location.line == line) return place.stmt;
    }
    return nullptr;
}

std::optional<Place> place_of(Kernel& kernel, const Stmt& stmt) {
    for (const Place& place : places(kernel.body())) {
        if (place.stmt == &stmt) return place;
    }
    return std::nullopt;
}

void insert_before(Block& block, std::size_t index, std::vector<StmtPtr> stmts) {
    block.insert(block.begin() + static_cast<std::ptrdiff_t>(index),
                 std::make_move_iterator(stmts.begin()), std::make_move_iterator(stmts.end()));
}

}  // namespace accelopt::rewrite
