#include "report/profile_view.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "unit/store/sample_run.h"

using namespace accelopt;
using report::columns_of;
using report::profile_view;
using store::testing::reply_with;

namespace {

protocol::EvaluationReply full_reply() {
    auto reply = reply_with("silu", protocol::Outcome::kOk, "", 1.25);
    reply.profile->tensor_engine_active_time_percent = 0.0;
    reply.profile->scalar_engine_active_time_percent = 0.5;
    reply.profile->dma_active_time_percent = 0.9;
    reply.profile->detail = {};  // has tests of its own
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
    CHECK(profile_view(full_reply(), {"kernel.py", "", {68, false}}) ==
          R"(silu on trn1: ok (reached: values)
  kernel abc, machine trn1@1234

1.250 ms predicted, 40.0 % of peak, bound by DMA, confidence high
  - far strides

  lower bound           0.530  ms, no honest kernel is faster
  stream roofline         n/a  ms, busiest engine of the kernel as written

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
)");
}

TEST_CASE("A measurement gets its column and the error of the prediction") {
    auto reply = full_reply();
    reply.measured = protocol::Profile{};
    reply.measured->latency = 1.0;
    const std::string view = profile_view(reply, {"kernel.py", "", {}});
    CHECK_THAT(view, Catch::Contains("measured              1.000  ms (prediction +25.0 %)"));
    CHECK_THAT(view, Catch::Contains("compiled  as written  measured"));
}

TEST_CASE("A rejected kernel shows its diagnostics and no figures") {
    auto reply = reply_with("silu", protocol::Outcome::kRejected, "sbuf_capacity", 1);
    reply.profile.reset();
    reply.correctness.clear();
    const std::string view = profile_view(reply, {"kernel.py", "", {}});
    CHECK_THAT(view, Catch::StartsWith("silu on trn1: rejected/sbuf_capacity"));
    CHECK_THAT(view, Catch::Contains("kernel.py:2"));
    CHECK_THAT(view, !Catch::Contains("engines"));
}

TEST_CASE("Shares beyond the whole do not overflow their bar") {
    auto reply = full_reply();
    reply.profile->dma_active_time_percent = 7.0;
    CHECK_THAT(profile_view(reply, {"k", "", {68, false}}),
               Catch::Contains(std::string(40, '#') + "  700.0 %"));
}

namespace {

protocol::EvaluationReply detailed_reply() {
    auto reply = full_reply();
    protocol::ProfileDetail detail;
    detail.roofline =
        protocol::Roofline{"matmul", 2e9, 1e6, 2000.0, 54, 23.75e12, 23.75e12, 11.5e12, "compute"};
    detail.lines = {{2, "nl.load", 32, 0.75, 0, 0, 0, 0, 0.7, 1 << 20},
                    {3, "nl.exp", 32, 0.25, 0, 0.2, 0, 0, 0, 0},
                    {2, "spill of x", 1, 0.125, 0, 0, 0, 0, 0.1, 4096}};
    detail.lines_left_out = 2;
    detail.critical_path = {{2, "nl.load", "DMA", "queue", 30, 0.7},
                            {3, "nl.exp", "ACT", "operand", 1, 0.0001},
                            {0, "start-up", "", "startup", 1, 0.015}};
    detail.critical_parts_left_out = 4;
    detail.critical_left_out_ms = 0.05;
    detail.tensors = {{"a", "input", 1, 1 << 20, 3 << 20, 0, 3.0}};
    detail.sbuf = protocol::Occupancy{196608, 98304, 49152, 0.5, {0, 98304, 196608}};
    detail.psum = protocol::Occupancy{8, 2, 0.5, 0.1, {0, 1, 8}};
    reply.profile->detail = detail;
    reply.profile->latency_uncertainty = 0.05;
    return reply;
}

constexpr const char* kSource =
    "def kernel(a):\n    x = nl.load(a[0:128, 0:512])\n    y = nl.exp(x)\n";

}  // namespace

TEST_CASE("Time by source line comes with the text of the line and only the engines in use") {
    const std::string view = profile_view(detailed_reply(), {"k", kSource, {90, false}});
    CHECK_THAT(view, Catch::Contains("confidence high (+- 5 %)"));
    CHECK_THAT(view, Catch::Contains("line  path ms     %  ACT ms  DMA ms    moved  source"));
    CHECK_THAT(
        view,
        Catch::Contains("2    0.750  60.0       -   0.700  1.0 MiB  x = nl.load(a[0:128, 0:512])"));
    CHECK_THAT(view, Catch::Contains("3    0.250  20.0   0.200       -        -  y = nl.exp(x)"));
    CHECK_THAT(view, Catch::Contains("4.0 KiB  spill of x"));
    CHECK_THAT(view, Catch::Contains("and 2 more lines"));
    CHECK_THAT(view, !Catch::Contains("PE ms"));
}

TEST_CASE("The view shows path, tensors, occupancy and roofline, and fits its width") {
    for (const int width : {70, 80, 120}) {
        const std::string view = profile_view(detailed_reply(), {"k", kSource, {width, false}});
        CHECK_THAT(view, Catch::Contains("the queues are full"));
        CHECK_THAT(view, Catch::Contains("5 more parts, 0.050 ms together"));
        CHECK_THAT(view, Catch::Contains("3.0x"));
        CHECK_THAT(view, Catch::Contains("| ▄█|"));
        CHECK_THAT(view, Catch::Contains("peak 96.0 at 0.500 ms, mean 48.0 of 192.0 KiB"));
        CHECK_THAT(view, Catch::Contains("2e+03  matmul op/byte of HBM traffic, ridge at 54"));
        CHECK_THAT(view, Catch::Contains("48.4  % of the compute roof, 23.75 Top/s"));
        CHECK(view.find('\x1b') == std::string::npos);
        // Only the table of counters has a width of its own.
        const std::string detail = view.substr(0, view.find("traffic and work"));
        for (std::size_t at = 0, end = 0; (end = detail.find('\n', at)) != std::string::npos;
             at = end + 1) {
            CAPTURE(detail.substr(at, end - at));
            CHECK(static_cast<int>(columns_of(detail.substr(at, end - at))) <= std::max(width, 76));
        }
    }
    const std::string narrow = profile_view(detailed_reply(), {"k", kSource, {64, false}});
    CHECK_THAT(narrow, Catch::Contains("x = nl.load(a[0…"));
}

TEST_CASE("Colours appear only where they are asked for") {
    CHECK_THAT(profile_view(detailed_reply(), {"k", kSource, {90, true}}),
               Catch::Contains("\x1b[1m1.250 ms\x1b[0m predicted"));
}
