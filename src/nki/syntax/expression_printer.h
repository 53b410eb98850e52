#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nki/syntax/ast.h"

namespace accelopt::nki {

/// Binding strength, weakest first (the Python language reference, section 6.17).
enum Precedence {
    kTest = 1,  // conditional, lambda
    kOr,
    kAnd,
    kNot,
    kComparison,
    kBitOr,
    kBitXor,
    kBitAnd,
    kShift,
    kArithmetic,
    kTerm,
    kFactor,
    kPower,
    kAtom
};

/// Escapes for the inside of a string literal; `quote` is the delimiter to protect. A triple
/// quoted literal keeps its line feeds.
std::string escaped(std::string_view text, std::string_view quote, bool double_braces = false);

/// Prints expressions. Inside the braces of an f-string Python 3.11 allows neither a backslash nor
/// the enclosing quotes, so `enclosing_` holds the quotes in use there.
class ExprPrinter {
  public:
    /// `minimum` is the weakest binding that stands here without parentheses.
    std::string print(const Expr& expr, int minimum = kTest);
    /// Where a tuple stands without parentheses: an assignment, a return, an index, a loop.
    std::string print_open(const Expr& expr) {
        if (expr.kind != ExprKind::kTuple || expr.operands.empty()) return print(expr);
        return list(expr.operands) + (expr.operands.size() == 1 ? "," : "");
    }
    std::string parameters(const std::vector<Parameter>& parameters);

  private:
    std::string print(const ExprPtr& expr, int minimum = kTest) {
        return expr ? print(*expr, minimum) : std::string();
    }
    std::string bare(const Expr& expr);
    std::string constant(const Constant& value);
    std::string string(const std::string& value);
    std::string subscript(const Expr& expr);
    std::string slice(const Expr& expr);
    std::string call(const Expr& expr);
    std::string binary(const Expr& expr);
    std::string compare(const Expr& expr);
    std::string dict(const Expr& expr);
    std::string comprehension(const Expr& expr);
    std::string formatted(const Expr& expr);
    std::optional<std::string> formatted_with(const Expr& expr, std::string_view quote);
    std::optional<std::string> formatted_value(const Expr& expr, std::string_view quote);
    bool allowed_here(std::string_view text) const;

    std::string list(const std::vector<ExprPtr>& items) {
        std::string result;
        for (std::size_t i = 0; i < items.size(); ++i) {
            if (i > 0) result += ", ";
            result += print(items[i]);
        }
        return result;
    }

    std::vector<std::string_view> enclosing_;
};

}  // namespace accelopt::nki
