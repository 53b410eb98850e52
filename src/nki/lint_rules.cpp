#include <fmt/format.h>

#include <functional>

#include "nki/failure.h"
#include "nki/lint.h"
#include "nki/modules.h"

namespace accelopt::nki {
namespace {

using interp::TraceFailure;

void each_expression(const Expr* expr, const std::function<void(const Expr&)>& visit) {
    if (expr == nullptr) return;
    visit(*expr);
    for (const ExprPtr& operand : expr->operands) each_expression(operand.get(), visit);
    for (const Keyword& keyword : expr->keywords) each_expression(keyword.value.get(), visit);
    for (const Parameter& parameter : expr->parameters)
        each_expression(parameter.default_value.get(), visit);
    for (const Generator& generator : expr->generators) {
        each_expression(generator.iterable.get(), visit);
        for (const ExprPtr& condition : generator.conditions)
            each_expression(condition.get(), visit);
    }
}

void each_statement(const Block& block, const std::function<void(const Stmt&)>& visit) {
    for (const StmtPtr& stmt : block) {
        visit(*stmt);
        each_statement(stmt->body, visit);
        each_statement(stmt->otherwise, visit);
    }
}

bool is_string(const Expr& expr) {
    return expr.kind == ExprKind::kConstant && std::holds_alternative<std::string>(expr.constant);
}

std::int64_t literal_bytes(const Expr& expr) {
    if (expr.kind == ExprKind::kUnsupported)
        if (const auto* source = std::get_if<std::string>(&expr.constant))
            return static_cast<std::int64_t>(source->size());
    if (expr.kind != ExprKind::kConstant) return 0;
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

std::optional<Finding> check_import(const Stmt& stmt, const std::string& path) {
    Finding finding;
    finding.outcome = "rejected";
    if (names_reference(path)) {
        finding.code = "reference_copy";
        finding.message = fmt::format("a kernel cannot import '{}', the problem's reference", path);
        finding.remedy = "compute the result with NKI operations";
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

std::optional<Finding> check_imports(const Stmt& stmt) {
    if (stmt.kind == StmtKind::kImportFrom) {
        if (auto finding = check_import(stmt, stmt.text)) return finding;
        for (const ImportedName& name : stmt.names)
            if (name.name == "reference") return check_import(stmt, "reference");
    }
    if (stmt.kind == StmtKind::kImport)
        for (const ImportedName& name : stmt.names)
            if (auto finding = check_import(stmt, name.name)) return finding;
    return std::nullopt;
}

/// Adds up literals; the finding stands at the one that goes beyond the budget.
class LiteralBudget {
  public:
    void add(const Stmt& stmt) {
        const bool docstring =
            stmt.kind == StmtKind::kExpression && stmt.value && is_string(*stmt.value);
        if (docstring) return;
        const auto visit = [this](const Expr& expr) { add(expr); };
        for (const ExprPtr& target : stmt.targets) each_expression(target.get(), visit);
        each_expression(stmt.value.get(), visit);
        for (const Parameter& parameter : stmt.parameters)
            each_expression(parameter.default_value.get(), visit);
    }
    const std::optional<Finding>& finding() const { return finding_; }

  private:
    void add(const Expr& expr) {
        total_ += literal_bytes(expr);
        if (finding_ || total_ <= kLiteralBudgetBytes) return;
        finding_.emplace();
        finding_->outcome = "rejected";
        finding_->code = "literal_budget";
        finding_->message =
            fmt::format("the literals of the kernel take more than {} bytes", kLiteralBudgetBytes);
        finding_->line = expr.location.line;
        finding_->column = expr.location.column;
        finding_->limit = kLiteralBudgetBytes;
        finding_->remedy = "compute tables in the kernel instead of writing them out";
    }

    std::int64_t total_ = 0;
    std::optional<Finding> finding_;
};

}  // namespace

std::optional<Finding> check_rules(const Module& module) {
    std::optional<Finding> first;
    LiteralBudget literals;
    each_statement(module.body, [&](const Stmt& stmt) {
        if (!first) first = check_imports(stmt);
        literals.add(stmt);
    });
    return first ? first : literals.finding();
}

}  // namespace accelopt::nki
