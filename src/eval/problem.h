#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "eval/distribution.h"
#include "eval/expression.h"
#include "nki/interpreter.h"

namespace accelopt::eval {

/// One kernel argument as problem.yaml declares it.
struct InputSpec {
    std::string name;
    bool tensor = true;
    std::vector<std::int64_t> shape;         ///< as the reference sees it
    std::vector<std::int64_t> kernel_shape;  ///< as the kernel sees it (C-order reshape)
    double scalar = 0;                       ///< value of a non-tensor argument
    Distribution distribution;               ///< of a tensor
};

struct OutputSpec {
    std::string name;
    std::vector<std::int64_t> shape;  ///< as the reference sees it
    std::vector<std::int64_t> kernel_shape;
};

/// One further input set that every kernel must pass (problem.yaml, `stress`).
struct StressSet {
    std::string name;                ///< unique; the `input` of its correctness rows
    std::string reason = "value";    ///< what a failure is called: value, tail, needle, term:NAME
    std::optional<double> constant;  ///< overrides the problem's conditioned constant
    std::vector<InputSpec> inputs;   ///< all arguments, the replaced ones among them
    std::vector<bool> replaced;      ///< which of `inputs` differ from the nominal ones

    /// True when a scalar is replaced: the kernel sees scalars while it is traced.
    bool changes_scalars() const;
};

/// How a reference can be computed piece by piece, so that a large one needs little memory
/// (problem.yaml, `blocks`): along these axes every piece of the outputs depends on the same piece
/// of the cut inputs alone.
struct ReferenceBlocks {
    std::vector<std::optional<int>> inputs;  ///< per argument; none: every piece sees all of it
    std::vector<int> outputs;
    /// The greatest number of pieces: what divides every cut extent.
    std::int64_t units = 1;
};

/// A benchmark problem at one shape (full or test), all formulas evaluated.
struct Problem {
    std::string id;
    std::string title;
    std::string folder;
    std::string shape_name;         ///< "full", "test" or "M=3, N=5"
    Sizes sizes;                    ///< M, N, K, ...
    std::vector<InputSpec> inputs;  ///< in kernel argument order
    std::vector<OutputSpec> outputs;
    std::optional<ReferenceBlocks> blocks;
    double tolerance = 2e-5;
    /// Rule `conditioned`: the largest allowed |out - ref| / (2^-24 S); nullopt where the problem
    /// defines no scale S, and rule `published` takes its place.
    std::optional<double> conditioned_constant;
    std::vector<StressSet> stress;
    std::vector<Sizes> shapes;  ///< further members of the shape domain
    double vector_flops = 0;    ///< peak model (papers.md section 5)
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

/// The same problem at other sizes of its shape domain (`Problem::shapes`). Throws
/// Error(kUser, "unknown_shape") unless `sizes` names each size of the problem once.
Problem load_problem_at(const std::string& id_or_path, const Sizes& sizes);

/// Ids of all shipped problems, sorted.
std::vector<std::string> shipped_problems();

}  // namespace accelopt::eval
