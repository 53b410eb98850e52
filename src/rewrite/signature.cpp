#include "rewrite/signature.h"

#include "nki/syntax/printer.h"
#include "rewrite/build.h"
#include "rewrite/operation.h"

namespace accelopt::rewrite {

using nki::Expr;
using nki::ExprKind;
using nki::Stmt;
using nki::StmtKind;

namespace {

class Canonical {
  public:
    Canonical(const Kernel& kernel, const IntendedChange& change)
        : kernel_(kernel), change_(change) {}

    std::string statement(const Place& place) {
        loops_ = &place.loops;
        const Stmt& stmt = *place.stmt;
        std::string out = std::to_string(static_cast<int>(stmt.kind)) + ":" +
                          std::to_string(place.loops.size()) + " ";
        if (const auto range = kernel_.loop_range(stmt)) {
            LoopRange changed = *range;
            if (change_.range) change_.range(stmt, changed);
            return out + kernel_.callee(*stmt.value) + " " + changed.variable + " " +
                   std::to_string(changed.start) + " " + std::to_string(changed.step) + " " +
                   std::to_string(changed.trips);
        }
        bound_ = stmt.kind == StmtKind::kAssign && stmt.targets.size() == 1 &&
                         stmt.targets[0]->kind == ExprKind::kName
                     ? stmt.targets[0]->text
                     : "";
        out += stmt.text;
        for (const auto& target : stmt.targets) {
            // A target name is a place, not a value.
            out += " " + (target->kind == ExprKind::kName ? target->text : text(*target)) + " =";
        }
        if (stmt.value) out += " " + text(*stmt.value);
        for (const auto& item : stmt.items) out += " with " + text(*item.context);
        return out;
    }

  private:
    std::string text(const Expr& expr) {
        if (const auto number = kernel_.number(expr)) {
            return number->integral ? std::to_string(number->integer)
                                    : "real " + std::to_string(number->real);
        }
        switch (expr.kind) {
            case ExprKind::kSubscript:
                return subscript(expr);
            case ExprKind::kCall:
                return call(expr);
            case ExprKind::kName:
            case ExprKind::kAttribute: {
                if (expr.kind == ExprKind::kName) {
                    const Affine value = affine(kernel_, expr);
                    if (!value.iotas.empty()) return value.key();
                    if (const Expr* looked = index_name(expr)) return text(*looked);
                }
                const std::string path = kernel_.path(expr);
                return path.empty() ? "." + expr.text + "(" + text(*expr.operands[0]) + ")" : path;
            }
            case ExprKind::kBinary:
            case ExprKind::kUnary:
            case ExprKind::kCompare: {
                const Affine value = affine(kernel_, expr);
                if (!value.iotas.empty()) return value.key();
                return children(expr);
            }
            default:
                return children(expr);
        }
    }

    /// A name bound once to a mask or an index that is not affine as a whole: its definition.
    const Expr* index_name(const Expr& name) const {
        const Binding* bound = kernel_.binding(name.text);
        const Expr* value = bound ? bound->only() : nullptr;
        if (!value) return nullptr;
        return value->kind == ExprKind::kCompare || value->kind == ExprKind::kTuple ||
                       (value->kind == ExprKind::kBinary && value->text == "&")
                   ? value
                   : nullptr;
    }

    std::string children(const Expr& expr) {
        std::string out = std::to_string(static_cast<int>(expr.kind)) + "(" + expr.text;
        if (expr.kind == ExprKind::kConstant) return out + nki::print(expr) + ")";
        for (const std::string& comparator : expr.comparators) out += " " + comparator;
        for (const auto& operand : expr.operands) out += " " + (operand ? text(*operand) : "-");
        for (const auto& generator : expr.generators) {
            out += " for " + text(*generator.target) + " in " + text(*generator.iterable);
            for (const auto& condition : generator.conditions) out += " if " + text(*condition);
        }
        return out + ")";
    }

    std::string subscript(const Expr& expr) {
        const Affine value = affine(kernel_, expr);
        if (!value.iotas.empty()) return value.key();
        std::vector<Index> indices = read_indices(kernel_, expr);
        if (change_.access) change_.access(*expr.operands[0], indices, *loops_);
        std::string out = text(*expr.operands[0]);
        for (const Index& index : indices) out += index.key();
        return out;
    }

    std::string call(const Expr& expr) {
        const std::string path = kernel_.callee(expr);
        const CallKind kind = call_kind(path);
        std::string out = (path.empty() ? text(*expr.operands[0]) : path) + "(";
        const std::string bound = std::exchange(bound_, "");
        std::size_t first = 1;
        const bool shaped = kind == CallKind::kAllocate || kind == CallKind::kFill;
        if (shaped) {
            if (auto extents = kernel_.shape(expr)) {
                if (change_.shape) change_.shape(bound, *extents, *loops_);
                for (const std::int64_t extent : *extents) out += std::to_string(extent) + "x";
                if (expr.operands.size() > 1) first = 2;
            }
        }
        for (std::size_t i = first; i < expr.operands.size(); ++i) {
            out += " " + text(*expr.operands[i]);
        }
        for (const auto& keyword : expr.keywords) {
            if (shaped && keyword.name == "shape") continue;
            out += " " + keyword.name + "=" + text(*keyword.value);
        }
        return out + ")";
    }

    const Kernel& kernel_;
    const IntendedChange& change_;
    const std::vector<Stmt*>* loops_ = nullptr;
    std::string bound_;
};

/// Definitions of numbers and indices do nothing by themselves; their uses are spelled out.
bool is_definition(const Kernel& kernel, const Stmt& stmt) {
    if (stmt.kind != StmtKind::kAssign || stmt.targets.size() != 1 ||
        stmt.targets[0]->kind != ExprKind::kName) {
        return false;
    }
    const Binding* bound = kernel.binding(stmt.targets[0]->text);
    if (!bound || !bound->only()) return false;
    const Expr& value = *bound->only();
    return kernel.number(value) || !affine(kernel, value).iotas.empty() ||
           value.kind == ExprKind::kCompare || value.kind == ExprKind::kTuple;
}

}  // namespace

std::vector<std::string> signature(Kernel& kernel, const IntendedChange& change) {
    std::vector<std::string> out;
    Canonical canonical(kernel, change);
    for (const Place& place : places(kernel.body())) {
        const StmtKind kind = place.stmt->kind;
        if (kind == StmtKind::kImport || kind == StmtKind::kImportFrom) continue;
        if (is_definition(kernel, *place.stmt)) {
            out.push_back("definition");
            continue;
        }
        out.push_back(canonical.statement(place));
    }
    return out;
}

}  // namespace accelopt::rewrite
