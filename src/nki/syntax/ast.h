#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace accelopt::nki {

/// Where a node stands in the source; lines are 1-based, columns 1-based and counted in UTF-8
/// bytes; end_column is one past the last byte.
struct Location {
    int line = 0;
    int column = 0;
    int end_line = 0;
    int end_column = 0;
};

struct None {
    bool operator==(const None&) const = default;
};
struct Ellipsis {
    bool operator==(const Ellipsis&) const = default;
};
/// The value of a literal.
using Constant = std::variant<None, Ellipsis, bool, std::int64_t, double, std::string>;

enum class ExprKind {
    kConstant,      ///< constant
    kName,          ///< text
    kAttribute,     ///< operands[0] . text
    kSubscript,     ///< operands[0] [ operands[1] ]
    kSlice,         ///< operands[0..2] = lower, upper, step; each may be null
    kCall,          ///< operands[0] = callee, operands[1..] = arguments; keywords
    kBinary,        ///< operands[0] text operands[1]; text: + - * / // % ** @ & | ^ << >>
    kUnary,         ///< text operands[0]; text: - + ~ not
    kBoolean,       ///< operands joined by text: and, or
    kCompare,       ///< operands[0] comparators[0] operands[1] comparators[1] ...
    kConditional,   ///< operands[0] = test, [1] = then, [2] = otherwise
    kTuple,         ///< operands
    kList,          ///< operands
    kDict,          ///< operands = key, value, key, value ...; a null key is a ** entry
    kSet,           ///< operands
    kStarred,       ///< * operands[0]
    kLambda,        ///< parameters; operands[0] = body
    kComprehension, ///< text: list, generator, set, dict; operands[0] (and [1] for dict); generators
    kFormatted,     ///< f-string: operands, string constants and kFormattedValue
    kFormattedValue,///< operands[0]; text = format specification; operands[1], when present, is a
                    ///< kFormatted specification instead; comparators = {"r"} for a conversion !r
    kNamed,         ///< operands[0] := operands[1]
    kUnsupported    ///< text = Python's own node name (Await, Yield, ...) or the kind of literal
                    ///< (big integer, complex, bytes, ...); constant = its source, for printing
};

struct Expr;
struct Stmt;
using ExprPtr = std::unique_ptr<Expr>;
using StmtPtr = std::unique_ptr<Stmt>;
using Block = std::vector<StmtPtr>;

/// A keyword argument; name "" is a ** argument.
struct Keyword {
    std::string name;
    ExprPtr value;
};

enum class ParameterKind { kPositional, kVarArgs, kKeywordOnly, kKwArgs };

struct Parameter {
    std::string name;
    ParameterKind kind = ParameterKind::kPositional;
    ExprPtr annotation;     ///< may be null
    ExprPtr default_value;  ///< may be null
};

/// One `for target in iterable if ...` of a comprehension.
struct Generator {
    ExprPtr target;
    ExprPtr iterable;
    std::vector<ExprPtr> conditions;
};

/// An expression. One plain node type, so that rewrites and generic walks stay simple.
struct Expr {
    ExprKind kind = ExprKind::kConstant;
    Location location;
    std::string text;
    Constant constant;
    std::vector<ExprPtr> operands;
    std::vector<Keyword> keywords;
    std::vector<std::string> comparators;  ///< == != < <= > >= is "is not" in "not in"
    std::vector<Parameter> parameters;
    std::vector<Generator> generators;
};

enum class StmtKind {
    kFunction,   ///< text = name; parameters; decorators; body; value = return annotation or null
    kReturn,     ///< value or null
    kAssign,     ///< targets = value
    kAugAssign,  ///< targets[0] text value; text: += -= ... without the '=' ("+")
    kAnnAssign,  ///< targets[0] : annotation = value (value may be null)
    kFor,        ///< for targets[0] in value: body else: otherwise
    kWhile,      ///< value = test; body; otherwise
    kIf,         ///< value = test; body; otherwise
    kWith,       ///< items (context expression, optional variable); body
    kExpression, ///< value (a docstring is one)
    kPass,
    kBreak,
    kContinue,
    kAssert,     ///< value = test; annotation = message or null
    kImport,     ///< names
    kImportFrom, ///< text = module (leading dots kept); names
    kUnsupported ///< text = Python's own node name (ClassDef, Try, Raise, Global, ...); value = a
                 ///< string constant with its source, dedented, for printing
};

/// One imported name and its alias ("" = none).
struct ImportedName {
    std::string name;
    std::string alias;
};

struct WithItem {
    ExprPtr context;
    ExprPtr variable;  ///< may be null
};

struct Stmt {
    StmtKind kind = StmtKind::kPass;
    Location location;
    std::string text;
    std::vector<ExprPtr> targets;
    ExprPtr value;
    ExprPtr annotation;
    std::vector<Parameter> parameters;
    std::vector<ExprPtr> decorators;
    std::vector<ImportedName> names;
    std::vector<WithItem> items;
    Block body;
    Block otherwise;
};

/// A parsed kernel file. `source` is kept for snippets: the text that locations refer to, without
/// a byte order mark and with every line end as a line feed.
struct Module {
    Block body;
    std::string source;
};

/// Deep copies.
ExprPtr clone(const Expr& expr);
ExprPtr clone(const ExprPtr& expr);  ///< null stays null
StmtPtr clone(const Stmt& stmt);
Block clone(const Block& block);
Module clone(const Module& module);

/// Structural equality; locations are ignored.
bool equal(const Expr& a, const Expr& b);
bool equal(const Stmt& a, const Stmt& b);
bool equal(const Block& a, const Block& b);
bool equal(const Module& a, const Module& b);  ///< sources are ignored

}  // namespace accelopt::nki
