#pragma once

#include <string>

#include "nki/syntax/ast.h"

namespace accelopt::nki {

/// Prints a module as Python source: four-space indent, one statement per line, minimal
/// parentheses; parse(print(m)) equals m. Comments are gone (the parser drops them).
std::string print(const Module& module);
std::string print(const Stmt& stmt, int indent = 0);
std::string print(const Expr& expr);

/// Hash of the module without comments, docstrings, string statements, layout and the names of
/// local variables (renamed in order of first appearance): the identity used for duplicates.
std::string normalised_hash(const Module& module);

}  // namespace accelopt::nki
