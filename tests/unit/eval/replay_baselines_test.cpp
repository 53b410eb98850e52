#include <catch2/catch.hpp>

#include "eval/problem.h"
#include "nki/interpreter.h"
#include "nki/syntax/parser.h"
#include "support/program_equality.h"

using namespace accelopt;

TEST_CASE("baselines give the same program replayed and interpreted", "[eval][replay]") {
    std::int64_t replayed = 0;
    for (const std::string& id : eval::shipped_problems()) {
        INFO(id);
        const eval::Problem problem = eval::load_problem(id, "test");
        const auto module = nki::parse(problem.baseline_source);
        REQUIRE(module.ok());
        nki::TraceOptions options;
        const auto fast = nki::trace(*module, problem.kernel_arguments(), options);
        options.replay = false;
        const auto plain = nki::trace(*module, problem.kernel_arguments(), options);
        REQUIRE(fast.ok());
        REQUIRE(plain.ok());
        CHECK(plain->replayed == 0);
        CHECK(testing::difference(*plain, *fast) == "");
        replayed += fast->replayed;
    }
    CHECK(replayed > 1000);
}
