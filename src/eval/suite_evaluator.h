#pragma once

#include <memory>
#include <optional>
#include <string>

#include "eval/kernel_observer.h"
#include "eval/suite.h"
#include "protocol/evaluation.h"

namespace accelopt::eval {

/// Which inputs a suite's kernel is checked on.
enum class SuiteSeeds {
    kPublished,  ///< 0, 21, 42, 63 and 84, as the suite's own harness
    kOwn         ///< derived from the secret and the problem's name
};

struct SuiteRequest {
    std::string id;
    std::string source;
    std::optional<std::string> entry;
    bool values = true;
    /// published: the suite's references and inputs. conditioned: those of our problem of the same
    /// name and arguments, with its stress sets; `seeds` does not count.
    std::string rule = "published";
    SuiteSeeds seeds = SuiteSeeds::kPublished;
    std::string secret;
    protocol::EvaluationLimits limits;
    int profile_rows = protocol::kProfileRows;  ///< as of protocol::EvaluationRequest
    KernelObserver observer;                    ///< may be empty
};

/// Evaluates kernels of a published suite with the suite's own references, by rule `published`
/// (the suite defines no scale for a stricter one), which a note in each reply says. Where a
/// problem is one of ours by name and arguments, its tolerance, peak model and lower bound count,
/// and the suite's own kernel shows its measured figures; elsewhere the tolerance is 2e-5. Rule
/// `conditioned` judges by our problem alone, and is refused where there is none.
class SuiteEvaluator {
  public:
    /// Throws Error for an unknown target.
    explicit SuiteEvaluator(const std::string& target);
    ~SuiteEvaluator();

    /// Never throws for anything that a kernel, a reference or a missing file of the suite does:
    /// faults of the suite are `evaluator_error` with the file and the remedy.
    protocol::EvaluationReply evaluate(const SuiteProblem& problem, const SuiteRequest& request);
    /// The suite's own kernel (`request.source` is ignored).
    protocol::EvaluationReply evaluate_baseline(const SuiteProblem& problem, SuiteRequest request);

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace accelopt::eval
