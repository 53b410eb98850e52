#include <catch2/catch.hpp>
#include <map>

#include "eval/evaluator.h"
#include "eval/problem.h"

using namespace accelopt;
using protocol::EvaluationReply;
using protocol::EvaluationRequest;
using protocol::Outcome;

namespace {

/// A kernel that cuts a corner: one edit of a baseline. `set` is the input set that must give it
/// away ("nominal" or the name of a stress set) and `reason` what the failure is called.
struct Shortcut {
    const char* problem;
    const char* what;
    const char* from;
    const char* to;
    const char* reason;
    const char* set;
};

const Shortcut kShortcuts[] = {
    // X13: right on usual inputs, whatever the seed.
    {"bmm_softmax", "maximum of the first tile only", "tensor_scalar(data=peak[i, r, lane, 0]",
     "tensor_scalar(data=nisa.tensor_reduce(nl.max, data=score[i, r, 0, 0, lane, narrow], "
     "axis=[1])",
     "nonfinite", "late_spike"},
    {"bmm_softmax", "no maximum", "operand1=-1.0", "operand1=0.0", "nonfinite", "late_spike"},
    {"gqa_full", "maximum of the first tile only", "tensor_scalar(data=peak[a, c, e, r, lane, 0]",
     "tensor_scalar(data=nisa.tensor_reduce(nl.max, data=logit[r, a, c, e, 0, 0, lane, narrow], "
     "axis=[1])",
     "nonfinite", "late_spike"},
    {"gqa_full", "no maximum", "operand1=-1.0", "operand1=0.0", "nonfinite", "late_spike"},
    // X14: a term that is small on usual inputs.
    {"matmul_add_rmsnorm", "no epsilon", "square_sum / columns, eps", "square_sum / columns, 0.0",
     "term:eps", "small_rows"},
    {"mamba", "exponential by three terms of its series",
     "decay = nisa.activation(op=nl.exp, data=delta_tile, scale=a_column)",
     "rate = nl.multiply(delta_tile, a_column)\n"
     "            decay = nl.add(nl.multiply(rate, nl.add(nl.multiply(rate, 0.5), 1.0)), 1.0)",
     "value", "positive_terms"},
    // X12: part of a reduction.
    {"matmul", "last contraction tile of each bundle left out",
     "for j in nl.affine_range(bundle):\n                        total",
     "for j in nl.affine_range(bundle - 1):\n                        total", "value", "nominal"},
    {"swiglu", "last hidden tile of each slab left out",
     "for h in nl.affine_range(h_tiles):\n                        total",
     "for h in nl.affine_range(h_tiles - 1):\n                        total", "value", "nominal"},
    {"lora", "low-rank branch left out",
     "branch[s, p, t, d, i, lane, narrow])\n                    for",
     "0.0)\n                    for", "term:low_rank", "nominal"},
    {"transpose_matmul", "first contraction tile twice", "rhs_slab[k, lane, width * n + narrow]",
     "rhs_slab[0, lane, width * n + narrow]", "value", "nominal"},
    {"bmm", "last rows of rhs from the first slab", "nl.load(rhs[b, deep_lane, slab * s + wide])",
     "nl.load(rhs[b, deep_lane, wide])", "value", "nominal"},
};

EvaluationReply evaluate(const std::string& problem, const std::string& source) {
    static eval::Evaluator evaluator({});
    EvaluationRequest request;
    request.problem = problem;
    request.shape = "test";
    request.secret = "shortcuts";
    request.seeds = {0};
    request.rule = "conditioned";
    request.tiers = {"legality", "values", "stress"};
    request.source = source;
    return evaluator.evaluate(request);
}

std::string baseline(const std::string& problem) {
    return eval::load_problem(problem, "test").baseline_source;
}

}  // namespace

TEST_CASE("a shortcut is given away by the input set made for it", "[X12][X13][X14]") {
    for (const Shortcut& shortcut : kShortcuts) {
        std::string source = baseline(shortcut.problem);
        const std::string from = shortcut.from;
        const std::size_t at = source.find(from);
        INFO(shortcut.problem << ": " << shortcut.what);
        REQUIRE(at != std::string::npos);
        REQUIRE(source.find(from, at + 1) == std::string::npos);
        const EvaluationReply reply =
            evaluate(shortcut.problem, source.replace(at, from.size(), shortcut.to));
        INFO(to_json(reply));
        CHECK(reply.outcome == Outcome::kIncorrect);
        CHECK(reply.reason == shortcut.reason);
        REQUIRE_FALSE(reply.correctness.empty());
        CHECK(reply.correctness.back().input == shortcut.set);
        CHECK_FALSE(reply.correctness.back().ok);
    }
}

// The honest twin: the baselines pass every set, with room to the constants.
TEST_CASE("the baselines pass the conditioned rule on every stress set") {
    for (const char* id : {"bmm", "bmm_softmax", "gqa_full", "lora", "mamba", "matmul",
                           "matmul_add_rmsnorm", "swiglu", "transpose_matmul"}) {
        const eval::Problem problem = eval::load_problem(id, "test");
        REQUIRE(problem.conditioned_constant.has_value());
        const EvaluationReply reply = evaluate(id, problem.baseline_source);
        INFO(to_json(reply));
        CHECK(reply.verified());
        REQUIRE(reply.correctness.size() == 1 + problem.stress.size());
        for (std::size_t i = 0; i < reply.correctness.size(); ++i) {
            double constant = *problem.conditioned_constant;
            if (i > 0) constant = problem.stress[i - 1].constant.value_or(constant);
            INFO(reply.correctness[i].input);
            CHECK(reply.correctness[i].max_conditioned.value_or(1e9) <= 0.75 * constant);
        }
    }
}
