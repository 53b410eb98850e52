#include "llm/doctor.h"

#include <catch2/catch.hpp>
#include <cstdlib>

#include "support/fault_server.h"

using namespace accelopt;
using namespace accelopt::llm;
using accelopt::testing::FaultServer;
using accelopt::testing::ScriptedReply;

namespace {

constexpr const char* kKey = "sk-doctor-0123456789abcdef";

std::vector<Finding> examine(const std::string& url, bool budget = false) {
    config::ModelConfig model;
    model.key = "m";
    model.provider = "openai";
    model.url = url;
    model.name = "org/model-1";
    model.key_env = "ACCELOPT_DOCTOR_KEY";
    model.given = {"provider", "url", "name", "key_env"};
    auto findings = examine_models({{"m", model}}, {}, budget, 30);
    for (const auto& finding : findings) {
        CHECK((finding.what + finding.value + finding.remedy).find("sk-doctor") ==
              std::string::npos);
    }
    return findings;
}

ScriptedReply body_reply(int status, const std::string& body) {
    ScriptedReply reply;
    reply.status = status;
    reply.body = body;
    return reply;
}

}  // namespace

TEST_CASE("the doctor asks an endpoint for its models, without spending", "[N26]") {
    setenv("ACCELOPT_DOCTOR_KEY", kKey, 1);
    FaultServer server({body_reply(200, R"({"data":[{"id":"org/model-1"}]})"),
                        body_reply(200, R"({"data":[{"id":"org/model-2"}]})"),
                        body_reply(404, "no"),
                        testing::error_reply(401, std::string("bad key ") + kKey)});
    const auto good = examine(server.url() + "/chat/completions");
    REQUIRE(good.size() == 3);
    CHECK(good[0].value == "openai, key present");
    CHECK(good[1].good);
    CHECK(good[1].value == "n/a: costs are unknown");
    CHECK(good[2].good);
    CHECK(server.requests().at(0).path == "/v1/models");
    const auto other = examine(server.url());
    CHECK_FALSE(other.at(2).good);
    CHECK(other.at(2).remedy == "is it org/model-2?");
    CHECK(examine(server.url()).at(2).good);
    const auto refused = examine(server.url());
    CHECK_FALSE(refused.at(2).good);
    CHECK(refused.at(2).value.find("[secret]") != std::string::npos);
}

TEST_CASE("the doctor tells of missing keys, prices and endpoints", "[N21]") {
    setenv("ACCELOPT_DOCTOR_KEY", kKey, 1);
    const auto away = examine(testing::refused_url(), true);
    REQUIRE(away.size() == 3);
    CHECK_FALSE(away[1].good);
    CHECK_FALSE(away[2].good);
    unsetenv("ACCELOPT_DOCTOR_KEY");
    const auto keyless = examine(testing::refused_url());
    REQUIRE(keyless.size() == 1);
    CHECK(keyless[0].value.find("ACCELOPT_DOCTOR_KEY") != std::string::npos);
}

TEST_CASE("the doctor reaches for Bedrock without signing anything") {
    setenv("ACCELOPT_DOCTOR_KEY", kKey, 1);
    FaultServer server({body_reply(403, "who are you")});
    config::ModelConfig model;
    model.key = "m";
    model.provider = "bedrock";
    model.url = server.url();
    model.name = "org.model-v1:0";
    model.region = "us-west-2";
    model.key_env = model.secret_key_env = "ACCELOPT_DOCTOR_KEY";
    model.given = {"provider", "url", "name", "region", "key_env", "secret_key_env"};
    const auto findings = examine_models({{"m", model}}, {}, false, 30);
    REQUIRE(findings.size() == 3);
    CHECK(findings[2].good);
    CHECK(server.requests().at(0).headers.count("authorization") == 0);
    model.url = testing::refused_url();
    CHECK_FALSE(examine_models({{"m", model}}, {}, false, 30).at(2).good);
}
