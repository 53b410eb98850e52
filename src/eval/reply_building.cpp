#include "eval/reply_building.h"

#include "eval/kernel_checks.h"

namespace accelopt::eval {

using protocol::Outcome;

void end_with(protocol::EvaluationReply& reply, Outcome outcome, const std::string& reason,
              protocol::Diagnostic diagnostic) {
    reply.outcome = outcome;
    reply.reason = reason;
    if (diagnostic.code.empty()) diagnostic.code = reason;
    reply.diagnostics.push_back(std::move(diagnostic));
}

void end_with(protocol::EvaluationReply& reply, const nki::Finding& finding,
              const std::string& source) {
    // A finding with an outcome outside the frozen table is a fault of the front end, not of the
    // kernel.
    const auto outcome = protocol::parse_outcome(finding.outcome);
    end_with(reply, outcome.value_or(Outcome::kEvaluatorError), finding.code,
             to_diagnostic(finding, source));
}

protocol::Diagnostic plain_diagnostic(const std::string& message) {
    protocol::Diagnostic diagnostic;
    diagnostic.message = message;
    return diagnostic;
}

}  // namespace accelopt::eval
