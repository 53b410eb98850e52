#pragma once

#include <optional>
#include <string>
#include <vector>

#include "eval/problem.h"
#include "eval/reference/reference_store.h"
#include "eval/verifier.h"
#include "nki/program.h"
#include "protocol/evaluation.h"
#include "trainium/execute.h"
#include "trainium/machine.h"

namespace accelopt::eval {

/// One set of inputs that a kernel is run on, and how it is judged there.
struct TriedInputs {
    InputSet set;
    int seed = 0;                       ///< index k for the correctness row
    std::string row;                    ///< name for the correctness row
    double constant = 0;                ///< rule conditioned
    const StressSet* stress = nullptr;  ///< nullptr for nominal inputs
};

/// Runs one traced kernel on input sets and compares what it stores with the reference.
class ValueCheck {
  public:
    ValueCheck(const protocol::EvaluationRequest& request, protocol::EvaluationReply& reply,
               const Problem& problem, const nki::Program& program, ReferenceStore& references)
        : request_(request),
          reply_(reply),
          problem_(problem),
          program_(program),
          references_(references),
          conditioned_(reply.rule == "conditioned") {}

    /// Adds a correctness row per output; false once the reply has ended.
    bool check(const TriedInputs& tried);

    /// Runs the kernel on the inputs in program order and in the order in which the timing model
    /// completes the compiled instructions: rejected/hazard unless all output bits agree. False
    /// once the reply has ended.
    bool check_order(const TriedInputs& tried, const trainium::Machine& machine);

  private:
    static std::vector<trainium::InputArray> inputs_of(const Reference& reference);
    std::optional<Reference> reference_for(const TriedInputs& tried);
    std::optional<std::vector<trainium::OutputArray>> execute(const Reference& reference);
    OutputVerdict judge(const trainium::OutputArray& output, const Reference& reference,
                        std::size_t index, double constant) const;
    /// Finds the name of a value failure among term:NAME, tail, needle and precision.
    void name_failure(const TriedInputs& tried, const std::vector<trainium::OutputArray>& outputs,
                      std::size_t index, OutputVerdict& verdict);
    bool is_without_term(const TriedInputs& tried, const std::string& function,
                         const std::vector<trainium::OutputArray>& outputs);
    bool misses_needles(const StressSet& stress);

    const protocol::EvaluationRequest& request_;
    protocol::EvaluationReply& reply_;
    const Problem& problem_;
    const nki::Program& program_;
    ReferenceStore& references_;
    bool conditioned_;
};

}  // namespace accelopt::eval
