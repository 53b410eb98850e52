#pragma once

#include <string>
#include <vector>

#include "rewrite/rule.h"

/// Small kernels and checks shared by the tests of rewrites.
namespace accelopt::rewrite {

/// Puts the imports and the decorator before a kernel function.
std::string with_imports(const std::string& function);

/// Sites of a rule; the source must parse.
std::vector<Site> sites_of(const Rule& rule, const std::string& source, const Shapes& shapes);

/// Applies the rule at its only site (fails the test when there are several); the result is checked
/// with check_kernel.
std::string rewritten(const Rule& rule, const std::string& source, const Shapes& shapes);
/// Applies it at one site.
std::string rewritten_at(const Rule& rule, const std::string& source, const Shapes& shapes,
                         const Site& site);

/// Requires that the source parses, prints and parses to the same tree, and traces on inputs of the
/// given shapes.
void check_kernel(const std::string& source, const Shapes& shapes);
/// Whether the kernel traces; a message of why not, "" when it does.
std::string trace_failure(const std::string& source, const Shapes& shapes);

/// The kernel with every local variable and parameter renamed.
std::string renamed(const std::string& source);
/// The kernel with integer constants of its body (those of simple assignments) spelled in place.
std::string without_named_constants(const std::string& source);

/// Reads a file below the source tree.
std::string read_source(const std::string& path);

/// A published problem's baseline and the shapes of its tensor arguments.
struct Baseline {
    std::string name;
    Shapes shapes;
    std::string source() const { return read_source("nkibench/" + name + "/baseline.py"); }
};
const std::vector<Baseline>& baselines();

}  // namespace accelopt::rewrite
