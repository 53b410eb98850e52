#include "report/versions.h"

#include <catch2/catch.hpp>

#include "../store/sample_run.h"
#include "core/error.h"

using namespace accelopt;

namespace {

/// The sample run as another machine description would have judged it.
store::RunData judged_by(const std::string& version, const std::string& machine) {
    store::RunData run = store::testing::sample_run();
    const auto mark = [&](protocol::UnitResult& result) {
        if (result.baseline) {
            result.baseline->accelopt_version = version;
            result.baseline->machine = machine;
        }
        for (auto& sample : result.samples) {
            if (!sample.evaluation) continue;
            sample.evaluation->accelopt_version = version;
            sample.evaluation->machine = machine;
        }
    };
    for (auto& result : run.units) mark(result);
    for (auto& round : run.rounds) {
        for (auto& result : round.rewrites) mark(result);
    }
    return run;
}

}  // namespace

TEST_CASE("figures of two versions or machines are not put together", "[N15]") {
    const store::RunData a = judged_by("1.0", "trn1@aaaa");
    const store::RunData b = judged_by("1.0", "trn1@bbbb");
    const store::RunData c = judged_by("1.1", "trn1@aaaa");
    CHECK(report::versions_of(a) == std::vector<std::string>{"accelopt 1.0, trn1@aaaa"});
    CHECK_NOTHROW(report::require_one_version({a}));
    CHECK_NOTHROW(report::require_one_version({a, a}));
    CHECK_THROWS_WITH(report::require_one_version({a, b}), Catch::Contains("trn1@bbbb"));
    CHECK_THROWS_WITH(report::require_one_version({a, c}), Catch::Contains("--mixed-versions"));
    store::RunData mixed = a;
    for (auto& result : mixed.units) {
        if (result.baseline) result.baseline->machine = "trn1@bbbb";
    }
    CHECK_THROWS_AS(report::require_one_version({mixed}), Error);
}
