#pragma once

#include <string>
#include <utility>
#include <vector>

namespace accelopt::eval {

/// One kernel with its reference in a checkout of NKIBench.
struct SuiteProblem {
    std::string id;  ///< the problem's name; with several cases or kernels NAME:CASE:INDEX
    std::string name;
    std::vector<std::pair<std::string, std::int64_t>> values;  ///< M, N, K, ...
    std::string reference_path;
    std::string kernel_path;
};

/// A checkout in the published layout of NKIBench (AccelOpt's repository): summary.json names for
/// each problem its cases (`values`) and their implementations (`task`, a numpy file with
/// get_inputs, forward, transform_to_nki_inputs and transform_nki_outputs, and `kernel`).
struct Suite {
    std::string folder;
    std::vector<SuiteProblem> problems;  ///< sorted by id
};

/// Reads summary.json in `path`, in its subfolder NKIBench, or `path` itself when it is the file.
/// Throws Error(kUser, "suite") with the file and the remedy when it is missing or malformed; files
/// that it names are looked for only when a problem is evaluated.
Suite load_suite(const std::string& path);

/// The problem of that id or name; throws Error(kUser, "unknown_problem") with a suggestion.
const SuiteProblem& find_problem(const Suite& suite, const std::string& id);

}  // namespace accelopt::eval
