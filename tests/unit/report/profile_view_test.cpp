#include "report/profile_view.h"

#include <catch2/catch.hpp>

#include "unit/store/sample_run.h"

using namespace accelopt;
using report::profile_view;
using store::testing::reply_with;

namespace {

protocol::EvaluationReply full_reply() {
    auto reply = reply_with("silu", protocol::Outcome::kOk, "", 1.25);
    reply.profile->tensor_engine_active_time_percent = 0.0;
    reply.profile->scalar_engine_active_time_percent = 0.5;
    reply.profile->dma_active_time_percent = 0.9;
    reply.profile->lower_bound_ms = 0.53;
    reply.profile->hardware_flops = 85899870208;
    reply.profile->confidence_reasons = {"far strides"};
    reply.as_written = protocol::Profile{};
    reply.as_written->hbm_read_bytes = 2 * 117440512;
    reply.correctness.push_back({1, "nominal", 0, "published", 3e-6, std::nullopt, true});
    return reply;
}

}  // namespace

TEST_CASE("The profile view shows verdict, figures, engines and traffic of one kernel") {
    CHECK(profile_view(full_reply(), "kernel.py") ==
          R"(silu on trn1: ok (reached: values)
  kernel           abc
  machine          trn1@1234
  latency               1.250  ms, predicted
  lower bound           0.530  ms, no honest kernel is faster
  stream roofline         n/a  ms, busiest engine of the kernel as written
  of peak                40.0  %
  bound by                DMA

engines, share of the time active
  PE (tensor)    ........................................    0.0 %
  ACT (scalar)   ####################....................   50.0 %
  DVE (vector)   ........................................    n/a
  Pool (gpsimd)  ........................................    n/a
  DMA            ####################################....   90.0 %

traffic and work        compiled  as written
--------------------------------------------
  HBM read             112.0 MiB   224.0 MiB
  HBM written                n/a         n/a
  SBUF read                  n/a         n/a
  SBUF written               n/a         n/a
  PSUM read                  n/a         n/a
  PSUM written               n/a         n/a
  spill reloaded             n/a         n/a
  spill saved                n/a         n/a
  flops                  85.90 G         n/a
  of these transposes        n/a         n/a

correctness, rule published
  output 0 (nominal): 2 of 2 seeds pass, worst relative error 3.00e-06

confidence in the prediction: high
  - far strides
)");
}

TEST_CASE("A measurement gets its column and the error of the prediction") {
    auto reply = full_reply();
    reply.measured = protocol::Profile{};
    reply.measured->latency = 1.0;
    const std::string view = profile_view(reply, "kernel.py");
    CHECK_THAT(view, Catch::Contains("measured              1.000  ms (prediction +25.0 %)"));
    CHECK_THAT(view, Catch::Contains("compiled  as written  measured"));
}

TEST_CASE("A rejected kernel shows its diagnostics and no figures") {
    auto reply = reply_with("silu", protocol::Outcome::kRejected, "sbuf_capacity", 1);
    reply.profile.reset();
    reply.correctness.clear();
    const std::string view = profile_view(reply, "kernel.py");
    CHECK_THAT(view, Catch::StartsWith("silu on trn1: rejected/sbuf_capacity"));
    CHECK_THAT(view, Catch::Contains("kernel.py:2"));
    CHECK_THAT(view, !Catch::Contains("engines"));
}

TEST_CASE("Shares beyond the whole do not overflow their bar") {
    auto reply = full_reply();
    reply.profile->dma_active_time_percent = 7.0;
    CHECK_THAT(profile_view(reply, "k"), Catch::Contains(std::string(40, '#') + "  700.0 %"));
}
