#include <functional>

#include "nki/builtins.h"
#include "nki/code.h"
#include "nki/failure.h"

namespace accelopt::nki::interp {

int Names::intern(std::string_view name) {
    const auto [it, added] = ids_.try_emplace(std::string(name), static_cast<int>(texts_.size()));
    if (added) texts_.push_back(it->first);
    return it->second;
}

namespace {

struct OpName {
    const char* text;
    Op op;
};
constexpr OpName kBinaryOps[] = {
    {"+", Op::kAdd},          {"-", Op::kSubtract}, {"*", Op::kMultiply}, {"/", Op::kDivide},
    {"//", Op::kFloorDivide}, {"%", Op::kModulo},   {"**", Op::kPower},   {"@", Op::kMatMul},
    {"&", Op::kBitAnd},       {"|", Op::kBitOr},    {"^", Op::kBitXor},   {"<<", Op::kShiftLeft},
    {">>", Op::kShiftRight}};
constexpr OpName kUnaryOps[] = {
    {"-", Op::kNegative}, {"+", Op::kPositive}, {"~", Op::kInvert}, {"not", Op::kNot}};
constexpr OpName kCompareOps[] = {
    {"==", Op::kEqual},  {"!=", Op::kNotEqual},     {"<", Op::kLess}, {"<=", Op::kLessEqual},
    {">", Op::kGreater}, {">=", Op::kGreaterEqual}, {"is", Op::kIs},  {"is not", Op::kIsNot},
    {"in", Op::kIn},     {"not in", Op::kNotIn}};

template <std::size_t N>
bool find_op(const OpName (&table)[N], const std::string& text, Op& op) {
    for (const OpName& entry : table) {
        if (text != entry.text) continue;
        op = entry.op;
        return true;
    }
    return false;
}

/// Calls `bind` for every name a target expression binds.
void each_target(const Expr& target, const std::function<void(const std::string&)>& bind) {
    if (target.kind == ExprKind::kName) bind(target.text);
    if (target.kind == ExprKind::kTuple || target.kind == ExprKind::kList ||
        target.kind == ExprKind::kStarred)
        for (const ExprPtr& item : target.operands) each_target(*item, bind);
}

/// Calls `bind` for the names that := binds inside an expression (also in comprehensions).
void each_named(const Expr& expr, const std::function<void(const std::string&)>& bind) {
    if (expr.kind == ExprKind::kNamed) each_target(*expr.operands[0], bind);
    if (expr.kind == ExprKind::kLambda) return;
    for (const ExprPtr& kid : expr.operands)
        if (kid) each_named(*kid, bind);
    for (const Keyword& keyword : expr.keywords) each_named(*keyword.value, bind);
    for (const Generator& generator : expr.generators) {
        each_named(*generator.iterable, bind);
        for (const ExprPtr& condition : generator.conditions) each_named(*condition, bind);
    }
}

/// Calls `bind` for the names that the statements of one scope bind.
void each_bound(const Block& block, const std::function<void(const std::string&)>& bind) {
    for (const StmtPtr& stmt : block) {
        if (stmt->kind == StmtKind::kFunction) {
            bind(stmt->text);
            continue;
        }
        for (const ExprPtr& target : stmt->targets) {
            each_target(*target, bind);
            each_named(*target, bind);
        }
        if (stmt->value) each_named(*stmt->value, bind);
        for (const WithItem& item : stmt->items)
            if (item.variable) each_target(*item.variable, bind);
        if (stmt->kind == StmtKind::kImport || stmt->kind == StmtKind::kImportFrom) {
            for (const ImportedName& name : stmt->names)
                bind(name.alias.empty() ? name.name.substr(0, name.name.find('.')) : name.alias);
        }
        each_bound(stmt->body, bind);
        each_bound(stmt->otherwise, bind);
    }
}

std::string dotted(const Expr* expr) {
    if (expr == nullptr) return {};
    if (expr->kind == ExprKind::kName) return expr->text;
    if (expr->kind == ExprKind::kAttribute) {
        const std::string base = dotted(expr->operands[0].get());
        return base.empty() ? std::string() : base + "." + expr->text;
    }
    return {};
}

struct Scope {
    Scope* parent = nullptr;
    FunctionCode* code = nullptr;
    std::unordered_map<std::string, int> locals;
    std::vector<std::unordered_map<std::string, int>> overlays;  ///< of open comprehensions
    bool module = false;

    const int* find(const std::string& name) const {
        for (auto it = overlays.rbegin(); it != overlays.rend(); ++it)
            if (const auto found = it->find(name); found != it->end()) return &found->second;
        const auto found = locals.find(name);
        return found == locals.end() ? nullptr : &found->second;
    }
};

class Lowering {
  public:
    Lowering(Code& code, Heap& heap) : code_(code), heap_(heap) {}

    void module(const Module& module) {
        FunctionCode& function = code_.functions.emplace_back();
        function.name = "<module>";
        Scope scope;
        scope.code = &function;
        scope.module = true;
        scope_ = &scope;
        each_bound(module.body, [&](const std::string& name) { declare(name); });
        function.body = block(module.body);
        for (const auto& [name, slot] : scope.locals)
            code_.globals.emplace(code_.names.intern(name), slot);
        code_.module = &function;
        scope_ = nullptr;
    }

  private:
    int declare(const std::string& name) {
        const auto [it, added] = scope_->locals.try_emplace(name, scope_->code->slots);
        if (added) ++scope_->code->slots;
        return it->second;
    }

    Node& node(NodeKind kind, const Location& location) {
        Node& made = code_.nodes.emplace_back();
        made.kind = kind;
        made.line = location.line;
        made.column = location.column;
        made.id = static_cast<int>(code_.nodes.size()) - 1;
        return made;
    }

    Node* name(const std::string& text, const Location& location) {
        Node& made = node(NodeKind::kUndefinedName, location);
        made.name = code_.names.intern(text);
        int hops = 0;
        for (const Scope* scope = scope_; scope != nullptr; scope = scope->parent) {
            if (const int* slot = scope->find(text)) {
                made.slot = *slot;
                made.hops = hops;
                made.kind = scope->module ? NodeKind::kGlobal
                            : hops == 0   ? NodeKind::kLocal
                                          : NodeKind::kOuter;
                return &made;
            }
            ++hops;
        }
        made.slot = builtin_id(text);
        if (made.slot >= 0) made.kind = NodeKind::kBuiltinName;
        return &made;
    }

    Node* maybe(const ExprPtr& expr) { return expr ? this->expr(*expr) : nullptr; }

    Node* expr(const Expr& e) {
        switch (e.kind) {
            case ExprKind::kConstant:
                return constant(e);
            case ExprKind::kName:
                return name(e.text, e.location);
            case ExprKind::kAttribute: {
                Node* made = plain(NodeKind::kAttribute, e);
                made->name = code_.names.intern(e.text);
                return made;
            }
            case ExprKind::kSubscript:
                return subscript(e);
            case ExprKind::kSlice:
                return plain(NodeKind::kSlice, e);
            case ExprKind::kCall:
                return call(e);
            case ExprKind::kBinary:
                return with_op(NodeKind::kBinary, e, kBinaryOps);
            case ExprKind::kUnary:
                return with_op(NodeKind::kUnary, e, kUnaryOps);
            case ExprKind::kBoolean:
                return plain(e.text == "and" ? NodeKind::kAnd : NodeKind::kOr, e);
            case ExprKind::kCompare:
                return compare(e);
            case ExprKind::kConditional:
                return plain(NodeKind::kConditional, e);
            case ExprKind::kTuple:
                return plain(NodeKind::kTuple, e);
            case ExprKind::kList:
                return plain(NodeKind::kList, e);
            case ExprKind::kDict:
                return plain(NodeKind::kDict, e);
            case ExprKind::kSet:
                return plain(NodeKind::kSet, e);
            case ExprKind::kStarred:
                return plain(NodeKind::kStarred, e);
            case ExprKind::kLambda:
                return lambda(e);
            case ExprKind::kComprehension:
                return comprehension(e);
            case ExprKind::kFormatted:
                return plain(NodeKind::kFormatted, e);
            case ExprKind::kFormattedValue: {
                Node* made = plain(NodeKind::kFormattedValue, e);
                made->text = e.text;
                if (!e.comparators.empty() && e.comparators[0] == "r") made->collection = 'r';
                return made;
            }
            case ExprKind::kNamed:
                return plain(NodeKind::kNamed, e);
            case ExprKind::kUnsupported:
                break;
        }
        return unsupported(e.text, e.location);
    }

    Node* unsupported(const std::string& what, const Location& location) {
        Node& made = node(NodeKind::kUnsupported, location);
        made.text = what;
        return &made;
    }

    Node* plain(NodeKind kind, const Expr& e) {
        Node& made = node(kind, e.location);
        for (const ExprPtr& kid : e.operands) made.kids.push_back(maybe(kid));
        return &made;
    }

    template <std::size_t N>
    Node* with_op(NodeKind kind, const Expr& e, const OpName (&table)[N]) {
        Op op = Op::kAdd;
        if (!find_op(table, e.text, op)) return unsupported("operator " + e.text, e.location);
        Node* made = plain(kind, e);
        made->op = op;
        return made;
    }

    Node* constant(const Expr& e) {
        Node& made = node(NodeKind::kConstant, e.location);
        if (std::holds_alternative<None>(e.constant)) made.constant = Value::none();
        if (std::holds_alternative<Ellipsis>(e.constant))
            made.constant = Value::token(Kind::kEllipsis, 0);
        if (const bool* b = std::get_if<bool>(&e.constant)) made.constant = Value::boolean(*b);
        if (const auto* i = std::get_if<std::int64_t>(&e.constant))
            made.constant = Value::integer(*i);
        if (const double* d = std::get_if<double>(&e.constant)) made.constant = Value::number(*d);
        if (const auto* s = std::get_if<std::string>(&e.constant)) {
            const Ref<String> text = heap_.make<String>(*s);
            heap_.grow(*text, static_cast<std::int64_t>(s->size()));
            made.constant = Value::object(Kind::kString, text);
        }
        return &made;
    }

    Node* subscript(const Expr& e) {
        Node* made = plain(NodeKind::kSubscript, e);
        const Expr& base = *e.operands[0];
        made->pure_index = base.kind == ExprKind::kCall && is_literal_arange(base) &&
                           is_literal_axes(*e.operands[1]);
        return made;
    }

    static bool is_literal_arange(const Expr& e) {
        if (!e.keywords.empty() || e.operands.size() < 2) return false;
        const Expr& callee = *e.operands[0];
        if (callee.kind != ExprKind::kAttribute || callee.text != "arange") return false;
        for (std::size_t k = 1; k < e.operands.size(); ++k)
            if (e.operands[k]->kind != ExprKind::kConstant) return false;
        return true;
    }

    static bool is_literal_axes(const Expr& e) {
        if (e.kind != ExprKind::kTuple) return false;
        for (const ExprPtr& item : e.operands) {
            if (item->kind == ExprKind::kConstant) continue;
            if (item->kind != ExprKind::kSlice) return false;
            for (const ExprPtr& bound : item->operands)
                if (bound) return false;
        }
        return true;
    }

    Node* call(const Expr& e) {
        Node* made = plain(NodeKind::kCall, e);
        for (const Keyword& keyword : e.keywords) {
            made->kids.push_back(expr(*keyword.value));
            made->keywords.push_back(keyword.name.empty() ? -1 : code_.names.intern(keyword.name));
        }
        return made;
    }

    Node* compare(const Expr& e) {
        Node* made = plain(NodeKind::kCompare, e);
        for (const std::string& text : e.comparators) {
            Op op = Op::kEqual;
            if (!find_op(kCompareOps, text, op)) return unsupported(text, e.location);
            made->comparators.push_back(op);
        }
        return made;
    }

    Node* lambda(const Expr& e) {
        Node& made = node(NodeKind::kLambda, e.location);
        for (const Parameter& parameter : e.parameters)
            made.defaults.push_back(maybe(parameter.default_value));
        FunctionCode& function = code_.functions.emplace_back();
        function.name = "<lambda>";
        function.line = e.location.line;
        Scope scope;
        enter(scope, function, e.parameters);
        each_named(*e.operands[0], [&](const std::string& text) { declare(text); });
        function.expression = expr(*e.operands[0]);
        scope_ = scope.parent;
        made.function = &function;
        return &made;
    }

    Node* comprehension(const Expr& e) {
        Node& made = node(NodeKind::kComprehension, e.location);
        made.collection = e.text.empty() ? 'l' : e.text[0];
        std::size_t opened = 0;
        for (const Generator& generator : e.generators) {
            Node::Clause clause;
            clause.iterable = expr(*generator.iterable);
            scope_->overlays.emplace_back();
            ++opened;
            each_target(*generator.target, [&](const std::string& text) {
                scope_->overlays.back().emplace(text, scope_->code->slots++);
            });
            clause.target = expr(*generator.target);
            for (const ExprPtr& condition : generator.conditions)
                clause.conditions.push_back(expr(*condition));
            made.clauses.push_back(std::move(clause));
        }
        for (const ExprPtr& kid : e.operands) made.kids.push_back(maybe(kid));
        scope_->overlays.resize(scope_->overlays.size() - opened);
        return &made;
    }

    void enter(Scope& scope, FunctionCode& function, const std::vector<Parameter>& parameters) {
        scope.parent = scope_;
        scope.code = &function;
        scope_ = &scope;
        for (const Parameter& parameter : parameters) {
            ParameterCode code;
            code.name = code_.names.intern(parameter.name);
            code.kind = parameter.kind;
            code.slot = declare(parameter.name);
            code.annotation = dotted(parameter.annotation.get());
            function.parameters.push_back(std::move(code));
        }
    }

    std::vector<Step*> block(const Block& statements) {
        std::vector<Step*> steps;
        for (const StmtPtr& statement : statements) steps.push_back(stmt(*statement));
        return steps;
    }

    Step* stmt(const Stmt& s) {
        Step& step = code_.steps.emplace_back();
        step.kind = s.kind;
        step.line = s.location.line;
        step.column = s.location.column;
        step.text = s.text;
        if (s.kind == StmtKind::kFunction) {
            function(s, step);
            return &step;
        }
        if (s.kind == StmtKind::kAugAssign && !find_op(kBinaryOps, s.text, step.op))
            step.kind = StmtKind::kUnsupported;
        for (const ExprPtr& target : s.targets) step.targets.push_back(expr(*target));
        step.value = maybe(s.value);
        if (s.kind == StmtKind::kAssert) step.annotation = maybe(s.annotation);
        if (s.kind == StmtKind::kAnnAssign) annotation(s, step);
        for (const ImportedName& imported : s.names) import(s, imported, step);
        for (const WithItem& item : s.items)
            step.items.emplace_back(expr(*item.context), maybe(item.variable));
        step.body = block(s.body);
        step.otherwise = block(s.otherwise);
        return &step;
    }

    /// Only the shape of `name: nt.tensor[...]` means something; other annotations are comments.
    void annotation(const Stmt& s, Step& step) {
        if (!s.annotation || s.annotation->kind != ExprKind::kSubscript) return;
        const std::string base = dotted(s.annotation->operands[0].get());
        if (base == "tensor" || base.ends_with(".tensor"))
            step.annotation = expr(*s.annotation->operands[1]);
    }

    void import(const Stmt& s, const ImportedName& imported, Step& step) {
        const std::string path = imported.name;
        const std::string bound = !imported.alias.empty()       ? imported.alias
                                  : s.kind == StmtKind::kImport ? path.substr(0, path.find('.'))
                                                                : path;
        Node* target = bound == "*" ? nullptr : name(bound, s.location);
        const bool rooted = s.kind == StmtKind::kImport && imported.alias.empty();
        // `import a.b` binds a; `import a.b as c` binds a.b.
        step.imports.emplace_back(rooted ? "=" + path : path, target);
    }

    void function(const Stmt& s, Step& step) {
        for (const ExprPtr& decorator : s.decorators) step.decorators.push_back(expr(*decorator));
        for (const Parameter& parameter : s.parameters)
            step.defaults.push_back(maybe(parameter.default_value));
        step.targets.push_back(name(s.text, s.location));
        FunctionCode& function = code_.functions.emplace_back();
        function.name = s.text;
        function.line = s.location.line;
        Scope scope;
        enter(scope, function, s.parameters);
        each_bound(s.body, [&](const std::string& text) { declare(text); });
        function.body = block(s.body);
        scope_ = scope.parent;
        step.function = &function;
    }

    Code& code_;
    Heap& heap_;
    Scope* scope_ = nullptr;
};

}  // namespace

const char* op_text(Op op) {
    for (const OpName& entry : kBinaryOps)
        if (entry.op == op) return entry.text;
    for (const OpName& entry : kUnaryOps)
        if (entry.op == op) return entry.text;
    for (const OpName& entry : kCompareOps)
        if (entry.op == op) return entry.text;
    return "?";
}

std::unique_ptr<Code> lower(const Module& module, Heap& heap) {
    auto code = std::make_unique<Code>();
    Lowering(*code, heap).module(module);
    return code;
}

}  // namespace accelopt::nki::interp
