#include <catch2/catch.hpp>

#include "agents/agents.h"

using namespace accelopt;
using namespace accelopt::agents;

TEST_CASE("only what the checks turned down goes to a fixer") {
    protocol::EvaluationReply verdict;
    for (const auto outcome : {protocol::Outcome::kSyntaxError, protocol::Outcome::kUnsupported,
                               protocol::Outcome::kRejected}) {
        verdict.outcome = outcome;
        CHECK(can_be_repaired(verdict));
    }
    for (const auto outcome :
         {protocol::Outcome::kOk, protocol::Outcome::kIncorrect, protocol::Outcome::kTimeout,
          protocol::Outcome::kResourceLimit, protocol::Outcome::kEvaluatorError}) {
        verdict.outcome = outcome;
        CHECK_FALSE(can_be_repaired(verdict));
    }
}

TEST_CASE("a fixer is told code, line, snippet, shapes, limit and remedy", "[N14]") {
    protocol::EvaluationReply verdict;
    verdict.outcome = protocol::Outcome::kRejected;
    verdict.reason = "psum_capacity";
    protocol::Diagnostic finding;
    finding.code = "psum_capacity";
    finding.message = "nine banks are asked for";
    finding.line = 12;
    finding.column = 5;
    finding.snippet = "    acc = nl.zeros(...)";
    finding.operation = "nl.zeros";
    finding.shapes = {{128, 4096}};
    finding.limit = 8;
    finding.remedy = "use smaller tiles";
    verdict.diagnostics = {finding};
    const std::string text = verdict_text(verdict);
    for (const char* part : {"rejected/psum_capacity\n", "kernel.py:12:5", "acc = nl.zeros",
                             "nl.zeros [128, 4096], limit 8", "use smaller tiles"}) {
        CHECK_THAT(text, Catch::Contains(part));
    }
    verdict.reason.clear();
    CHECK(verdict_name(verdict) == "rejected");
}
