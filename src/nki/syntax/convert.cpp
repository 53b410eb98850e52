#include "nki/syntax/convert.h"

// convert.h brings Python.h, which comes first, as its manual asks.
#include <algorithm>
#include <unordered_map>

#include "nki/syntax/python_tree.h"

namespace accelopt::nki {

using namespace python;

namespace {

std::string operator_text(PyObject* node, PyObject* key) {
    static const std::unordered_map<std::string, std::string> table = {
        {"Add", "+"},       {"Sub", "-"},    {"Mult", "*"},   {"MatMult", "@"}, {"Div", "/"},
        {"FloorDiv", "//"}, {"Mod", "%"},    {"Pow", "**"},   {"LShift", "<<"}, {"RShift", ">>"},
        {"BitOr", "|"},     {"BitXor", "^"}, {"BitAnd", "&"}, {"Invert", "~"},  {"Not", "not"},
        {"UAdd", "+"},      {"USub", "-"},   {"And", "and"},  {"Or", "or"}};
    Ref op = get(node, key);
    const auto found = table.find(class_name(op.get()));
    if (found == table.end()) fail("unknown operator " + class_name(op.get()));
    return found->second;
}

std::string comparator_text(PyObject* op) {
    static const std::unordered_map<std::string, std::string> table = {
        {"Eq", "=="},  {"NotEq", "!="}, {"Lt", "<"},         {"LtE", "<="}, {"Gt", ">"},
        {"GtE", ">="}, {"Is", "is"},    {"IsNot", "is not"}, {"In", "in"},  {"NotIn", "not in"}};
    const auto found = table.find(class_name(op));
    if (found == table.end()) fail("unknown comparison " + class_name(op));
    return found->second;
}

/// The literal as Python spells it, for constants that our tree has no type for.
std::string literal_text(PyObject* value) {
    // Base 16, since decimal conversion of huge integers is refused by Python.
    Ref text(PyLong_Check(value) ? PyNumber_ToBase(value, 16) : PyObject_ASCII(value));
    std::string result;
    if (!text.get() || !utf8(text.get(), result)) fail("a literal cannot be represented");
    return result;
}

}  // namespace

/// Counts one level of nesting and refuses too many.
struct Converter::Depth {
    Depth(Converter& converter, PyObject* node) : depth(converter.depth_) {
        if (++depth > kMaxDepth) {
            --depth;
            const Location at = converter.location(node);
            fail("too many nested expressions or statements (limit " + std::to_string(kMaxDepth) +
                     ")",
                 at.line, at.column);
        }
    }
    Depth(const Depth&) = delete;
    Depth& operator=(const Depth&) = delete;
    ~Depth() { --depth; }
    int& depth;
};

Converter::Converter(const std::string& source) : source_(source) {
    line_starts_.push_back(0);
    for (std::size_t i = 0; i < source.size(); ++i) {
        if (source[i] == '\n') line_starts_.push_back(i + 1);
    }
}

Location Converter::location(PyObject* node) {
    return {int_of(node, keys().lineno), int_of(node, keys().col_offset) + 1,
            int_of(node, keys().end_lineno), int_of(node, keys().end_col_offset) + 1};
}

std::string Converter::segment(const Location& at, bool dedent) const {
    const auto offset = [&](int line, int column) -> std::size_t {
        const std::size_t index = static_cast<std::size_t>(std::max(line, 1)) - 1;
        if (index >= line_starts_.size()) return source_.size();
        return std::min(source_.size(),
                        line_starts_[index] + static_cast<std::size_t>(std::max(column, 1)) - 1);
    };
    const std::size_t begin = offset(at.line, at.column);
    const std::size_t end = std::max(begin, offset(at.end_line, at.end_column));
    const std::string text = source_.substr(begin, end - begin);
    if (!dedent) return text;

    std::string result;
    const int indent = at.column - 1;
    for (std::size_t i = 0; i < text.size(); ++i) {
        result += text[i];
        if (text[i] != '\n') continue;
        for (int n = 0; n < indent && i + 1 < text.size() && text[i + 1] == ' '; ++n) ++i;
    }
    return result;
}

Block Converter::module(PyObject* node) {
    Ref body = get(node, keys().body);
    return block(body.get());
}

Block Converter::block(PyObject* list) {
    if (!PyList_Check(list)) fail("the parser returned an incomplete tree");
    Block result;
    const Py_ssize_t size = PyList_GET_SIZE(list);
    result.reserve(static_cast<std::size_t>(size));
    for (Py_ssize_t i = 0; i < size; ++i) result.push_back(stmt(PyList_GET_ITEM(list, i)));
    return result;
}

ExprPtr Converter::child(PyObject* parent, PyObject* key) {
    Ref value = get(parent, key);
    return expr(value.get());
}

ExprPtr Converter::optional_expr(PyObject* parent, PyObject* key) {
    Ref value = get(parent, key);
    return value.get() == Py_None ? nullptr : expr(value.get());
}

std::vector<ExprPtr> Converter::children(PyObject* parent, PyObject* key) {
    std::vector<ExprPtr> result;
    for_each(parent, key,
             [&](PyObject* item) { result.push_back(item == Py_None ? nullptr : expr(item)); });
    return result;
}

// ------------------------------------------------------------------------------- statements

StmtPtr Converter::stmt(PyObject* node) {
    const Depth guard(*this, node);
    auto out = std::make_unique<Stmt>();
    out->location = location(node);
    const std::string name = class_name(node);
    if (!simple_stmt(name, node, *out) && !compound_stmt(name, node, *out)) {
        out->kind = StmtKind::kUnsupported;
        out->text = name;
        unsupported(node, *out);
    }
    return out;
}

bool Converter::simple_stmt(const std::string& name, PyObject* node, Stmt& out) {
    if (name == "Assign") {
        out.kind = StmtKind::kAssign;
        out.targets = children(node, keys().targets);
        out.value = child(node, keys().value);
    } else if (name == "AugAssign") {
        out.kind = StmtKind::kAugAssign;
        out.targets.push_back(child(node, keys().target));
        out.text = operator_text(node, keys().op);
        out.value = child(node, keys().value);
    } else if (name == "AnnAssign") {
        out.kind = StmtKind::kAnnAssign;
        out.targets.push_back(child(node, keys().target));
        out.annotation = child(node, keys().annotation);
        out.value = optional_expr(node, keys().value);
    } else if (name == "Expr") {
        out.kind = StmtKind::kExpression;
        out.value = child(node, keys().value);
    } else if (name == "Return") {
        out.kind = StmtKind::kReturn;
        out.value = optional_expr(node, keys().value);
    } else if (name == "Assert") {
        out.kind = StmtKind::kAssert;
        out.value = child(node, keys().test);
        out.annotation = optional_expr(node, keys().msg);
    } else if (name == "Pass") {
        out.kind = StmtKind::kPass;
    } else if (name == "Break") {
        out.kind = StmtKind::kBreak;
    } else if (name == "Continue") {
        out.kind = StmtKind::kContinue;
    } else if (name == "Import" || name == "ImportFrom") {
        out.kind = name == "Import" ? StmtKind::kImport : StmtKind::kImportFrom;
        import(node, out);
    } else {
        return false;
    }
    return true;
}

bool Converter::compound_stmt(const std::string& name, PyObject* node, Stmt& out) {
    const auto body = [&](PyObject* key) {
        Ref list = get(node, key);
        return block(list.get());
    };
    if (name == "For") {
        out.kind = StmtKind::kFor;
        out.targets.push_back(child(node, keys().target));
        out.value = child(node, keys().iter);
        out.body = body(keys().body);
        out.otherwise = body(keys().orelse);
    } else if (name == "While" || name == "If") {
        out.kind = name == "If" ? StmtKind::kIf : StmtKind::kWhile;
        out.value = child(node, keys().test);
        out.body = body(keys().body);
        out.otherwise = body(keys().orelse);
    } else if (name == "With") {
        out.kind = StmtKind::kWith;
        for_each(node, keys().items, [&](PyObject* item) {
            out.items.push_back(
                {child(item, keys().context_expr), optional_expr(item, keys().optional_vars)});
        });
        out.body = body(keys().body);
    } else if (name == "FunctionDef") {
        function(node, out);
    } else {
        return false;
    }
    return true;
}

void Converter::function(PyObject* node, Stmt& out) {
    out.kind = StmtKind::kFunction;
    out.text = text_of(node, keys().name);
    Ref arguments = get(node, keys().args);
    out.parameters = parameters(arguments.get());
    out.decorators = children(node, keys().decorator_list);
    out.value = optional_expr(node, keys().returns);
    Ref body = get(node, keys().body);
    out.body = block(body.get());
}

void Converter::import(PyObject* node, Stmt& out) {
    if (out.kind == StmtKind::kImportFrom) {
        out.text =
            std::string(static_cast<std::size_t>(std::max(0, int_of(node, keys().level))), '.') +
            text_of(node, keys().module);
    }
    for_each(node, keys().names, [&](PyObject* alias) {
        out.names.push_back({text_of(alias, keys().name), text_of(alias, keys().asname)});
    });
}

void Converter::unsupported(PyObject* node, Stmt& out) {
    Location from = out.location;
    if (PyObject_HasAttr(node, keys().decorator_list)) {
        Ref decorators = get(node, keys().decorator_list);
        if (PyList_Check(decorators.get()) && PyList_GET_SIZE(decorators.get()) > 0) {
            from.line = location(PyList_GET_ITEM(decorators.get(), 0)).line;
        }
    }
    out.value = std::make_unique<Expr>();
    out.value->location = out.location;
    out.value->constant = segment(from, true);
}

std::vector<Parameter> Converter::parameters(PyObject* arguments) {
    std::vector<Parameter> result;
    const auto add = [&](PyObject* arg, ParameterKind kind) {
        result.push_back(
            {text_of(arg, keys().arg), kind, optional_expr(arg, keys().annotation), nullptr});
    };
    // Positional-only parameters become plain ones: kernels are called by position.
    for (PyObject* key : {keys().posonlyargs, keys().args}) {
        for_each(arguments, key, [&](PyObject* arg) { add(arg, ParameterKind::kPositional); });
    }
    std::vector<ExprPtr> defaults = children(arguments, keys().defaults);
    const std::size_t first = result.size() - std::min(result.size(), defaults.size());
    for (std::size_t i = 0; i < defaults.size() && first + i < result.size(); ++i) {
        result[first + i].default_value = std::move(defaults[i]);
    }
    Ref vararg = get(arguments, keys().vararg);
    if (vararg.get() != Py_None) add(vararg.get(), ParameterKind::kVarArgs);
    std::vector<ExprPtr> keyword_defaults = children(arguments, keys().kw_defaults);
    std::size_t index = 0;
    for_each(arguments, keys().kwonlyargs, [&](PyObject* arg) {
        add(arg, ParameterKind::kKeywordOnly);
        if (index < keyword_defaults.size()) {
            result.back().default_value = std::move(keyword_defaults[index]);
        }
        ++index;
    });
    Ref kwarg = get(arguments, keys().kwarg);
    if (kwarg.get() != Py_None) add(kwarg.get(), ParameterKind::kKwArgs);
    return result;
}

// ------------------------------------------------------------------------------ expressions

ExprPtr Converter::expr(PyObject* node) {
    const Depth guard(*this, node);
    auto out = std::make_unique<Expr>();
    out->location = location(node);
    const std::string name = class_name(node);
    const auto take = [&](ExprKind kind, std::initializer_list<PyObject*> parts) {
        out->kind = kind;
        for (PyObject* key : parts) out->operands.push_back(child(node, key));
    };
    if (name == "Name") {
        out->kind = ExprKind::kName;
        out->text = text_of(node, keys().id);
    } else if (name == "Constant") {
        constant(node, *out);
    } else if (name == "Attribute") {
        take(ExprKind::kAttribute, {keys().value});
        out->text = text_of(node, keys().attr);
    } else if (name == "Call") {
        call(node, *out);
    } else if (name == "BinOp") {
        take(ExprKind::kBinary, {keys().left, keys().right});
        out->text = operator_text(node, keys().op);
    } else if (name == "Subscript") {
        take(ExprKind::kSubscript, {keys().value, keys().slice});
    } else if (name == "UnaryOp") {
        take(ExprKind::kUnary, {keys().operand});
        out->text = operator_text(node, keys().op);
    } else if (name == "IfExp") {
        take(ExprKind::kConditional, {keys().test, keys().body, keys().orelse});
    } else if (name == "Starred") {
        take(ExprKind::kStarred, {keys().value});
    } else if (name == "NamedExpr") {
        take(ExprKind::kNamed, {keys().target, keys().value});
    } else if (!compound(name, node, *out)) {
        out->kind = ExprKind::kUnsupported;
        out->text = name;
        out->constant = segment(out->location, false);
    }
    return out;
}

bool Converter::compound(const std::string& name, PyObject* node, Expr& out) {
    if (name == "Tuple" || name == "List" || name == "Set") {
        out.kind = name == "Tuple"  ? ExprKind::kTuple
                   : name == "List" ? ExprKind::kList
                                    : ExprKind::kSet;
        out.operands = children(node, keys().elts);
    } else if (name == "Slice") {
        out.kind = ExprKind::kSlice;
        for (PyObject* key : {keys().lower, keys().upper, keys().step}) {
            out.operands.push_back(optional_expr(node, key));
        }
    } else if (name == "BoolOp") {
        out.kind = ExprKind::kBoolean;
        out.text = operator_text(node, keys().op);
        out.operands = children(node, keys().values);
    } else if (name == "Compare") {
        compare(node, out);
    } else if (name == "Dict") {
        dict(node, out);
    } else if (name == "Lambda") {
        out.kind = ExprKind::kLambda;
        Ref arguments = get(node, keys().args);
        out.parameters = parameters(arguments.get());
        out.operands.push_back(child(node, keys().body));
    } else if (name == "ListComp") {
        comprehension(node, out, "list");
    } else if (name == "SetComp") {
        comprehension(node, out, "set");
    } else if (name == "GeneratorExp") {
        comprehension(node, out, "generator");
    } else if (name == "DictComp") {
        comprehension(node, out, "dict");
    } else if (name == "JoinedStr") {
        out.kind = ExprKind::kFormatted;
        out.operands = children(node, keys().values);
    } else if (name == "FormattedValue") {
        formatted_value(node, out);
    } else {
        return false;
    }
    return true;
}

void Converter::constant(PyObject* node, Expr& out) {
    Ref holder = get(node, keys().value);
    PyObject* value = holder.get();
    const auto unsupported = [&](const char* what) {
        out.kind = ExprKind::kUnsupported;
        out.text = what;
        out.constant = literal_text(value);
    };
    out.kind = ExprKind::kConstant;
    if (value == Py_None) {
        out.constant = None{};
    } else if (value == Py_Ellipsis) {
        out.constant = Ellipsis{};
    } else if (PyBool_Check(value)) {
        out.constant = value == Py_True;
    } else if (PyLong_Check(value)) {
        int overflow = 0;
        const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
        if (overflow != 0) return unsupported("big integer");
        out.constant = static_cast<std::int64_t>(number);
    } else if (PyFloat_Check(value)) {
        out.constant = PyFloat_AS_DOUBLE(value);
    } else if (PyUnicode_Check(value)) {
        std::string text;
        if (!utf8(value, text)) return unsupported("string with a lone surrogate");
        out.constant = std::move(text);
    } else {
        unsupported(PyComplex_Check(value) ? "complex" : "bytes");
    }
}

void Converter::call(PyObject* node, Expr& out) {
    out.kind = ExprKind::kCall;
    out.operands.push_back(child(node, keys().func));
    for (ExprPtr& argument : children(node, keys().args)) {
        out.operands.push_back(std::move(argument));
    }
    for_each(node, keys().keywords, [&](PyObject* keyword) {
        out.keywords.push_back({text_of(keyword, keys().arg), child(keyword, keys().value)});
    });
}

void Converter::compare(PyObject* node, Expr& out) {
    out.kind = ExprKind::kCompare;
    out.operands.push_back(child(node, keys().left));
    for_each(node, keys().ops,
             [&](PyObject* op) { out.comparators.push_back(comparator_text(op)); });
    for (ExprPtr& operand : children(node, keys().comparators)) {
        out.operands.push_back(std::move(operand));
    }
}

void Converter::dict(PyObject* node, Expr& out) {
    out.kind = ExprKind::kDict;
    std::vector<ExprPtr> names = children(node, keys().keys);
    std::vector<ExprPtr> values = children(node, keys().values);
    for (std::size_t i = 0; i < names.size() && i < values.size(); ++i) {
        out.operands.push_back(std::move(names[i]));
        out.operands.push_back(std::move(values[i]));
    }
}

void Converter::comprehension(PyObject* node, Expr& out, const char* kind) {
    bool asynchronous = false;
    for_each(node, keys().generators, [&](PyObject* generator) {
        asynchronous = asynchronous || int_of(generator, keys().is_async) != 0;
    });
    if (asynchronous) {
        out.kind = ExprKind::kUnsupported;
        out.text = "asynchronous comprehension";
        out.constant = segment(out.location, false);
        return;
    }
    out.kind = ExprKind::kComprehension;
    out.text = kind;
    if (out.text == "dict") {
        out.operands.push_back(child(node, keys().key));
        out.operands.push_back(child(node, keys().value));
    } else {
        out.operands.push_back(child(node, keys().elt));
    }
    for_each(node, keys().generators, [&](PyObject* generator) {
        out.generators.push_back({child(generator, keys().target), child(generator, keys().iter),
                                  children(generator, keys().ifs)});
    });
}

void Converter::formatted_value(PyObject* node, Expr& out) {
    out.kind = ExprKind::kFormattedValue;
    out.operands.push_back(child(node, keys().value));
    const int conversion = int_of(node, keys().conversion);
    if (conversion > 0) out.comparators.push_back(std::string(1, static_cast<char>(conversion)));
    ExprPtr spec = optional_expr(node, keys().format_spec);
    if (!spec) return;
    const std::string* text = nullptr;
    if (spec->operands.size() == 1 && spec->operands[0]->kind == ExprKind::kConstant) {
        text = std::get_if<std::string>(&spec->operands[0]->constant);
    }
    if (text) {
        out.text = *text;
    } else {
        out.operands.push_back(std::move(spec));
    }
}

}  // namespace accelopt::nki
