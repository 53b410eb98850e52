#include "eval/reply_building.h"

#include "eval/bounds.h"
#include "eval/kernel_checks.h"
#include "nki/syntax/parser.h"

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

protocol::Diagnostic plain_diagnostic(const std::string& message, const std::string& remedy) {
    protocol::Diagnostic diagnostic;
    diagnostic.message = message;
    diagnostic.remedy = remedy;
    return diagnostic;
}

std::optional<nki::Module> parse_kernel(const std::string& source,
                                        protocol::EvaluationReply& reply) {
    const PartTimer timer(reply, "parse");
    auto parsed = nki::parse(source);
    if (parsed) return std::move(*parsed);
    const nki::SyntaxError& error = parsed.error();
    protocol::Diagnostic diagnostic = plain_diagnostic(error.message);
    diagnostic.code = "syntax_error";
    diagnostic.line = error.line;
    diagnostic.column = error.column;
    diagnostic.snippet = source_line(source, error.line);
    end_with(reply, Outcome::kSyntaxError, error.message, std::move(diagnostic));
    return std::nullopt;
}

void add_peak_figures(const Problem& problem, const trainium::Machine& machine,
                      protocol::EvaluationReply& reply) {
    const double bound = lower_bound_ms(problem, machine);
    for (auto* profile : {&reply.profile, &reply.as_written}) {
        if (*profile) (*profile)->lower_bound_ms = bound;
    }
    const double latency = reply.profile ? reply.profile->latency.value_or(0) : 0;
    if (latency > 0) reply.profile->percent_of_peak = peak_model_ms(problem, machine) / latency;
}

}  // namespace accelopt::eval
