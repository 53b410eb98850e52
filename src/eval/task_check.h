#pragma once

#include <optional>
#include <string>
#include <vector>

#include "eval/problem.h"
#include "eval/reference/reference_store.h"

namespace accelopt::eval {

/// One answer that was tried against a problem's input sets.
struct TaskAnswer {
    std::string name;             ///< "zeros", "copy of x", "without eps", "float32 reference", ...
    bool honest = false;          ///< must pass every set; a trivial answer must fail on one
    bool as_it_should = false;    ///< what must be is
    std::string set;              ///< trivial: the set it fails most clearly on; honest: its worst
    std::optional<double> error;  ///< E of the conditioned rule, or the relative L2 error
};

/// Whether a problem can tell right answers from trivial ones (exploits.md, X02).
struct TaskReport {
    std::string rule;               ///< the rule the problem's definition supports
    double constant = 0;            ///< conditioned constant, or the L2 tolerance
    std::vector<std::string> sets;  ///< names of the input sets tried, "nominal" first
    std::vector<TaskAnswer> answers;
    std::string fault;  ///< the reference cannot be run: why; "" otherwise

    bool ok() const;
    /// "the answer 'zeros' passes on every input set" for the first answer that is not as it should
    /// be, the fault, or "".
    std::string complaint() const;
};

/// Tries the trivial answers (zeros, the mean, copies of inputs, inputs rounded to bfloat16, and
/// forward with each term left out that reference.py names as without_TERM) and the float32
/// reference on the nominal inputs and every stress set of the problem at its shape. Kept in the
/// store's folder per definition.
TaskReport check_task(const Problem& problem, ReferenceStore& store);

}  // namespace accelopt::eval
