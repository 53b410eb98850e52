#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "eval/kernel_observer.h"
#include "nki/interpreter.h"
#include "protocol/evaluation.h"
#include "trainium/execute.h"
#include "trainium/machine.h"

namespace accelopt::eval {

/// What a run of one kernel outside the shipped problems needs to know about it.
struct KernelUnderTest {
    std::string source;
    std::optional<std::string> entry;
    std::vector<std::string> names;        ///< of the arguments, for messages; may be empty
    std::vector<nki::Argument> arguments;  ///< in positional order
    std::vector<std::int64_t> grid;        ///< kernel[grid]; empty: launched without one
    bool published_ban = false;            ///< refuse the text "float16" (rule published)
    protocol::EvaluationLimits limits;
    int profile_rows = protocol::kProfileRows;  ///< as of EvaluationRequest
    KernelObserver observer;                    ///< may be empty
};

/// The stages of an evaluation that need no problem: parse, trace, legality, prediction, values.
/// Each stage writes what it finds into the reply; the first that fails ends the run with the
/// kernel's outcome.
class KernelRun {
  public:
    /// All must outlive the run.
    KernelRun(const KernelUnderTest& kernel, const trainium::Machine& machine,
              protocol::EvaluationReply& reply);

    /// Parses, traces and checks legality; tier "legality".
    bool check();
    /// Predicts the profile; tier "timing". The lower bound and the percent of peak stay absent:
    /// they need a problem's formulas.
    void predict();
    /// Runs the kernel on data, one array per tensor argument; nullopt when that failed.
    std::optional<std::vector<trainium::OutputArray>> execute(
        std::span<const trainium::InputArray> inputs);

    /// The traced kernel; only after a successful check().
    const nki::Program& program() const { return *program_; }
    /// Hash of the kernel's normalised syntax tree, "" before it parses.
    const std::string& normalised_hash() const { return hash_; }

    /// Ends the run: outcome, reason and a diagnostic that says why.
    void end(protocol::Outcome outcome, const std::string& reason, const std::string& message,
             const std::string& remedy = "");

  private:
    bool end(const nki::Finding& finding);
    bool parse();
    bool check_order();
    bool check_outputs();

    const KernelUnderTest& kernel_;
    const trainium::Machine& machine_;
    protocol::EvaluationReply& reply_;
    std::optional<nki::Module> module_;
    std::optional<nki::Program> program_;
    std::string hash_;
};

/// Adds a remark to a reply that is no fault of the kernel (severity "note").
void add_note(protocol::EvaluationReply& reply, const std::string& code,
              const std::string& message);

}  // namespace accelopt::eval
