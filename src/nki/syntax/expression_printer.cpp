#include "nki/syntax/expression_printer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace accelopt::nki {

namespace {

int binary_precedence(const std::string& op) {
    if (op == "|") return kBitOr;
    if (op == "^") return kBitXor;
    if (op == "&") return kBitAnd;
    if (op == "<<" || op == ">>") return kShift;
    if (op == "+" || op == "-") return kArithmetic;
    if (op == "**") return kPower;
    return kTerm;
}

bool is_negative(const Constant& constant) {
    if (const auto* i = std::get_if<std::int64_t>(&constant)) return *i < 0;
    const auto* d = std::get_if<double>(&constant);
    return d && std::signbit(*d);
}

int precedence(const Expr& expr) {
    switch (expr.kind) {
        case ExprKind::kConditional:
        case ExprKind::kLambda:
            return kTest;
        case ExprKind::kBoolean:
            return expr.text == "or" ? kOr : kAnd;
        case ExprKind::kUnary:
            return expr.text == "not" ? kNot : kFactor;
        case ExprKind::kCompare:
            return kComparison;
        case ExprKind::kBinary:
            return binary_precedence(expr.text);
        case ExprKind::kConstant:
            return is_negative(expr.constant) ? kFactor : kAtom;
        // The rest is an atom, or brings its own brackets.
        case ExprKind::kName:
        case ExprKind::kAttribute:
        case ExprKind::kSubscript:
        case ExprKind::kSlice:
        case ExprKind::kCall:
        case ExprKind::kTuple:
        case ExprKind::kList:
        case ExprKind::kDict:
        case ExprKind::kSet:
        case ExprKind::kStarred:
        case ExprKind::kComprehension:
        case ExprKind::kFormatted:
        case ExprKind::kFormattedValue:
        case ExprKind::kNamed:
        case ExprKind::kUnsupported:
            return kAtom;
    }
    return kAtom;
}

std::string number(double value) {
    if (std::isnan(value)) return "(1e999 - 1e999)";
    if (std::isinf(value)) return value < 0 ? "-1e999" : "1e999";
    std::string text = fmt::format("{}", value);
    if (text.find_first_of(".e") == std::string::npos) text += ".0";
    return text;
}

constexpr std::array<std::string_view, 4> kQuotes = {"\"", "'", "\"\"\"", "'''"};

}  // namespace

std::string escaped(std::string_view text, std::string_view quote, bool double_braces) {
    std::string result;
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (c == '\\') {
            result += "\\\\";
        } else if (c == quote.front()) {
            result += '\\';
            result += c;
        } else if (c == '\n' && quote.size() == 3) {
            result += c;
        } else if (c == '\n') {
            result += "\\n";
        } else if (c == '\t') {
            result += "\\t";
        } else if (byte < 0x20 || byte == 0x7f) {
            result += fmt::format("\\x{:02x}", byte);
        } else {
            result += c;
            if (double_braces && (c == '{' || c == '}')) result += c;
        }
    }
    return result;
}

std::string ExprPrinter::print(const Expr& expr, int minimum) {
    std::string text = bare(expr);
    return precedence(expr) < minimum ? "(" + text + ")" : text;
}

std::string ExprPrinter::bare(const Expr& expr) {
    const auto& parts = expr.operands;
    switch (expr.kind) {
        case ExprKind::kConstant:
            return constant(expr.constant);
        case ExprKind::kName:
            return expr.text;
        case ExprKind::kAttribute: {
            // `1.real` would be a malformed number.
            const bool is_number = parts[0]->kind == ExprKind::kConstant &&
                                   !is_negative(parts[0]->constant) &&
                                   !std::holds_alternative<std::string>(parts[0]->constant);
            const std::string value = print(parts[0], kAtom);
            return (is_number ? "(" + value + ")" : value) + "." + expr.text;
        }
        case ExprKind::kSubscript:
            return subscript(expr);
        case ExprKind::kSlice:
            return slice(expr);
        case ExprKind::kCall:
            return call(expr);
        case ExprKind::kBinary:
            return binary(expr);
        case ExprKind::kUnary:
            if (expr.text == "not") return "not " + print(parts[0], kNot);
            return expr.text + print(parts[0], kFactor);
        case ExprKind::kBoolean: {
            const int own = precedence(expr);
            std::string result;
            for (std::size_t i = 0; i < parts.size(); ++i) {
                if (i > 0) result += " " + expr.text + " ";
                result += print(parts[i], own + 1);
            }
            return result;
        }
        case ExprKind::kCompare:
            return compare(expr);
        case ExprKind::kConditional:
            return print(parts[1], kOr) + " if " + print(parts[0], kOr) + " else " +
                   print(parts[2], kTest);
        case ExprKind::kTuple:
            return "(" + list(parts) + (parts.size() == 1 ? ",)" : ")");
        case ExprKind::kList:
            return "[" + list(parts) + "]";
        case ExprKind::kDict:
            return dict(expr);
        case ExprKind::kSet:
            return parts.empty() ? "{*()}" : "{" + list(parts) + "}";
        case ExprKind::kStarred:
            return "*" + print(parts[0], kBitOr);
        case ExprKind::kLambda: {
            const std::string head = parameters(expr.parameters);
            return "lambda" + (head.empty() ? "" : " " + head) + ": " + print(parts[0]);
        }
        case ExprKind::kComprehension:
            return comprehension(expr);
        case ExprKind::kFormatted:
            return formatted(expr);
        case ExprKind::kFormattedValue: {
            Expr whole;
            whole.kind = ExprKind::kFormatted;
            whole.operands.push_back(clone(expr));
            return formatted(whole);
        }
        case ExprKind::kNamed:
            return "(" + print(parts[0]) + " := " + print(parts[1]) + ")";
        case ExprKind::kUnsupported: {
            const auto* source = std::get_if<std::string>(&expr.constant);
            return "(" + (source ? *source : expr.text) + ")";
        }
    }
    return {};
}

std::string ExprPrinter::constant(const Constant& value) {
    if (std::holds_alternative<None>(value)) return "None";
    if (std::holds_alternative<Ellipsis>(value)) return "...";
    if (const auto* b = std::get_if<bool>(&value)) return *b ? "True" : "False";
    if (const auto* i = std::get_if<std::int64_t>(&value)) return std::to_string(*i);
    if (const auto* d = std::get_if<double>(&value)) return number(*d);
    return string(std::get<std::string>(value));
}

bool ExprPrinter::allowed_here(std::string_view text) const {
    if (enclosing_.empty()) return true;
    if (text.find('\\') != std::string_view::npos) return false;
    return std::none_of(enclosing_.begin(), enclosing_.end(), [&](std::string_view quote) {
        return text.find(quote) != std::string_view::npos ||
               (quote.size() == 1 && text.find('\n') != std::string_view::npos);
    });
}

std::string ExprPrinter::string(const std::string& value) {
    std::string first;
    for (const std::string_view quote : kQuotes) {
        std::string text(quote);
        text += escaped(value, quote);
        text += quote;
        if (allowed_here(text)) return text;
        if (first.empty()) first = std::move(text);
    }
    return first;
}

std::string ExprPrinter::subscript(const Expr& expr) {
    const Expr& index = *expr.operands[1];
    return print(expr.operands[0], kAtom) + "[" + print_open(index) + "]";
}

std::string ExprPrinter::slice(const Expr& expr) {
    std::string result = print(expr.operands[0]) + ":" + print(expr.operands[1]);
    if (expr.operands[2]) result += ":" + print(expr.operands[2]);
    return result;
}

std::string ExprPrinter::call(const Expr& expr) {
    std::string result = print(expr.operands[0], kAtom);
    const auto& parts = expr.operands;
    if (parts.size() == 2 && expr.keywords.empty() && parts[1]->kind == ExprKind::kComprehension &&
        parts[1]->text == "generator") {
        return result + print(parts[1]);  // its own parentheses do
    }
    result += "(";
    std::string_view separator;
    for (std::size_t i = 1; i < parts.size(); ++i) {
        result += separator;
        result += print(parts[i]);
        separator = ", ";
    }
    for (const Keyword& keyword : expr.keywords) {
        result += separator;
        result += keyword.name.empty() ? "**" : keyword.name + "=";
        result += print(keyword.value, keyword.name.empty() ? kBitOr : kTest);
        separator = ", ";
    }
    return result + ")";
}

std::string ExprPrinter::binary(const Expr& expr) {
    const int own = precedence(expr);
    // ** binds to the right, and tighter than a sign on its left but not on its right.
    const bool power = expr.text == "**";
    return print(expr.operands[0], power ? kAtom : own) + " " + expr.text + " " +
           print(expr.operands[1], power ? kFactor : own + 1);
}

std::string ExprPrinter::compare(const Expr& expr) {
    std::string result = print(expr.operands[0], kBitOr);
    for (std::size_t i = 0; i < expr.comparators.size(); ++i) {
        result += " " + expr.comparators[i] + " " + print(expr.operands[i + 1], kBitOr);
    }
    return result;
}

std::string ExprPrinter::dict(const Expr& expr) {
    std::string result = "{";
    for (std::size_t i = 0; i + 1 < expr.operands.size(); i += 2) {
        if (i > 0) result += ", ";
        if (expr.operands[i]) {
            result += print(expr.operands[i]) + ": " + print(expr.operands[i + 1]);
        } else {
            result += "**" + print(expr.operands[i + 1], kBitOr);
        }
    }
    return result + "}";
}

std::string ExprPrinter::comprehension(const Expr& expr) {
    std::string inside = print(expr.operands[0]);
    if (expr.text == "dict") inside += ": " + print(expr.operands[1]);
    for (const Generator& generator : expr.generators) {
        inside += " for " + print_open(*generator.target) + " in " + print(generator.iterable, kOr);
        for (const ExprPtr& condition : generator.conditions) {
            inside += " if " + print(condition, kOr);
        }
    }
    if (expr.text == "list") return "[" + inside + "]";
    if (expr.text == "generator") return "(" + inside + ")";
    return "{" + inside + "}";
}

std::string ExprPrinter::formatted(const Expr& expr) {
    for (const std::string_view quote : kQuotes) {
        if (std::optional<std::string> text = formatted_with(expr, quote)) {
            if (allowed_here(*text)) return *text;
        }
    }
    // Python 3.11 has no literal for this tree (no source leads to it); an f-string that fails to
    // parse is better than one with another meaning.
    return "f\"{\\\"";  // the backslash makes an enclosing f-string try its next quotes
}

std::optional<std::string> ExprPrinter::formatted_with(const Expr& expr, std::string_view quote) {
    std::string result = "f";
    result += quote;
    for (const ExprPtr& part : expr.operands) {
        std::optional<std::string> text;
        if (part->kind == ExprKind::kFormattedValue) {
            text = formatted_value(*part, quote);
        } else if (const auto* s = std::get_if<std::string>(&part->constant)) {
            text = escaped(*s, quote, true);
        }
        if (!text) return std::nullopt;
        result += *text;
    }
    result += quote;
    return result;
}

std::optional<std::string> ExprPrinter::formatted_value(const Expr& expr, std::string_view quote) {
    const Expr& value = *expr.operands[0];
    enclosing_.push_back(quote);
    // The colon of a bare lambda would start a format specification.
    std::string inside = print(value, value.kind == ExprKind::kLambda ? kOr : kTest);
    const bool fits = allowed_here(inside);
    enclosing_.pop_back();
    if (!fits) return std::nullopt;
    std::string result = inside.front() == '{' ? "{ " : "{";
    result += inside;
    if (!expr.comparators.empty()) result += "!" + expr.comparators[0];
    if (expr.operands.size() > 1) {
        result += ":";
        for (const ExprPtr& part : expr.operands[1]->operands) {
            std::optional<std::string> text;
            if (part->kind == ExprKind::kFormattedValue) {
                text = formatted_value(*part, quote);
            } else if (const auto* s = std::get_if<std::string>(&part->constant)) {
                text = escaped(*s, quote);
            }
            if (!text) return std::nullopt;
            result += *text;
        }
    } else if (!expr.text.empty()) {
        result += ":" + escaped(expr.text, quote);
    }
    return result + "}";
}

std::string ExprPrinter::parameters(const std::vector<Parameter>& parameters) {
    std::string result;
    bool star_seen = false;
    const auto add = [&](const std::string& text) {
        if (!result.empty()) result += ", ";
        result += text;
    };
    for (const Parameter& p : parameters) {
        std::string text = p.name;
        if (p.kind == ParameterKind::kVarArgs) {
            text = "*" + text;
            star_seen = true;
        } else if (p.kind == ParameterKind::kKwArgs) {
            text = "**" + text;
        } else if (p.kind == ParameterKind::kKeywordOnly && !star_seen) {
            add("*");
            star_seen = true;
        }
        if (p.annotation) text += ": " + print(*p.annotation);
        if (p.default_value) {
            text += (p.annotation ? " = " : "=") + print(*p.default_value);
        }
        add(text);
    }
    return result;
}

}  // namespace accelopt::nki
