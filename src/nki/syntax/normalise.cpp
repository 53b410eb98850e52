#include <bit>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "core/hash.h"
#include "nki/syntax/children.h"
#include "nki/syntax/printer.h"

namespace accelopt::nki {

namespace {

/// Names bound in one scope, with the number each got at its first appearance.
struct Scope {
    std::set<std::string> bound;
    std::set<std::string> verbatim;  ///< parameters that some call names: they keep their spelling
    std::map<std::string, int> numbers;
};

bool is_string_statement(const Stmt& stmt) {
    return stmt.kind == StmtKind::kExpression && stmt.value->kind == ExprKind::kConstant &&
           std::holds_alternative<std::string>(stmt.value->constant);
}

bool is_jit(const Expr& decorator) {
    const Expr& callee = decorator.kind == ExprKind::kCall ? *decorator.operands[0] : decorator;
    return (callee.kind == ExprKind::kAttribute || callee.kind == ExprKind::kName) &&
           callee.text == "jit";
}

/// What the whole module says about names, gathered before the hash is taken.
struct ModuleNames {
    std::set<std::string> imported;
    std::set<std::string> keywords;  ///< used in calls that may reach a function of the module

    void gather(const Block& block) {
        for (const StmtPtr& stmt : block) {
            for (const ImportedName& name : stmt->names) {
                const std::string& bound = name.alias.empty() ? name.name : name.alias;
                imported.insert(bound.substr(0, bound.find('.')));
            }
            gather(stmt->body);
            gather(stmt->otherwise);
        }
    }
    void gather_keywords(const Block& block) {
        for (const StmtPtr& stmt : block) {
            for_each_expression(*stmt, [&](const Expr& expr) { gather_keywords(expr); });
            gather_keywords(stmt->body);
            gather_keywords(stmt->otherwise);
        }
    }
    void gather_keywords(const Expr& expr) {
        if (expr.kind == ExprKind::kCall) {
            // An attribute (nl.zeros, tile.reshape) or an import is never one of our functions.
            const Expr& callee = *expr.operands[0];
            if (callee.kind != ExprKind::kAttribute && imported.count(callee.text) == 0) {
                for (const Keyword& keyword : expr.keywords) keywords.insert(keyword.name);
            }
        }
        for_each_child(expr, [&](const Expr& child) { gather_keywords(child); });
    }
};

/// Writes a module as an unambiguous text in which local names are numbers.
class Canonical {
  public:
    std::string write(const Module& module);

  private:
    // Names.
    void bind_target(const Expr& target, Scope& scope);
    void bind_named(const Expr& expr, Scope& scope);
    void bind_block(const Block& block, Scope& scope);
    void bind_parameters(const std::vector<Parameter>& parameters, Scope& scope);
    void bind(Scope& scope, const std::string& name) {
        if (names_.imported.count(name) == 0) scope.bound.insert(name);
    }
    void name(const std::string& name);

    // Text.
    void tag(std::string_view word) {
        out_ += word;
        out_ += ' ';
    }
    void word(std::string_view text) {
        out_ += std::to_string(text.size());
        out_ += ':';
        out_ += text;
        out_ += ' ';
    }
    void count(std::size_t n) { tag(std::to_string(n)); }

    void block(const Block& block);
    void stmt(const Stmt& stmt);
    void function(const Stmt& stmt);
    void import(const Stmt& stmt);
    void expr(const Expr& expr);
    void optional(const ExprPtr& expr);
    void all(const std::vector<ExprPtr>& exprs);
    void constant(const Constant& value);
    void lambda(const Expr& expr);
    void comprehension(const Expr& expr);
    void parameters(const std::vector<Parameter>& parameters);
    void defaults(const std::vector<Parameter>& parameters);

    ModuleNames names_;
    std::vector<Scope> scopes_;
    const Stmt* entry_ = nullptr;
    int next_ = 0;
    std::string out_;
};

std::string Canonical::write(const Module& module) {
    names_.gather(module.body);
    names_.gather_keywords(module.body);

    // The entry is found by decorator or else by name (interpreter.h), so it is marked as such
    // before its name is forgotten. With several candidates the names decide and are kept.
    Scope scope;
    bind_block(module.body, scope);
    std::size_t jitted = 0;
    const Stmt* named[2] = {nullptr, nullptr};
    for (const StmtPtr& stmt : module.body) {
        if (stmt->kind != StmtKind::kFunction) continue;
        for (const ExprPtr& decorator : stmt->decorators) {
            if (!is_jit(*decorator)) continue;
            ++jitted;
            entry_ = stmt.get();
        }
        if (stmt->text == "kernel") named[0] = stmt.get();
        if (stmt->text == "optimized_kernel") named[1] = stmt.get();
    }
    if (jitted == 0) entry_ = named[0] ? named[0] : named[1];
    if (jitted > 1) {
        entry_ = nullptr;
        for (const StmtPtr& stmt : module.body) {
            if (stmt->kind == StmtKind::kFunction) scope.bound.erase(stmt->text);
        }
    }
    scopes_.push_back(std::move(scope));
    block(module.body);
    return std::move(out_);
}

void Canonical::bind_target(const Expr& target, Scope& scope) {
    if (target.kind == ExprKind::kName) {
        bind(scope, target.text);
    } else if (target.kind == ExprKind::kTuple || target.kind == ExprKind::kList ||
               target.kind == ExprKind::kStarred) {
        for (const ExprPtr& part : target.operands) bind_target(*part, scope);
    }
}

/// Names bound by := in an expression; those inside a comprehension belong to the function.
void Canonical::bind_named(const Expr& expr, Scope& scope) {
    if (expr.kind == ExprKind::kNamed) bind_target(*expr.operands[0], scope);
    if (expr.kind == ExprKind::kLambda) return;
    for_each_child(expr, [&](const Expr& child) { bind_named(child, scope); });
}

void Canonical::bind_block(const Block& block, Scope& scope) {
    for (const StmtPtr& stmt : block) {
        if (stmt->kind == StmtKind::kUnsupported) continue;
        for (const ExprPtr& target : stmt->targets) bind_target(*target, scope);
        for (const WithItem& item : stmt->items) {
            if (item.variable) bind_target(*item.variable, scope);
        }
        for_each_expression(*stmt, [&](const Expr& expr) { bind_named(expr, scope); });
        if (stmt->kind == StmtKind::kFunction) {
            bind(scope, stmt->text);
            continue;  // its body is a scope of its own
        }
        bind_block(stmt->body, scope);
        bind_block(stmt->otherwise, scope);
    }
}

void Canonical::bind_parameters(const std::vector<Parameter>& parameters, Scope& scope) {
    for (const Parameter& p : parameters) {
        if (names_.keywords.count(p.name) > 0) scope.verbatim.insert(p.name);
        bind(scope, p.name);
    }
}

void Canonical::name(const std::string& name) {
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
        if (scope->verbatim.count(name) > 0) break;
        if (scope->bound.count(name) == 0) continue;
        const auto [entry, fresh] = scope->numbers.emplace(name, next_);
        if (fresh) ++next_;
        return tag("%" + std::to_string(entry->second));
    }
    tag("name");
    word(name);
}

void Canonical::block(const Block& block) {
    out_ += "{ ";
    for (const StmtPtr& item : block) {
        if (!is_string_statement(*item)) stmt(*item);
    }
    out_ += "} ";
}

void Canonical::stmt(const Stmt& stmt) {
    tag("s" + std::to_string(static_cast<int>(stmt.kind)));
    if (stmt.kind == StmtKind::kFunction) return function(stmt);
    if (stmt.kind == StmtKind::kImport || stmt.kind == StmtKind::kImportFrom) return import(stmt);
    word(stmt.text);
    if (stmt.kind == StmtKind::kAssign || stmt.kind == StmtKind::kAugAssign ||
        stmt.kind == StmtKind::kAnnAssign) {
        optional(stmt.value);  // evaluated before the targets
        all(stmt.targets);
    } else {
        all(stmt.targets);
        optional(stmt.value);
    }
    optional(stmt.annotation);
    count(stmt.items.size());
    for (const WithItem& item : stmt.items) {
        optional(item.context);
        optional(item.variable);
    }
    block(stmt.body);
    block(stmt.otherwise);
}

void Canonical::function(const Stmt& stmt) {
    if (&stmt == entry_) tag("entry");
    name(stmt.text);
    all(stmt.decorators);
    defaults(stmt.parameters);
    optional(stmt.value);
    Scope scope;
    bind_parameters(stmt.parameters, scope);
    bind_block(stmt.body, scope);
    scopes_.push_back(std::move(scope));
    parameters(stmt.parameters);
    block(stmt.body);
    scopes_.pop_back();
}

void Canonical::import(const Stmt& stmt) {
    word(stmt.text);
    count(stmt.names.size());
    for (const ImportedName& name : stmt.names) {
        word(name.name);
        word(name.alias);
    }
}

void Canonical::optional(const ExprPtr& value) {
    if (value) {
        expr(*value);
    } else {
        tag("null");
    }
}

void Canonical::all(const std::vector<ExprPtr>& exprs) {
    count(exprs.size());
    for (const ExprPtr& item : exprs) optional(item);
}

void Canonical::expr(const Expr& expr) {
    if (expr.kind == ExprKind::kName) return name(expr.text);
    tag("e" + std::to_string(static_cast<int>(expr.kind)));
    if (expr.kind == ExprKind::kLambda) return lambda(expr);
    if (expr.kind == ExprKind::kComprehension) return comprehension(expr);
    word(expr.text);
    if (expr.kind == ExprKind::kConstant || expr.kind == ExprKind::kUnsupported) {
        constant(expr.constant);
    }
    count(expr.comparators.size());
    for (const std::string& comparator : expr.comparators) word(comparator);
    all(expr.operands);
    count(expr.keywords.size());
    for (const Keyword& keyword : expr.keywords) {
        word(keyword.name);
        optional(keyword.value);
    }
}

void Canonical::constant(const Constant& value) {
    tag("c" + std::to_string(value.index()));
    if (const auto* b = std::get_if<bool>(&value)) {
        tag(*b ? "1" : "0");
    } else if (const auto* i = std::get_if<std::int64_t>(&value)) {
        tag(std::to_string(*i));
    } else if (const auto* d = std::get_if<double>(&value)) {
        tag(std::to_string(std::bit_cast<std::uint64_t>(*d)));
    } else if (const auto* s = std::get_if<std::string>(&value)) {
        word(*s);
    }
}

void Canonical::lambda(const Expr& expr) {
    defaults(expr.parameters);
    Scope scope;
    bind_parameters(expr.parameters, scope);
    bind_named(*expr.operands[0], scope);
    scopes_.push_back(std::move(scope));
    parameters(expr.parameters);
    all(expr.operands);
    scopes_.pop_back();
}

void Canonical::comprehension(const Expr& expr) {
    word(expr.text);
    count(expr.generators.size());
    // The first iterable is evaluated outside the comprehension's own scope.
    optional(expr.generators.front().iterable);
    Scope scope;
    for (const Generator& generator : expr.generators) bind_target(*generator.target, scope);
    scopes_.push_back(std::move(scope));
    for (std::size_t i = 0; i < expr.generators.size(); ++i) {
        const Generator& generator = expr.generators[i];
        if (i > 0) optional(generator.iterable);
        optional(generator.target);
        all(generator.conditions);
    }
    all(expr.operands);
    scopes_.pop_back();
}

void Canonical::parameters(const std::vector<Parameter>& parameters) {
    count(parameters.size());
    for (const Parameter& p : parameters) {
        tag("p" + std::to_string(static_cast<int>(p.kind)));
        name(p.name);
    }
}

void Canonical::defaults(const std::vector<Parameter>& parameters) {
    for (const Parameter& p : parameters) {
        optional(p.annotation);
        optional(p.default_value);
    }
}

}  // namespace

std::string normalised_hash(const Module& module) { return sha256_hex(Canonical().write(module)); }

}  // namespace accelopt::nki
