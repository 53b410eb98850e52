#include "nki/syntax/printer.h"

#include "nki/syntax/expression_printer.h"

namespace accelopt::nki {

namespace {

/// Prints statements, one a line.
class StmtPrinter {
  public:
    void block(const Block& block, int indent);
    void module(const Module& module);
    void stmt(const Stmt& stmt, int indent);
    std::string take() { return std::move(out_); }

  private:
    void line(int indent, const std::string& text) {
        out_.append(static_cast<std::size_t>(indent) * 4, ' ');
        out_ += text;
        out_ += '\n';
    }
    void conditional(const Stmt& stmt, int indent, const char* keyword);
    void function(const Stmt& stmt, int indent);
    void otherwise(const Stmt& stmt, int indent);
    void unsupported(const Stmt& stmt, int indent);
    void expression(const Stmt& stmt, int indent);
    std::string import(const Stmt& stmt) const;
    std::string assignment(const Stmt& stmt);
    std::string with(const Stmt& stmt);

    std::string out_;
    ExprPrinter expr_;
};

void StmtPrinter::block(const Block& block, int indent) {
    if (block.empty()) line(indent, "pass");
    for (const StmtPtr& item : block) stmt(*item, indent);
}

void StmtPrinter::module(const Module& module) {
    const auto spaced = [](const Stmt& stmt) { return stmt.kind == StmtKind::kFunction; };
    for (std::size_t i = 0; i < module.body.size(); ++i) {
        if (i > 0 && (spaced(*module.body[i]) || spaced(*module.body[i - 1]))) out_ += "\n\n";
        stmt(*module.body[i], 0);
    }
}

void StmtPrinter::stmt(const Stmt& stmt, int indent) {
    switch (stmt.kind) {
        case StmtKind::kFunction:
            return function(stmt, indent);
        case StmtKind::kReturn:
            return line(indent, stmt.value ? "return " + expr_.print_open(*stmt.value) : "return");
        case StmtKind::kAssign:
        case StmtKind::kAugAssign:
        case StmtKind::kAnnAssign:
            return line(indent, assignment(stmt));
        case StmtKind::kFor:
            line(indent, "for " + expr_.print_open(*stmt.targets[0]) + " in " +
                             expr_.print_open(*stmt.value) + ":");
            block(stmt.body, indent + 1);
            return otherwise(stmt, indent);
        case StmtKind::kWhile:
            line(indent, "while " + expr_.print(*stmt.value) + ":");
            block(stmt.body, indent + 1);
            return otherwise(stmt, indent);
        case StmtKind::kIf:
            return conditional(stmt, indent, "if ");
        case StmtKind::kWith:
            line(indent, with(stmt));
            return block(stmt.body, indent + 1);
        case StmtKind::kExpression:
            return expression(stmt, indent);
        case StmtKind::kPass:
            return line(indent, "pass");
        case StmtKind::kBreak:
            return line(indent, "break");
        case StmtKind::kContinue:
            return line(indent, "continue");
        case StmtKind::kAssert:
            return line(indent, "assert " + expr_.print(*stmt.value) +
                                    (stmt.annotation ? ", " + expr_.print(*stmt.annotation) : ""));
        case StmtKind::kImport:
            return line(indent, "import " + import(stmt));
        case StmtKind::kImportFrom:
            return line(indent, "from " + stmt.text + " import " + import(stmt));
        case StmtKind::kUnsupported:
            return unsupported(stmt, indent);
    }
}

void StmtPrinter::conditional(const Stmt& stmt, int indent, const char* keyword) {
    line(indent, keyword + expr_.print(*stmt.value) + ":");
    block(stmt.body, indent + 1);
    if (stmt.otherwise.size() == 1 && stmt.otherwise[0]->kind == StmtKind::kIf) {
        return conditional(*stmt.otherwise[0], indent, "elif ");
    }
    otherwise(stmt, indent);
}

void StmtPrinter::otherwise(const Stmt& stmt, int indent) {
    if (stmt.otherwise.empty()) return;
    line(indent, "else:");
    block(stmt.otherwise, indent + 1);
}

void StmtPrinter::function(const Stmt& stmt, int indent) {
    for (const ExprPtr& decorator : stmt.decorators) line(indent, "@" + expr_.print(*decorator));
    line(indent, "def " + stmt.text + "(" + expr_.parameters(stmt.parameters) + ")" +
                     (stmt.value ? " -> " + expr_.print(*stmt.value) : "") + ":");
    block(stmt.body, indent + 1);
}

void StmtPrinter::expression(const Stmt& stmt, int indent) {
    const auto* text = std::get_if<std::string>(&stmt.value->constant);
    if (stmt.value->kind == ExprKind::kConstant && text && text->find('\n') != std::string::npos) {
        return line(indent, "\"\"\"" + escaped(*text, "\"\"\"") + "\"\"\"");
    }
    line(indent, expr_.print_open(*stmt.value));
}

void StmtPrinter::unsupported(const Stmt& stmt, int indent) {
    const auto* source = stmt.value ? std::get_if<std::string>(&stmt.value->constant) : nullptr;
    std::string_view rest = source ? std::string_view(*source) : std::string_view(stmt.text);
    while (true) {
        const std::size_t end = rest.find('\n');
        const std::string text(rest.substr(0, end));
        line(text.empty() ? 0 : indent, text);
        if (end == std::string_view::npos) return;
        rest.remove_prefix(end + 1);
    }
}

std::string StmtPrinter::import(const Stmt& stmt) const {
    std::string result;
    for (const ImportedName& name : stmt.names) {
        if (!result.empty()) result += ", ";
        result += name.name;
        if (!name.alias.empty()) result += " as " + name.alias;
    }
    return result;
}

std::string StmtPrinter::assignment(const Stmt& stmt) {
    if (stmt.kind == StmtKind::kAugAssign) {
        return expr_.print(*stmt.targets[0]) + " " + stmt.text + "= " +
               expr_.print_open(*stmt.value);
    }
    if (stmt.kind == StmtKind::kAnnAssign) {
        return expr_.print(*stmt.targets[0]) + ": " + expr_.print(*stmt.annotation) +
               (stmt.value ? " = " + expr_.print_open(*stmt.value) : "");
    }
    std::string result;
    for (const ExprPtr& target : stmt.targets) result += expr_.print_open(*target) + " = ";
    return result + expr_.print_open(*stmt.value);
}

std::string StmtPrinter::with(const Stmt& stmt) {
    std::string result = "with ";
    for (std::size_t i = 0; i < stmt.items.size(); ++i) {
        const WithItem& item = stmt.items[i];
        if (i > 0) result += ", ";
        const std::string context = expr_.print(*item.context);
        // `with (a, b):` would mean two items.
        result += item.context->kind == ExprKind::kTuple ? "(" + context + ")" : context;
        if (item.variable) result += " as " + expr_.print(*item.variable);
    }
    return result + ":";
}

}  // namespace

std::string print(const Module& module) {
    StmtPrinter printer;
    printer.module(module);
    return printer.take();
}

std::string print(const Stmt& stmt, int indent) {
    StmtPrinter printer;
    printer.stmt(stmt, indent);
    return printer.take();
}

std::string print(const Expr& expr) { return ExprPrinter().print(expr); }

}  // namespace accelopt::nki
