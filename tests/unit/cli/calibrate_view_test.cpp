#include "cli/calibrate_view.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

using namespace accelopt;
using Catch::Contains;

namespace {

trainium::CaseError case_error(const std::string& name, double measured_ms, double predicted_ms) {
    trainium::CaseError error;
    error.name = name;
    error.measured.latency = measured_ms;
    error.measured.hbm_read_bytes = 100;
    error.measured.scalar_engine_active_time_percent = 0.40;
    error.predicted.latency = predicted_ms;
    error.predicted.stream_roofline_ms = 0.5;
    error.predicted.hbm_read_bytes = 110;
    error.predicted.scalar_engine_active_time_percent = 0.45;
    error.predicted.confidence = "high";
    return error;
}

cli::CalibrationReport sample() {
    cli::CalibrationReport report;
    report.measured = "m.csv";
    report.machine = "trn1@1234";
    report.errors = {case_error("silu", 1.0, 1.1), case_error("adamw", 2.0, 1.9)};
    report.skipped = {{"odd", "rejected/psum_capacity"}};
    return report;
}

}  // namespace

TEST_CASE("the text shows kernels, summaries, counters and what was skipped") {
    const std::string text = calibration_text(sample());
    CHECK_THAT(text, Contains("2 measured kernels of m.csv against trn1@1234"));
    CHECK_THAT(text, Contains("+10.0 %") && Contains("-5.0 %") && Contains("45 / 40"));
    CHECK_THAT(text, Contains("stream roofline") && Contains("roofline of compiled stream"));
    CHECK_THAT(text, Contains("(silu)") && Contains("1 of 1") && Contains("5.0 pts"));
    CHECK_THAT(text, Contains("hbm_read_bytes 1.100"));
    CHECK_THAT(text, Contains("skipped odd: rejected/psum_capacity"));
    CHECK_THAT(text, !Contains("leave-one-out") && !Contains("refit"));
}

TEST_CASE("the text of a refit is a diff that says what was not identified") {
    cli::CalibrationReport report = sample();
    cli::RefitReport refit;
    refit.result.changes = {{"dma_descriptor_ns", 15, 20, true},
                            {"gpsimd_overhead_cycles", 150, 150, false},
                            {"startup_ns", 15000, 15000, true}};
    refit.before = {{"dma_descriptor_ns", "15.0", "fit: study", 3}};
    refit.changes = {{"dma_descriptor_ns", "20", "fit: accelopt calibrate"}};
    refit.errors = report.errors;
    report.refit = refit;
    report.left_out = report.errors;
    const std::string text = calibration_text(report);
    CHECK_THAT(text, Contains("-dma_descriptor_ns: 15.0  # source: fit: study\n"
                              "+dma_descriptor_ns: 20  # source: fit: accelopt calibrate\n"));
    CHECK_THAT(text, Contains("unchanged: startup_ns"));
    CHECK_THAT(text, Contains("(no kernel reacts to them): gpsimd_overhead_cycles"));
    CHECK_THAT(text, Contains("stopped by --max-evaluations") && Contains("leave-one-out"));
}

TEST_CASE("the JSON has every figure, and null for what is absent") {
    const auto json = nlohmann::json::parse(calibration_json(sample()));
    CHECK(json["kernels"].size() == 2);
    CHECK(json["kernels"][0]["error"].get<double>() == Approx(0.1));
    CHECK(json["kernels"][0]["counters"]["hbm_read_bytes"]["predicted"] == 110);
    CHECK(json["kernels"][0]["counters"]["psum_read_bytes"]["measured"].is_null());
    CHECK(json["summary"]["model"]["mean"].get<double>() == Approx(0.075));
    CHECK(json["summary"]["stream_roofline"]["worst"].get<double>() == Approx(0.75));
    CHECK(json["counters"][0]["within_20_percent"] == 2);
    CHECK(json["skipped"][0]["kernel"] == "odd");
    CHECK_FALSE(json.contains("refit"));
}

TEST_CASE("predictions are a table of one row per kernel") {
    const std::string csv = cli::prediction_csv(sample().errors);
    CHECK(csv.find("kernel,latency_ms,hbm_read_bytes,") == 0);
    CHECK_THAT(csv, Contains("\nsilu,1.100000,110,,"));
    CHECK_THAT(csv, Contains(",0.4500,"));
}
