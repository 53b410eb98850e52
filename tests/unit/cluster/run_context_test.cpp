#include "cluster/run_context.h"

#include <catch2/catch.hpp>

using namespace accelopt;
using cluster::RunContext;

TEST_CASE("an evaluation is known by all that its verdict depends on") {
    RunContext context;
    context.machine_hash = "m";
    const std::string key = context.evaluation_key("silu", "definition", "source");
    CHECK(context.evaluation_key("silu", "definition", "source") == key);
    CHECK(context.evaluation_key("adamw", "definition", "source") != key);
    CHECK(context.evaluation_key("silu", "definition", "other source") != key);

    SECTION("a changed problem.yaml or reference.py judges anew") {
        CHECK(context.evaluation_key("silu", "other definition", "source") != key);
    }
    SECTION("another machine, another way to verify, other inputs") {
        RunContext other = context;
        other.machine_hash = "n";
        CHECK(other.evaluation_key("silu", "definition", "source") != key);
        other = context;
        other.config.verify_order = !other.config.verify_order;
        CHECK(other.evaluation_key("silu", "definition", "source") != key);
        other = context;
        other.config.verify_stress = !other.config.verify_stress;
        CHECK(other.evaluation_key("silu", "definition", "source") != key);
        other = context;
        other.config.verify_rule = "published";
        CHECK(other.evaluation_key("silu", "definition", "source") != key);
        other = context;
        other.config.seed += 1;
        CHECK(other.evaluation_key("silu", "definition", "source") != key);
    }
}

TEST_CASE("authors of kernels are told the formula and the kernel's shapes") {
    const eval::Problem problem = eval::load_problem("bmm_softmax", "test");
    const agents::ProblemFacts facts = cluster::problem_facts(problem);
    CHECK(facts.id == "bmm_softmax");
    CHECK(facts.input_shapes.size() == 2);
    CHECK(facts.reference_source.find("def forward(lhs, rhs):") != std::string::npos);
    CHECK(facts.reference_source.find("def scale") == std::string::npos);
}
