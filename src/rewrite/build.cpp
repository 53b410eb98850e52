#include "rewrite/build.h"

namespace accelopt::rewrite {

using nki::Expr;
using nki::ExprKind;
using nki::ExprPtr;
using nki::Stmt;
using nki::StmtKind;
using nki::StmtPtr;

namespace {

ExprPtr make(ExprKind kind) {
    auto expr = std::make_unique<Expr>();
    expr->kind = kind;
    return expr;
}

}  // namespace

ExprPtr make_name(const std::string& text) {
    ExprPtr expr = make(ExprKind::kName);
    expr->text = text;
    return expr;
}

ExprPtr make_integer(std::int64_t value) {
    // Python has no negative literal: the parser sees a unary minus.
    ExprPtr expr = make(ExprKind::kConstant);
    expr->constant = value < 0 ? -value : value;
    if (value >= 0) return expr;
    ExprPtr minus = make(ExprKind::kUnary);
    minus->text = "-";
    minus->operands.push_back(std::move(expr));
    return minus;
}

ExprPtr make_real(double value) {
    ExprPtr expr = make(ExprKind::kConstant);
    expr->constant = value < 0 ? -value : value;
    if (!(value < 0)) return expr;
    ExprPtr minus = make(ExprKind::kUnary);
    minus->text = "-";
    minus->operands.push_back(std::move(expr));
    return minus;
}

ExprPtr make_none() {
    ExprPtr expr = make(ExprKind::kConstant);
    expr->constant = nki::None{};
    return expr;
}

ExprPtr make_dotted(const std::string& text) {
    std::size_t begin = 0;
    ExprPtr expr;
    while (begin <= text.size()) {
        const std::size_t dot = std::min(text.find('.', begin), text.size());
        const std::string part = text.substr(begin, dot - begin);
        expr = expr ? make_attribute(std::move(expr), part) : make_name(part);
        begin = dot + 1;
    }
    return expr;
}

ExprPtr make_attribute(ExprPtr base, const std::string& text) {
    ExprPtr expr = make(ExprKind::kAttribute);
    expr->text = text;
    expr->operands.push_back(std::move(base));
    return expr;
}

ExprPtr make_binary(const std::string& op, ExprPtr a, ExprPtr b) {
    ExprPtr expr = make(ExprKind::kBinary);
    expr->text = op;
    expr->operands.push_back(std::move(a));
    expr->operands.push_back(std::move(b));
    return expr;
}

ExprPtr make_tuple(std::vector<ExprPtr> items) {
    ExprPtr expr = make(ExprKind::kTuple);
    expr->operands = std::move(items);
    return expr;
}

ExprPtr make_subscript(ExprPtr base, std::vector<ExprPtr> indices) {
    ExprPtr expr = make(ExprKind::kSubscript);
    expr->operands.push_back(std::move(base));
    if (indices.size() == 1) {
        expr->operands.push_back(std::move(indices[0]));
    } else {
        expr->operands.push_back(make_tuple(std::move(indices)));
    }
    return expr;
}

ExprPtr make_full_slice() {
    ExprPtr expr = make(ExprKind::kSlice);
    expr->operands.resize(3);
    return expr;
}

ExprPtr make_call(ExprPtr callee, std::vector<ExprPtr> arguments) {
    ExprPtr expr = make(ExprKind::kCall);
    expr->operands.push_back(std::move(callee));
    for (ExprPtr& argument : arguments) expr->operands.push_back(std::move(argument));
    return expr;
}

void add_keyword(Expr& call, const std::string& name, ExprPtr value) {
    nki::Keyword keyword;
    keyword.name = name;
    keyword.value = std::move(value);
    call.keywords.push_back(std::move(keyword));
}

StmtPtr make_assign(ExprPtr target, ExprPtr value) {
    auto stmt = std::make_unique<Stmt>();
    stmt->kind = StmtKind::kAssign;
    stmt->targets.push_back(std::move(target));
    stmt->value = std::move(value);
    return stmt;
}

std::vector<const Expr*> indices_of(const Expr& subscript) {
    std::vector<const Expr*> out;
    const Expr& index = *subscript.operands[1];
    if (index.kind == ExprKind::kTuple) {
        for (const ExprPtr& item : index.operands) out.push_back(item.get());
    } else {
        out.push_back(&index);
    }
    return out;
}

std::vector<ExprPtr*> index_slots(Expr& subscript) {
    std::vector<ExprPtr*> out;
    ExprPtr& index = subscript.operands[1];
    if (index->kind == ExprKind::kTuple) {
        for (ExprPtr& item : index->operands) out.push_back(&item);
    } else {
        out.push_back(&index);
    }
    return out;
}

}  // namespace accelopt::rewrite
