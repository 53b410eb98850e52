#include <catch2/catch.hpp>

#include "eval/problem.h"
#include "nki/interpreter.h"
#include "nki/syntax/parser.h"
#include "support/program_equality.h"

using namespace accelopt;

namespace {

/// Traces every baseline both ways and compares; returns how many operations were replayed.
std::int64_t compare_baselines(const std::string& shape) {
    std::int64_t replayed = 0;
    for (const std::string& id : eval::shipped_problems()) {
        INFO(id);
        const eval::Problem problem = eval::load_problem(id, shape);
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
    return replayed;
}

}  // namespace

TEST_CASE("baselines give the same program replayed and interpreted", "[eval][replay]") {
    CHECK(compare_baselines("test") > 1000);
}

TEST_CASE("baselines of full size give the same program replayed and interpreted",
          "[eval][replay][slow]") {
    CHECK(compare_baselines("full") > 300'000);
}
