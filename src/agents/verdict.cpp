#include "agents/agents.h"
#include "protocol/diagnostic.h"

namespace accelopt::agents {

using protocol::Outcome;

bool can_be_repaired(const protocol::EvaluationReply& verdict) {
    switch (verdict.outcome) {
        case Outcome::kSyntaxError:
        case Outcome::kUnsupported:
        case Outcome::kRejected:
            return true;
        case Outcome::kOk:
        case Outcome::kIncorrect:
        case Outcome::kImplausible:
        case Outcome::kResourceLimit:
        case Outcome::kTimeout:
        case Outcome::kCrashed:
        case Outcome::kCompileError:
        case Outcome::kRuntimeError:
        case Outcome::kEvaluatorError:
            return false;
    }
    return false;
}

std::string verdict_name(const protocol::EvaluationReply& verdict) {
    const std::string outcome(protocol::to_string(verdict.outcome));
    return verdict.reason.empty() ? outcome : outcome + "/" + verdict.reason;
}

std::string verdict_text(const protocol::EvaluationReply& verdict) {
    std::string text = verdict_name(verdict) + "\n";
    for (const auto& finding : verdict.diagnostics) text += protocol::render(finding, "kernel.py");
    return text;
}

}  // namespace accelopt::agents
