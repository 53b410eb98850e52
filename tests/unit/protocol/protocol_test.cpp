#include <catch2/catch.hpp>
#include <limits>

#include "core/error.h"
#include "protocol/evaluation.h"
#include "protocol/unit.h"

using namespace accelopt;
using namespace accelopt::protocol;

TEST_CASE("an evaluation request survives JSON") {
    EvaluationRequest request;
    request.id = "a1";
    request.problem = "silu";
    request.source = "def kernel(x):\n    return x\n";
    request.seeds = {3, 4};
    request.limits.wall_s = 2.5;
    const auto back = parse_evaluation_request(to_json(request));
    REQUIRE(back.ok());
    CHECK(to_json(*back) == to_json(request));
    CHECK(to_json(request).find('\n') == std::string::npos);
}

TEST_CASE("a bad request names the member") {
    CHECK(parse_evaluation_request("[]").error() == "not a JSON object");
    CHECK(parse_evaluation_request(R"({"schema":1,"problem":"a"})").error() ==
          "member \"source\" is required");
    CHECK(parse_evaluation_request(R"({"schema":1,"problem":3,"source":""})").error() ==
          "member \"problem\" has the wrong type");
    CHECK(parse_evaluation_request(R"({"schema":1,"problem":"a","source":"","sede":1})").error() ==
          "unknown member \"sede\"");
    CHECK(parse_evaluation_request(R"({"schema":9,"problem":"a","source":""})").error() ==
          "member \"schema\" must be 1");
}

TEST_CASE("a reply keeps absent figures null and never prints NaN") {
    EvaluationReply reply;
    reply.outcome = Outcome::kIncorrect;
    reply.reason = "value";
    reply.tier = "values";
    reply.profile.emplace();
    reply.profile->latency = std::numeric_limits<double>::quiet_NaN();
    reply.profile->hbm_read_bytes = 117440512;
    reply.diagnostics.push_back({.code = "value", .message = "x", .line = 3, .shapes = {{1, 2}}});
    reply.cost.parts = {{"trace", 0.25}};
    const std::string json = to_json(reply);
    CHECK(json.find("nan") == std::string::npos);
    CHECK(json.find("\"latency\":null") != std::string::npos);
    const auto back = parse_evaluation_reply(json);
    REQUIRE(back.ok());
    CHECK(back->profile->hbm_read_bytes == 117440512);
    CHECK(!back->profile->hbm_write_bytes);
    CHECK(to_json(*back) == json);
    CHECK(!back->verified());
}

namespace {

ProfileDetail some_detail() {
    ProfileDetail detail;
    detail.roofline =
        Roofline{"matmul", 1e12, 1e9, 1000.0, 54, 23.75e12, 23.75e12, 1e13, "compute"};
    detail.lines = {{12, "nisa.nc_matmul", 32, 0.5, 0.4, 0, 0, 0, 0, 0},
                    {0, "spill of \"acc\"", 2, 0.1, 0, 0, 0, 0, 0.2, 4096}};
    detail.lines_left_out = 3;
    detail.critical_path = {{12, "nisa.nc_matmul", "PE", "engine", 31, 0.45}};
    detail.critical_parts_left_out = 2;
    detail.critical_left_out_ms = 0.15;
    detail.tensors = {{"lhs", "input", 1, 1024, 4096, 0, 4.0},
                      {"out", "output", 9, 1024, 0, 1024, std::nullopt}};
    detail.tensors_left_out = 1;
    detail.sbuf = Occupancy{196608, 4096, 1024.5, 0.25, {0, 1, 2}};
    return detail;
}

}  // namespace

TEST_CASE("what a profile says beyond its figures survives JSON, and is null where it is absent") {
    EvaluationReply reply;
    reply.outcome = Outcome::kOk;
    reply.profile = Profile{};
    reply.profile->latency_uncertainty = 0.05;
    reply.profile->detail = some_detail();
    reply.as_written = Profile{};
    const std::string text = to_json(reply);
    const auto parsed = parse_evaluation_reply(text);
    REQUIRE(parsed);
    CHECK(to_json(*parsed) == text);
    REQUIRE(parsed->profile->detail);
    const ProfileDetail& detail = *parsed->profile->detail;
    CHECK(detail.roofline->roof == "compute");
    CHECK(detail.lines[1].operation == "spill of \"acc\"");
    CHECK(detail.lines_left_out == 3);
    CHECK(detail.critical_path[0].cause == "engine");
    CHECK(*detail.tensors[0].reads_per_byte == 4.0);
    CHECK_FALSE(detail.tensors[1].reads_per_byte);
    CHECK(detail.sbuf->series.size() == 3);
    CHECK_FALSE(detail.psum);
    CHECK(*parsed->profile->latency_uncertainty == 0.05);
    CHECK_FALSE(parsed->as_written->detail);
    const auto as_written = text.substr(text.find("\"as_written\""));
    CHECK(as_written.find("\"lines\":null") != std::string::npos);
    CHECK(as_written.find("\"occupancy\":null") != std::string::npos);
    // Mistyped lists are refused by name.
    CHECK_FALSE(parse_evaluation_reply(R"({"outcome":"ok","profile":{"lines":7}})"));
}

TEST_CASE("a reply without an outcome, or with an unknown one, is refused") {
    CHECK(!parse_evaluation_reply("{}").ok());
    CHECK(!parse_evaluation_reply(R"({"outcome":"fine"})").ok());
}

TEST_CASE("a unit result survives JSON, invalid UTF-8 included") {
    UnitResult result;
    result.unit_id = "u";
    result.kind = UnitKind::kRewrite;
    Sample sample;
    sample.status = SampleStatus::kEvaluated;
    sample.reply = "text with \"quotes\"\n";
    sample.speedup = 1.25;
    sample.evaluation.emplace();
    sample.evaluation->outcome = Outcome::kOk;
    sample.repairs.push_back({"def broken", "rejected/hazard", LlmOutcome::kLength, "half a"});
    result.samples.push_back(sample);
    LedgerRow row;
    row.usage.input_tokens = 0;
    row.cost_usd = 0.0;
    result.ledger.push_back(row);
    const std::string json = to_json(result);
    CHECK(to_json(parse_unit_result(json)) == json);
    CHECK(parse_unit_result(json).ledger[0].usage.input_tokens == 0);
    CHECK(!parse_unit_result(json).ledger[0].usage.output_tokens);
    const auto repair = parse_unit_result(json).samples[0].repairs.at(0);
    CHECK(repair.source == "def broken");
    CHECK(repair.verdict == "rejected/hazard");
    CHECK(repair.llm_outcome == LlmOutcome::kLength);
    CHECK(repair.reply == "half a");
    result.samples[0].reply = "bad \xff byte";
    CHECK_NOTHROW(parse_unit_result(to_json(result)));
    CHECK_THROWS_AS(parse_unit_result("{\"kind\":\"x\"}"), Error);
}

TEST_CASE("a diagnostic renders position, caret, operation and remedy") {
    Diagnostic d{.code = "num_partition_exceed_arch_limit",
                 .message = "256 partitions",
                 .line = 4,
                 .column = 5,
                 .snippet = "x = nl.load(a)",
                 .operation = "nl.load",
                 .shapes = {{256, 4}},
                 .limit = 128,
                 .remedy = "use at most 128 partitions"};
    CHECK(render(d, "k.py") ==
          "k.py:4:5: error[num_partition_exceed_arch_limit]: 256 partitions\n"
          "    x = nl.load(a)\n"
          "        ^~~~~~~~~~\n"
          "    operation: nl.load [256, 4], limit 128\n"
          "    remedy: use at most 128 partitions\n");
}

TEST_CASE("carets underline a place, in tabs, characters of several bytes and long lines") {
    Diagnostic d{.code = "c", .message = "m", .line = 2, .column = 6};
    d.snippet = "\tx = nl.exp(t)";
    CHECK(render(d, "k.py") == "k.py:2:6: error[c]: m\n    \tx = nl.exp(t)\n    \t    ^~~~~~~~~\n");
    d.snippet = "\xc3\xa9 = nl.exp(t)";  // two bytes, one column
    CHECK(render(d, "k.py").find("\n        ^~~~~~~~~\n") != std::string::npos);
    d.snippet = std::string(1000, 'x') + "here";
    d.column = 1001;
    const std::string text = render(d, "k.py");
    CHECK(text.size() < 500);
    CHECK(text.find("xhere\n") != std::string::npos);
    CHECK(text.find(" ^~~~\n") != std::string::npos);
    d.column = 5000;  // beyond the line: no caret, no crash
    CHECK(render(d, "k.py").find('^') == std::string::npos);
    d.shapes = {{2, 3}};
    d.limit = 4;
    CHECK(render(d, "k.py").find("    about: [2, 3], limit 4\n") != std::string::npos);
    d.snippet = "y = f(a, [1, 2])[0] + g(";
    d.column = 5;
    CHECK(render(d, "k.py").find("\n        ^~~~~~~~~~~~~~~\n") != std::string::npos);
    d.column = 23;
    CHECK(render(d, "k.py").find("^\n") != std::string::npos);
}

TEST_CASE("every outcome spelling parses back") {
    for (int i = 0; i <= static_cast<int>(Outcome::kEvaluatorError); ++i) {
        CHECK(parse_outcome(to_string(static_cast<Outcome>(i))) == static_cast<Outcome>(i));
    }
    for (int i = 0; i <= static_cast<int>(LlmOutcome::kBudget); ++i) {
        CHECK(parse_llm_outcome(to_string(static_cast<LlmOutcome>(i))) ==
              static_cast<LlmOutcome>(i));
    }
}
