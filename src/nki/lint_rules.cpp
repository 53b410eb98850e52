#include <fmt/format.h>

#include <functional>

#include "nki/failure.h"
#include "nki/lint.h"
#include "nki/modules.h"
#include "nki/syntax/children.h"

namespace accelopt::nki {
namespace {

using interp::TraceFailure;

/// The functions that are kernels, as far as the text tells. What helpers import is refused when a
/// kernel calls them.
bool is_kernel(const Stmt& stmt) {
    return stmt.kind == StmtKind::kFunction &&
           (!stmt.decorators.empty() || stmt.text == "kernel" || stmt.text == "optimized_kernel");
}

/// Calls visit(statement, whether it stands in a kernel).
void each_statement(const Block& block, bool inside,
                    const std::function<void(const Stmt&, bool)>& visit) {
    for (const StmtPtr& stmt : block) {
        visit(*stmt, inside);
        const bool within = inside || is_kernel(*stmt);
        each_statement(stmt->body, within, visit);
        each_statement(stmt->otherwise, within, visit);
    }
}

bool is_string(const Expr& expr) {
    return expr.kind == ExprKind::kConstant && std::holds_alternative<std::string>(expr.constant);
}

std::int64_t literal_bytes(const Expr& expr) {
    if (const auto* text = std::get_if<std::string>(&expr.constant))
        return static_cast<std::int64_t>(text->size());
    const bool number = std::holds_alternative<std::int64_t>(expr.constant) ||
                        std::holds_alternative<double>(expr.constant);
    return number ? 8 : 0;
}

/// A module that holds a problem's answer: reference.py, or a numpy version beside the kernels.
bool names_reference(const std::string& module) {
    const std::string last = module.substr(module.rfind('.') + 1);
    return last == "reference" || last.find("_numpy") != std::string::npos ||
           module.starts_with("reference.");
}

std::optional<Finding> check_import(const Stmt& stmt, bool inside, const std::string& path) {
    Finding finding;
    finding.outcome = "rejected";
    if (names_reference(path)) {
        finding.code = "reference_copy";
        finding.message = fmt::format("a kernel cannot import '{}', the problem's reference", path);
        finding.remedy = "compute the result with NKI operations";
    } else if (!inside && interp::is_host_module(path)) {
        return std::nullopt;  // the trace refuses it where it is used
    } else {
        try {
            (void)interp::import_module(path);
            return std::nullopt;
        } catch (const TraceFailure& failure) {
            if (failure.finding.code != "forbidden_api") return std::nullopt;
            finding = failure.finding;
        }
    }
    finding.line = stmt.location.line;
    finding.column = stmt.location.column;
    return finding;
}

std::optional<Finding> check_imports(const Stmt& stmt, bool inside) {
    if (stmt.kind == StmtKind::kImportFrom) {
        if (auto finding = check_import(stmt, inside, stmt.text)) return finding;
        for (const ImportedName& name : stmt.names)
            if (name.name == "reference") return check_import(stmt, inside, "reference");
    }
    if (stmt.kind == StmtKind::kImport)
        for (const ImportedName& name : stmt.names)
            if (auto finding = check_import(stmt, inside, name.name)) return finding;
    return std::nullopt;
}

/// Adds up literals; the finding stands at the one that goes beyond a budget.
class LiteralBudget {
  public:
    void add(const Stmt& stmt) {
        const bool docstring =
            stmt.kind == StmtKind::kExpression && stmt.value && is_string(*stmt.value);
        for_each_expression(stmt, [&](const Expr& expr) { add(expr, docstring); });
    }
    const std::optional<Finding>& finding() const { return finding_; }

  private:
    void add(const Expr& expr, bool docstring) {
        const std::int64_t bytes = literal_bytes(expr);
        all_ += bytes;
        if (!docstring) literals_ += bytes;
        if (literals_ > kLiteralBudgetBytes) report(expr, kLiteralBudgetBytes);
        if (all_ > kTextBudgetBytes) report(expr, kTextBudgetBytes);
        for_each_child(expr, [&](const Expr& child) { add(child, docstring); });
    }

    void report(const Expr& expr, std::int64_t limit) {
        if (finding_) return;
        finding_.emplace();
        finding_->outcome = "rejected";
        finding_->code = "literal_budget";
        finding_->message =
            fmt::format("the literals of the kernel take more than {} bytes", limit);
        finding_->line = expr.location.line;
        finding_->column = expr.location.column;
        finding_->limit = limit;
        finding_->remedy = "compute tables in the kernel instead of writing them out";
    }

    std::int64_t literals_ = 0;
    std::int64_t all_ = 0;  ///< with docstrings
    std::optional<Finding> finding_;
};

}  // namespace

std::optional<Finding> check_rules(const Module& module) {
    std::optional<Finding> first;
    LiteralBudget literals;
    each_statement(module.body, false, [&](const Stmt& stmt, bool inside) {
        if (!first) first = check_imports(stmt, inside);
        literals.add(stmt);
    });
    return first ? first : literals.finding();
}

}  // namespace accelopt::nki
