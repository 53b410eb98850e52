#include <fmt/format.h>

#include "eval/kernel_checks.h"
#include "nki/syntax/ast.h"

namespace accelopt::eval {

namespace {

using nki::Expr;
using nki::Stmt;

/// Adds up what literals hold, in source order.
class LiteralCounter {
  public:
    void visit(const nki::Block& block) {
        for (const nki::StmtPtr& statement : block) visit(*statement);
    }
    /// Where the budget ran out; line 0: it did not.
    const nki::Location& excess() const { return excess_; }

  private:
    void visit(const Stmt& statement) {
        for (const auto& target : statement.targets) visit(target);
        visit(statement.value);
        visit(statement.annotation);
        visit(statement.parameters);
        for (const auto& decorator : statement.decorators) visit(decorator);
        for (const nki::WithItem& item : statement.items) {
            visit(item.context);
            visit(item.variable);
        }
        visit(statement.body);
        visit(statement.otherwise);
    }

    void visit(const nki::ExprPtr& expression) {
        if (expression != nullptr) visit(*expression);
    }

    void visit(const std::vector<nki::Parameter>& parameters) {
        for (const nki::Parameter& parameter : parameters) {
            visit(parameter.annotation);
            visit(parameter.default_value);
        }
    }

    void visit(const Expr& expression) {
        count(expression);
        for (const auto& operand : expression.operands) visit(operand);
        for (const nki::Keyword& keyword : expression.keywords) visit(keyword.value);
        visit(expression.parameters);
        for (const nki::Generator& generator : expression.generators) {
            visit(generator.target);
            visit(generator.iterable);
            for (const auto& condition : generator.conditions) visit(condition);
        }
    }

    void count(const Expr& expression) {
        constexpr std::int64_t kNumberBytes = 8;
        if (const auto* text = std::get_if<std::string>(&expression.constant)) {
            bytes_ += static_cast<std::int64_t>(text->size());
        } else if (std::holds_alternative<std::int64_t>(expression.constant) ||
                   std::holds_alternative<double>(expression.constant)) {
            bytes_ += kNumberBytes;
        }
        if (bytes_ > kLiteralBudgetBytes && excess_.line == 0) excess_ = expression.location;
    }

    std::int64_t bytes_ = 0;
    nki::Location excess_;
};

}  // namespace

std::optional<nki::Finding> find_literal_excess(const nki::Module& module) {
    LiteralCounter counter;
    counter.visit(module.body);
    if (counter.excess().line == 0) return std::nullopt;
    nki::Finding finding;
    finding.outcome = "rejected";
    finding.code = "literal_budget";
    finding.message = fmt::format(
        "the literals of the kernel hold more than {} bytes: a kernel computes its results, it "
        "does not bring them along",
        kLiteralBudgetBytes);
    finding.line = counter.excess().line;
    finding.column = counter.excess().column;
    finding.limit = kLiteralBudgetBytes;
    finding.remedy = "compute tables from a formula, or load them from an input";
    return finding;
}

}  // namespace accelopt::eval
