#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "nki/syntax/ast.h"

namespace accelopt::rewrite {

/// Makers of AST nodes.
nki::ExprPtr make_name(const std::string& text);
nki::ExprPtr make_integer(std::int64_t value);
nki::ExprPtr make_real(double value);
nki::ExprPtr make_none();
/// Builds `a.b.c` from dotted text.
nki::ExprPtr make_dotted(const std::string& text);
nki::ExprPtr make_attribute(nki::ExprPtr base, const std::string& text);
nki::ExprPtr make_binary(const std::string& op, nki::ExprPtr a, nki::ExprPtr b);
nki::ExprPtr make_tuple(std::vector<nki::ExprPtr> items);
/// Builds base[index...]; one index stays bare, several become a tuple.
nki::ExprPtr make_subscript(nki::ExprPtr base, std::vector<nki::ExprPtr> indices);
/// Builds a `:` slice.
nki::ExprPtr make_full_slice();
nki::ExprPtr make_call(nki::ExprPtr callee, std::vector<nki::ExprPtr> arguments);
void add_keyword(nki::Expr& call, const std::string& name, nki::ExprPtr value);
nki::StmtPtr make_assign(nki::ExprPtr target, nki::ExprPtr value);

/// Index expressions of a subscript, one per dimension.
std::vector<const nki::Expr*> indices_of(const nki::Expr& subscript);
/// Slots of the same, for editing.
std::vector<nki::ExprPtr*> index_slots(nki::Expr& subscript);

}  // namespace accelopt::rewrite
