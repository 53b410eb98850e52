#include "llm/bedrock.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "llm/sigv4.h"
#include "support/fault_server.h"
#include "unit/llm/client_fakes.h"

using namespace accelopt;
using namespace accelopt::llm;
using accelopt::testing::FaultServer;
using accelopt::testing::ScriptedReply;
using nlohmann::json;
using protocol::LlmOutcome;

namespace {

TryResult read(const json& body) {
    const auto reader = make_bedrock_reader();
    reader->take("application/json", body.dump());
    TryResult result;
    result.http_status = 200;
    reader->finish(true, result);
    return result;
}

json answer(const std::string& stop_reason, json usage) {
    return {{"output",
             {{"message",
               {{"role", "assistant"},
                {"content",
                 {{{"reasoningContent", {{"reasoningText", {{"text", "hm"}}}}}},
                  {{"text", "hello"}}}}}}}},
            {"stopReason", stop_reason},
            {"usage", std::move(usage)}};
}

}  // namespace

TEST_CASE("a Converse request carries prompt, limits and thinking") {
    ModelOptions model;
    model.max_tokens = 20000;
    model.thinking_tokens = 10000;
    model.cache_prompt = true;
    const json body = json::parse(bedrock_request_body(model, make_request("u")));
    CHECK(body["system"][0]["text"] == "be brief");
    CHECK(body["system"][1]["cachePoint"]["type"] == "default");
    CHECK(body["messages"][0]["content"][0]["text"] == "question of u");
    CHECK(body["inferenceConfig"]["maxTokens"] == 20000);
    CHECK(body["additionalModelRequestFields"]["thinking"]["budget_tokens"] == 10000);
}

TEST_CASE("a Converse answer gives text, reasoning and disjoint token classes", "[N19][N20]") {
    const TryResult extra = read(answer("end_turn", {{"inputTokens", 10},
                                                     {"outputTokens", 5},
                                                     {"cacheReadInputTokens", 100},
                                                     {"cacheWriteInputTokens", 50},
                                                     {"totalTokens", 165}}));
    CHECK(extra.outcome == LlmOutcome::kOk);
    CHECK(extra.text == "hello");
    CHECK(extra.reasoning == "hm");
    CHECK(extra.usage.input_tokens.value() == 10);
    CHECK(extra.usage.cached_input_tokens.value() == 100);
    CHECK(extra.usage.cache_write_tokens.value() == 50);
    const TryResult inside = read(answer("max_tokens", {{"inputTokens", 160},
                                                        {"outputTokens", 5},
                                                        {"cacheReadInputTokens", 100},
                                                        {"cacheWriteInputTokens", 50},
                                                        {"totalTokens", 165}}));
    CHECK(inside.outcome == LlmOutcome::kLength);
    CHECK(inside.usage.input_tokens.value() == 10);
    CHECK(read(answer("guardrail_intervened", {})).outcome == LlmOutcome::kFiltered);
    CHECK(read(answer("", {})).outcome == LlmOutcome::kTruncatedStream);
    CHECK(read({{"output", 3}}).outcome == LlmOutcome::kMalformed);
}

TEST_CASE("the bedrock provider signs what it sends and reads exceptions by their name") {
    ScriptedReply throttled;
    throttled.status = 429;
    throttled.headers["x-amzn-ErrorType"] = "ThrottlingException:http://internal.amazon.com/x";
    throttled.body = R"({"message":"Too many requests"})";
    ScriptedReply good;
    good.body = answer("end_turn", {{"inputTokens", 1}, {"outputTokens", 2}}).dump();
    ScriptedReply refused;
    refused.status = 403;
    refused.body = R"({"__type":"com.amazon.coral#ExpiredTokenException","message":"expired"})";
    FaultServer server({throttled, good, refused});
    ModelOptions model;
    model.key = "m";
    model.provider = "bedrock";
    model.url = server.url().substr(0, server.url().rfind('/'));
    model.name = "anthropic.claude-sonnet-4-20250514-v1:0";
    model.region = "us-west-2";
    model.api_key = Secret("AKIDEXAMPLE0123456");
    model.secret_key = Secret("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY");
    model.session_token = Secret("token-0123456789abcdef");
    model.stream = false;
    model.timeout_s = 20;
    Client client({{"m", model}}, {{"bedrock", make_bedrock_provider()}}, {}, nullptr, nullptr,
                  nullptr, system_clock(), 3, RetryOptions{0.01, 0.05});
    client.submit(make_request("u"));
    auto all = drain(client, system_clock(), 20);
    REQUIRE(all.size() == 1);
    CHECK(all[0].reply.outcome == LlmOutcome::kOk);
    REQUIRE(all[0].reply.tries.size() == 2);
    CHECK(all[0].reply.tries[0].outcome == LlmOutcome::kRateLimited);

    const auto request = server.requests().at(1);
    SigV4Request expected;
    expected.method = "POST";
    expected.path = "/model/anthropic.claude-sonnet-4-20250514-v1%3A0/converse";
    for (const char* name : {"content-type", "host", "x-amz-date", "x-amz-security-token"}) {
        expected.headers[name] = request.headers.at(name);
    }
    expected.body = request.body;
    const SigV4Scope scope{model.api_key.reveal(), model.secret_key.reveal(), "us-west-2",
                           "bedrock", request.headers.at("x-amz-date")};
    CHECK(request.headers.at("authorization") == sigv4_authorization(expected, scope));
    client.submit(make_request("u2"));
    all = drain(client, system_clock(), 20);
    REQUIRE(all.size() == 1);
    CHECK(all[0].reply.outcome == LlmOutcome::kAuth);
}
