#pragma once

#include <string>
#include <vector>

#include "core/result.h"
#include "eval/kernel_run.h"
#include "eval/suite.h"
#include "protocol/profile.h"
#include "trainium/machine.h"
#include "trainium/stream.h"

/// What a calibration starts from: measured profiles, the kernels that they belong to, and the
/// description file of the machine with the source of each constant.
namespace accelopt::eval {

/// One measured kernel. Where it is not one of a suite, the table itself may name its file.
struct MeasuredKernel {
    int line = 0;
    std::string name;
    protocol::Profile profile;
    std::string file;    ///< relative to the table's folder; "" when not given
    std::string entry;   ///< function of the file; "" for its kernel
    std::string inputs;  ///< "x=float32[128,512]; eps=1e-5"
};

/// Reads measured profiles: a column `problem`, `kernel` or `case` with the name, `latency_ms`, any
/// of neuron-profile's counters by their names and active times as fractions, and optionally
/// `file`, `entry` and `inputs`. Other columns are ignored. Throws Error(kUser, "csv") with file
/// and line for what is missing, no number, out of range or there twice.
std::vector<MeasuredKernel> read_measured_kernels(const std::string& path);

/// One microbenchmark of a folder's manifest.csv.
struct MicroKernel {
    int line = 0;
    std::string name;
    std::string path;  ///< of the kernel file
    std::string entry;
    std::string inputs;
    std::string isolates;  ///< which mechanism or constant it is sensitive to
};

/// Reads FOLDER/manifest.csv: columns name, file, entry, inputs and isolates. Throws Error(kUser,
/// "csv") with file and line.
std::vector<MicroKernel> read_micro_manifest(const std::string& folder);

/// Traces a kernel of a suite with the suite's own arguments, checks its legality and lowers it. An
/// error is a sentence that says what is wrong with the kernel or its files.
Result<trainium::Stream, std::string> lower_suite_kernel(const SuiteProblem& problem,
                                                         const trainium::Machine& machine);
/// The same of any kernel.
Result<trainium::Stream, std::string> lower_kernel(const KernelUnderTest& kernel,
                                                   const trainium::Machine& machine);

/// One constant of a machine description file.
struct DescribedConstant {
    std::string key;
    std::string value;   ///< as written
    std::string source;  ///< what stands behind "# source: "
    int line = 0;

    /// True when the value was fitted to measurements: only such a constant may be refitted.
    bool is_fit() const { return source.rfind("fit:", 0) == 0; }
};

/// The constants of a description file's text, in its order.
std::vector<DescribedConstant> described_constants(const std::string& text);

/// A new value for a constant, with its new source.
struct ConstantChange {
    std::string key;
    std::string value;
    std::string source;
};

/// The text with these constants replaced; everything else, comments too, stays as it is. Throws
/// Error(kInternal) for a key that is not there or whose constant is no fit.
std::string with_changes(const std::string& text, const std::vector<ConstantChange>& changes);

}  // namespace accelopt::eval
