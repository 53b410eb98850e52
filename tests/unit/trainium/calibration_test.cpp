#include "trainium/calibration.h"

#include <catch2/catch.hpp>

#include "core/error.h"
#include "timing_programs.h"
#include "timing_structures.h"

using namespace accelopt;
using namespace accelopt::trainium;
using namespace accelopt::trainium::testing;

namespace {

CaseError case_error(const std::string& name, double measured_ms, double predicted_ms,
                     double roofline_ms) {
    CaseError error;
    error.name = name;
    error.measured.latency = measured_ms;
    error.predicted.latency = predicted_ms;
    error.predicted.stream_roofline_ms = roofline_ms;
    return error;
}

}  // namespace

TEST_CASE("mean and median") {
    CHECK(mean_of({}) == 0);
    CHECK(mean_of(std::vector<double>{1, 2, 6}) == 3);
    CHECK(median_of({}) == 0);
    CHECK(median_of({6, 1, 2}) == 2);
    CHECK(median_of({4, 1, 2, 9}) == 3);
}

TEST_CASE("Spearman's correlation knows order, reversal, ties and what has none") {
    const std::vector<double> a = {1, 2, 3, 4};
    CHECK(spearman(a, std::vector<double>{10, 20, 30, 1000}).value() == Approx(1));
    CHECK(spearman(a, std::vector<double>{4, 3, 2, 1}).value() == Approx(-1));
    // One exchange of neighbours among four: 1 - 6 * 2 / (4 * 15).
    CHECK(spearman(a, std::vector<double>{1, 3, 2, 4}).value() == Approx(0.8));
    // Ranks 0, 1.5, 1.5, 3 against 0, 1, 2, 3.
    CHECK(spearman(a, std::vector<double>{1, 2, 2, 3}).value() == Approx(0.948683).epsilon(1e-5));
    CHECK_FALSE(spearman(a, std::vector<double>{5, 5, 5, 5}).has_value());
    CHECK_FALSE(spearman(std::vector<double>{1}, std::vector<double>{1}).has_value());
    CHECK_THROWS_AS(spearman(a, std::vector<double>{1}), Error);
}

TEST_CASE("pairs count when they differ by more than the threshold") {
    const std::vector<double> measured = {100, 105, 106};
    // 100 against 105 differ by exactly 5 % and do not count; 105 against 106 neither.
    PairOrdering ordering = pair_ordering(measured, std::vector<double>{1, 2, 3});
    CHECK(ordering.pairs == 1);
    CHECK(ordering.ordered == 1);
    CHECK(ordering.rate().value() == 1);
    ordering = pair_ordering(measured, std::vector<double>{3, 2, 1});
    CHECK(ordering.ordered == 0);
    ordering = pair_ordering(measured, std::vector<double>{1, 1, 1});
    CHECK(ordering.ordered == 0);  // a predicted tie is not an order
    CHECK_FALSE(pair_ordering(measured, measured, 1.0).rate().has_value());
}

TEST_CASE("errors are relative to the measurement, and summed up per predictor") {
    std::vector<CaseError> errors = {case_error("a", 1.0, 1.1, 0.5), case_error("b", 2.0, 1.6, 2.0),
                                     case_error("c", 4.0, 4.0, 3.0)};
    CHECK(errors[0].error(Predictor::kModel) == Approx(0.1));
    CHECK(errors[1].error(Predictor::kModel) == Approx(-0.2));
    const ErrorSummary model = summarise(errors);
    CHECK(model.kernels == 3);
    CHECK(model.mean == Approx(0.1));
    CHECK(model.median == Approx(0.1));
    CHECK(model.worst == Approx(0.2));
    CHECK(model.worst_kernel == "b");
    CHECK(model.spearman.value() == Approx(1));
    CHECK(model.pairs.pairs == 3);
    CHECK_FALSE(model.active_error.has_value());
    const ErrorSummary roofline = summarise(errors, Predictor::kStreamRoofline);
    CHECK(roofline.mean == Approx((0.5 + 0 + 0.25) / 3));
    CHECK(roofline.worst_kernel == "a");
}

TEST_CASE("the engine-active error counts measured engines only, in fractions of the latency") {
    CaseError error = case_error("a", 1, 1, 1);
    error.measured.scalar_engine_active_time_percent = 0.40;
    error.measured.vector_engine_active_time_percent = 0.20;
    error.predicted.scalar_engine_active_time_percent = 0.50;
    error.predicted.vector_engine_active_time_percent = 0.18;
    error.predicted.tensor_engine_active_time_percent = 0.90;
    CHECK(error.active_error().value() == Approx(0.06));
    CHECK(error.predicted_ms(Predictor::kCompiledRoofline) == Approx(0.9));
    const std::vector<CaseError> one = {error};
    CHECK(summarise(one).active_error.value() == Approx(0.06));
}

TEST_CASE("counters are exact, near or off, and zero is only ever exact") {
    std::vector<CaseError> errors(3, case_error("a", 1, 1, 1));
    errors[0].measured.hbm_read_bytes = 100;
    errors[0].predicted.hbm_read_bytes = 105;
    errors[1].measured.hbm_read_bytes = 100;
    errors[1].predicted.hbm_read_bytes = 81;
    errors[2].measured.hbm_read_bytes = 0;
    errors[2].predicted.hbm_read_bytes = 1;
    errors[2].measured.spill_save_bytes = 0;
    errors[2].predicted.spill_save_bytes = 0;
    const auto counters = summarise_counters(errors);
    REQUIRE(counters.size() == 2);  // what nothing measures is not listed
    CHECK(counters[0].name == "hbm_read_bytes");
    CHECK(counters[0].kernels == 3);
    CHECK(counters[0].exact == 0);
    CHECK(counters[0].within_5_percent == 1);
    CHECK(counters[0].within_20_percent == 2);
    CHECK(counters[1].name == "spill_save_bytes");
    CHECK(counters[1].exact == 1);
}

TEST_CASE("a set predicts what predict() does, on any number of threads, and ablates") {
    std::vector<CalibrationCase> cases;
    for (const auto& [name, program] :
         {std::pair{"silu", silu_structure()}, std::pair{"adamw", adamw_structure()}}) {
        CalibrationCase one{name, lower(program, trn1()), {}};
        one.measured.latency = predict(program, trn1()).compiled.latency;
        cases.push_back(std::move(one));
    }
    const CalibrationSet one_thread(cases, 1);
    const CalibrationSet set(cases, 4);
    const auto errors = set.errors(trn1());
    const auto same = one_thread.errors(trn1());
    REQUIRE(errors.size() == 2);
    for (std::size_t k = 0; k < 2; ++k) {
        CHECK(errors[k].error(Predictor::kModel) == 0);
        CHECK(errors[k].predicted.latency == same[k].predicted.latency);
    }
    std::vector<std::string> said;
    const auto ablations = set.ablate(trn1(), [&](const std::string& s) { said.push_back(s); });
    REQUIRE(ablations.size() == kMechanisms.size());
    CHECK(said.size() == kMechanisms.size());
    for (const Ablation& ablation : ablations) {
        if (ablation.mechanism->mechanism == Mechanism::kFarStride)
            CHECK(ablation.errors[0].error(Predictor::kModel) < -0.1);  // silu
        if (ablation.mechanism->mechanism == Mechanism::kReschedule)
            CHECK(ablation.summary.mean > 0.05);
    }
    cases[1].measured.latency.reset();
    CHECK_THROWS_AS(CalibrationSet(cases, 1), Error);
}
