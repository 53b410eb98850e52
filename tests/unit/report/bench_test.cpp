#include "report/bench.h"

#include <catch2/catch.hpp>

#include "unit/store/sample_run.h"

using namespace accelopt;
using store::testing::reply_with;

TEST_CASE("The bench table sets predictions beside measurements") {
    auto silu = reply_with("silu", protocol::Outcome::kOk, "", 1.2);
    silu.profile->lower_bound_ms = 0.53;
    silu.profile->stream_roofline_ms = 1.1;
    silu.profile->latency_uncertainty = 0.05;
    silu.measured = protocol::Profile{};
    silu.measured->latency = 1.0;
    auto adamw = reply_with("adamw", protocol::Outcome::kOk, "", 3.6);
    adamw.measured = protocol::Profile{};
    adamw.measured->latency = 4.0;
    adamw.tier = "timing";
    auto broken = reply_with("rope", protocol::Outcome::kRejected, "sbuf_capacity", 0);
    broken.profile.reset();
    CHECK(report::render_bench({silu, adamw, broken}, "csv") ==
          "problem,predicted ms,measured ms,error %,lower bound ms,roofline ms,% of "
          "peak,bound,confidence,+- %,verified\n"
          "silu,1.200,1.000,+20.0,0.530,1.100,41.7,DMA,high,5.0,yes\n"
          "adamw,3.600,4.000,-10.0,n/a,n/a,13.9,DMA,high,n/a,not compared\n"
          "rope,n/a,n/a,n/a,n/a,n/a,n/a,n/a,n/a,n/a,rejected/sbuf_capacity\n"
          "mean |error|,,,15.0,,10.0 %,,,,,\n");
}

TEST_CASE("As text, the bench says how errors go with confidence, and why it is not high") {
    auto silu = reply_with("silu", protocol::Outcome::kOk, "", 1.2);
    silu.measured = protocol::Profile{};
    silu.measured->latency = 1.0;
    auto lora = reply_with("lora", protocol::Outcome::kOk, "", 1.5);
    lora.measured = silu.measured;
    lora.profile->confidence = "low";
    lora.profile->confidence_reasons = {"heavy spilling"};
    const std::string text = report::render_bench({silu, lora}, "text");
    CHECK_THAT(text,
               Catch::Contains("mean |error| by confidence: high 20.0 % (1), low 50.0 % (1)"));
    CHECK_THAT(text, Catch::Contains("- heavy spilling: lora\n"));
}

TEST_CASE("Without measurements there is no error row") {
    const auto silu = reply_with("silu", protocol::Outcome::kOk, "", 1.2);
    CHECK_THAT(report::render_bench({silu}, "text"), !Catch::Contains("mean"));
}
