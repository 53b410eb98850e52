#pragma once

#include <string_view>

namespace accelopt::nki::interp {

/// The id of one of Python's own functions, or -1. Functions that reach outside of the kernel
/// (open, eval, ...) have an id too, in order to be refused by name.
int builtin_id(std::string_view name);
std::string_view builtin_name(int id);
/// True for a function that is known in order to be refused.
bool is_forbidden_builtin(int id);

}  // namespace accelopt::nki::interp
