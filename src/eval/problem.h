#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "nki/interpreter.h"

namespace accelopt::eval {

/// One kernel argument as problem.yaml declares it.
struct InputSpec {
    std::string name;
    bool tensor = true;
    std::vector<std::int64_t> shape;         ///< as the reference sees it
    std::vector<std::int64_t> kernel_shape;  ///< as the kernel sees it (C-order reshape)
    double scalar = 0;                       ///< value of a non-tensor argument
    std::string distribution;                ///< "normal", "abs_normal", ...
    double scale = 1;
};

struct OutputSpec {
    std::string name;
    std::vector<std::int64_t> shape;  ///< as the reference sees it
    std::vector<std::int64_t> kernel_shape;
};

/// A benchmark problem at one shape (full or test), all formulas evaluated.
struct Problem {
    std::string id;
    std::string title;
    std::string folder;
    std::string shape_name;                                   ///< "full" or "test"
    std::vector<std::pair<std::string, std::int64_t>> sizes;  ///< M, N, K, ...
    std::vector<InputSpec> inputs;                            ///< in kernel argument order
    std::vector<OutputSpec> outputs;
    double tolerance = 2e-5;
    double vector_flops = 0;  ///< peak model (papers.md section 5)
    double matmul_flops = 0;
    double minimal_bytes = 0;  ///< compulsory HBM traffic
    std::string reference_path;
    std::string baseline_path;
    std::string baseline_source;
    std::string definition_sha256;  ///< of problem.yaml and reference.py

    /// The kernel's arguments for nki::trace.
    std::vector<nki::Argument> kernel_arguments() const;
};

/// Loads nkibench/ID/problem.yaml (or FOLDER/problem.yaml when `id_or_path` is a path). Unknown
/// ids are Error(kUser, "unknown_problem") with a suggestion.
Problem load_problem(const std::string& id_or_path, const std::string& shape_name);

/// Ids of all shipped problems, sorted.
std::vector<std::string> shipped_problems();

}  // namespace accelopt::eval
