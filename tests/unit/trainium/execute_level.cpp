#include <catch2/catch.hpp>

#include "trainium/execute.h"
#include "trainium/vector_kernels.h"

using namespace accelopt::trainium;

namespace {

/// Puts the whole test process at an instruction-set level before anything computes. False where
/// the processor lacks the level: the tests then run at its own.
const bool limited = limit_simd(ACCELOPT_TEST_LEVEL);

}  // namespace

TEST_CASE("kernels are of the level asked for, and it cannot be changed later") {
    if (limited) REQUIRE(simd_target() == ACCELOPT_TEST_TARGET);
    REQUIRE(simd_target() == execution::arithmetic_table().level);
    REQUIRE(simd_target() == execution::function_table().level);
    REQUIRE(simd_target() == execution::format_table().level);
    REQUIRE_FALSE(limit_simd("sse4"));
    REQUIRE_FALSE(limit_simd("mmx"));
    REQUIRE(limit_simd("auto"));
}
