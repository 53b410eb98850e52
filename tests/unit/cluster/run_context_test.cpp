#include "cluster/run_context.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

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
        other.config.verify_tiers.pop_back();
        CHECK(other.evaluation_key("silu", "definition", "source") != key);
        other = context;
        other.config.verify_rule = "published";
        CHECK(other.evaluation_key("silu", "definition", "source") != key);
        other = context;
        other.config.seed += 1;
        CHECK(other.evaluation_key("silu", "definition", "source") != key);
    }
}

TEST_CASE("a run may start from the kernels of a suite") {
    namespace fs = std::filesystem;
    const fs::path folder = fs::path(ACCELOPT_BINARY_DIR) / "run_suite_test";
    fs::remove_all(folder);
    fs::create_directories(folder / "kernels");
    const auto entry = [](const std::string& name) {
        return "\"" + name + R"(": {"cases": {"a": {"values": {}, "impls": [{"task": "reference/)" +
               name + R"(.py", "kernel": "kernels/)" + name + R"(.py"}]}}})";
    };
    std::ofstream(folder / "summary.json") << "{" << entry("silu") << ", " << entry("adamw") << "}";
    std::ofstream(folder / "kernels/silu.py") << "def kernel(x):\n    return x\n";
    std::ofstream(folder / "kernels/adamw.py") << "def kernel(\n";

    config::RunConfig config = config::parse_resolved_config(
        "suite: " + folder.string() +
            "\nagents: {planner: {model: m}, executor: {model: m}, summarizer: {model: m}}\n"
            "models: {m: {provider: builtin}}\n",
        "c.yaml");
    cluster::choose_suite_problems(config);
    CHECK(config.problems == std::vector<std::string>{"adamw", "silu"});
    CHECK(config.resolved.find("problems: [") != std::string::npos);
    config.problems = {"silu"};
    const auto starts = cluster::problem_starts(config);
    REQUIRE(starts.size() == 1);
    CHECK(starts[0].baseline_source == "def kernel(x):\n    return x\n");
    CHECK(cluster::starting_kernel(config, "silu") == (folder / "kernels/silu.py").string());
    // What is wrong is said before anything runs.
    config.problems = {"adamw"};
    CHECK_THROWS_WITH(cluster::problem_starts(config), Catch::Contains("kernels/adamw.py:"));
    config.problems = {"sillu"};
    CHECK_THROWS_WITH(cluster::choose_suite_problems(config), Catch::Contains("silu"));
    fs::remove(folder / "kernels/silu.py");
    config.problems = {"silu"};
    CHECK_THROWS_WITH(cluster::choose_suite_problems(config), Catch::Contains("kernels/silu.py"));
    config.suite = (folder / "nowhere").string();
    CHECK_THROWS_WITH(cluster::choose_suite_problems(config), Catch::Contains("nowhere"));
}

TEST_CASE("authors of kernels are told the formula and the kernel's shapes") {
    const eval::Problem problem = eval::load_problem("bmm_softmax", "test");
    const agents::ProblemFacts facts = cluster::problem_facts(problem);
    CHECK(facts.id == "bmm_softmax");
    CHECK(facts.input_shapes.size() == 2);
    CHECK(facts.reference_source.find("def forward(lhs, rhs):") != std::string::npos);
    CHECK(facts.reference_source.find("def scale") == std::string::npos);
}
