#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>

#include "eval/problem.h"
#include "nki/interpreter.h"
#include "protocol/evaluation.h"
#include "trainium/machine.h"

namespace accelopt::eval {

/// Adds the seconds of a scope to one part of a reply's cost.
class PartTimer {
  public:
    PartTimer(protocol::EvaluationReply& reply, std::string part)
        : reply_(reply), part_(std::move(part)) {}
    ~PartTimer() {
        const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start_;
        auto& parts = reply_.cost.parts;
        const auto found = std::find_if(parts.begin(), parts.end(),
                                        [&](const auto& entry) { return entry.first == part_; });
        if (found == parts.end()) {
            parts.emplace_back(part_, spent.count());
        } else {
            found->second += spent.count();
        }
    }
    PartTimer(const PartTimer&) = delete;
    PartTimer& operator=(const PartTimer&) = delete;

  private:
    protocol::EvaluationReply& reply_;
    std::string part_;
    std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// Ends a reply with an outcome, its reason and a diagnostic (whose code defaults to the reason).
void end_with(protocol::EvaluationReply& reply, protocol::Outcome outcome,
              const std::string& reason, protocol::Diagnostic diagnostic);
/// The same from a finding of the front end or the machine.
void end_with(protocol::EvaluationReply& reply, const nki::Finding& finding,
              const std::string& source);
protocol::Diagnostic plain_diagnostic(const std::string& message, const std::string& remedy = "");

/// Parses a kernel; on a syntax error ends the reply with it.
std::optional<nki::Module> parse_kernel(const std::string& source,
                                        protocol::EvaluationReply& reply);
/// Fills in what a problem's formulas say about the predicted profiles: lower bound, percent of
/// peak.
void add_peak_figures(const Problem& problem, const trainium::Machine& machine,
                      protocol::EvaluationReply& reply);

}  // namespace accelopt::eval
