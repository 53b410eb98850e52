#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <string>
#include <vector>

#include "nki/syntax/ast.h"

namespace accelopt::nki {

/// Deepest nesting of statements and expressions that a converted tree may have: every walk over
/// the tree recurses, so this bounds the stack of all of them.
inline constexpr int kMaxDepth = 400;

/// Thrown by Converter and caught by parse(): the tree cannot be represented.
struct ConversionFailure {
    std::string message;
    int line = 0;
    int column = 0;
};

/// Converts a tree of Python's `ast` objects. Internal to the syntax folder; the caller holds the
/// GIL. Throws ConversionFailure; leaves no Python exception set.
class Converter {
  public:
    /// `source` is the text that was parsed (line feeds only) and outlives the converter.
    explicit Converter(const std::string& source);

    /// Converts an `ast.Module`.
    Block module(PyObject* node);

  private:
    struct Depth;

    Block block(PyObject* list);
    StmtPtr stmt(PyObject* node);
    void unsupported(PyObject* node, Stmt& out);
    void function(PyObject* node, Stmt& out);
    void import(PyObject* node, Stmt& out);
    ExprPtr expr(PyObject* node);
    ExprPtr optional_expr(PyObject* parent, PyObject* key);
    ExprPtr child(PyObject* parent, PyObject* key);
    std::vector<ExprPtr> children(PyObject* parent, PyObject* key);
    void constant(PyObject* node, Expr& out);
    void call(PyObject* node, Expr& out);
    void compare(PyObject* node, Expr& out);
    void dict(PyObject* node, Expr& out);
    void comprehension(PyObject* node, Expr& out, const char* kind);
    void formatted_value(PyObject* node, Expr& out);
    bool compound(const std::string& name, PyObject* node, Expr& out);
    bool simple_stmt(const std::string& name, PyObject* node, Stmt& out);
    bool compound_stmt(const std::string& name, PyObject* node, Stmt& out);
    std::vector<Parameter> parameters(PyObject* arguments);
    Location location(PyObject* node);
    std::string segment(const Location& location, bool dedent) const;

    const std::string& source_;
    std::vector<std::size_t> line_starts_;
    int depth_ = 0;
};

}  // namespace accelopt::nki
