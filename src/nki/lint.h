#pragma once

#include <optional>
#include <string>
#include <vector>

#include "nki/interpreter.h"

namespace accelopt::nki {

/// What a linter says about a place of a kernel file.
struct LintFinding {
    std::string severity;  ///< "error": no run can succeed; "warning"; "note"
    Finding finding;       ///< outcome and code as a run would report them; code is the rule's id
};

/// Bytes that the literals of a kernel may take together (numbers count 8, strings their length;
/// docstrings have only the budget of all text): room for coefficients and small tables, none for
/// recorded answers.
inline constexpr std::int64_t kLiteralBudgetBytes = 16 * 1024;
inline constexpr std::int64_t kTextBudgetBytes = 128 * 1024;

/// Rules on the syntax tree that decide a verdict before anything runs, in this order:
///   forbidden_api   an import of a module that reaches files, processes, clocks or the interpreter
///   reference_copy  an import of the problem's reference
///   literal_budget  more literals than kLiteralBudgetBytes, or than kTextBudgetBytes with
///   docstrings
/// Comments, strings and names never count.
std::optional<Finding> check_rules(const Module& module);

/// Everything that the text alone shows, sorted by line: the rules above; undefined names, unknown
/// or unsupported functions of NKI and numpy and their unknown keywords, with the nearest name;
/// Python that is not supported; block dimensions, of which compilers warn. What is wrong in a
/// function that nothing reaches from a kernel is a warning, and so is the function itself
/// (unused_code).
std::vector<LintFinding> lint(const Module& module);

}  // namespace accelopt::nki
