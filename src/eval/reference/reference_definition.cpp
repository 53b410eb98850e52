// pybind11 includes Python.h, which comes first, as its manual asks.
#include "eval/reference/reference_definition.h"

#include <pybind11/embed.h>

#include "nki/syntax/python_runtime.h"

namespace accelopt::eval {

namespace {

namespace py = pybind11;

const char* kDefinition = R"python(
import ast


def names_of(statement):
    """Names that a statement of the module binds."""
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return [statement.name]
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return [(alias.asname or alias.name).split(".")[0] for alias in statement.names]
    return [node.id for node in ast.walk(statement)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]


def text_of(statement, lines):
    first = min([statement.lineno] + [d.lineno for d in getattr(statement, "decorator_list", [])])
    while first > 1 and lines[first - 2].startswith("#"):
        first -= 1
    return "\n".join(lines[first - 1:statement.end_lineno])


def definition(source):
    body = ast.parse(source).body
    binding = {}
    for statement in body:
        for name in names_of(statement):
            binding.setdefault(name, []).append(statement)
    if "forward" not in binding:
        raise ValueError("the file defines no forward()")
    kept, wanted = set(), ["forward"]
    while wanted:
        for statement in binding.pop(wanted.pop(), []):
            kept.add(statement)
            wanted += [node.id for node in ast.walk(statement) if isinstance(node, ast.Name)]
    lines = source.splitlines()
    parts = []
    for statement in body:
        opening = statement is body[0] and ast.get_docstring(ast.Module([statement], [])) is not None
        if not opening and statement not in kept:
            continue
        apart = isinstance(statement, (ast.FunctionDef, ast.ClassDef))
        if parts:
            parts.append("\n\n\n" if apart or after else "\n")
        parts.append(text_of(statement, lines))
        after = apart
    return "".join(parts) + "\n"
)python";

}  // namespace

Result<std::string, std::string> reference_definition(const std::string& source) {
    nki::start_python();
    const py::gil_scoped_acquire lock;
    try {
        py::dict scope;
        scope["__builtins__"] = py::module_::import("builtins");
        py::exec(kDefinition, scope);
        return std::string(py::str(scope["definition"](source)));
    } catch (py::error_already_set& error) {
        return Failure{std::string(py::str(error.type().attr("__name__"))) + ": " +
                       std::string(py::str(error.value()))};
    }
}

}  // namespace accelopt::eval
