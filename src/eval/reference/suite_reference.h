#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/result.h"
#include "eval/verifier.h"
#include "nki/interpreter.h"
#include "trainium/execute.h"

namespace accelopt::eval {

/// A reference file of a published suite: trusted numpy code with get_inputs, forward and, where
/// the kernel sees other shapes, transform_to_nki_inputs and transform_nki_outputs. It draws its
/// inputs from numpy's global random state, which only this process's references use. Errors are
/// sentences with file, line and the exception.
class SuiteReference {
  public:
    /// Reads and runs the file's top level.
    static Result<std::unique_ptr<SuiteReference>, std::string> open(const std::string& path);
    ~SuiteReference();

    /// Learns the kernel's arguments. Random draws are replaced by zeros meanwhile, which saves
    /// seconds on large inputs; a file that cannot do with them is run as it is.
    Result<std::vector<nki::Argument>, std::string> kernel_arguments();

    /// Seeds numpy's global generator with `seed`, draws the inputs, computes forward() and keeps
    /// both. The arguments' kinds, shapes and dtypes must be those of kernel_arguments().
    std::optional<std::string> compute(std::uint32_t seed,
                                       const std::vector<nki::Argument>& arguments);
    /// The kernel's tensor inputs, after compute(); valid until the next one.
    std::vector<trainium::InputArray> inputs() const;

    /// Compares float32 outputs with the reference by rule `published`, one verdict per reference
    /// output; `reason` may also be "output_shape" where transform_nki_outputs refuses them, their
    /// number or their shapes. An error is a fault of the reference file.
    Result<std::vector<OutputVerdict>, std::string> verify(
        const std::vector<trainium::OutputArray>& outputs, double tolerance);

  private:
    struct State;
    explicit SuiteReference(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

}  // namespace accelopt::eval
