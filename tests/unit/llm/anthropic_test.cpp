#include "llm/anthropic.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "support/fault_server.h"
#include "support/raw_server.h"
#include "unit/llm/client_fakes.h"

using namespace accelopt;
using namespace accelopt::llm;
using accelopt::testing::FaultServer;
using accelopt::testing::ScriptedReply;
using nlohmann::json;
using protocol::LlmOutcome;

namespace {

std::string event(const json& data) {
    return "event: " + data.value("type", "") + "\ndata: " + data.dump() + "\n\n";
}

json block_delta(const char* type, const char* member, const std::string& text) {
    return {
        {"type", "content_block_delta"}, {"index", 0}, {"delta", {{"type", type}, {member, text}}}};
}

/// A stream with thinking, text and all four token classes; `end` as the API ends it.
std::string stream(const std::string& stop_reason, bool stop = true) {
    std::string text = event({{"type", "message_start"},
                              {"message",
                               {{"content", json::array()},
                                {"usage",
                                 {{"input_tokens", 12},
                                  {"cache_creation_input_tokens", 300},
                                  {"cache_read_input_tokens", 2000},
                                  {"output_tokens", 1}}}}}});
    text += event({{"type", "content_block_start"},
                   {"index", 0},
                   {"content_block", {{"type", "thinking"}, {"thinking", ""}}}});
    text += event(block_delta("thinking_delta", "thinking", "let me see"));
    text += event(block_delta("signature_delta", "signature", "c2ln"));
    text += event({{"type", "content_block_stop"}, {"index", 0}});
    text += event({{"type", "ping"}});
    text += event({{"type", "content_block_start"},
                   {"index", 1},
                   {"content_block", {{"type", "text"}, {"text", ""}}}});
    text += event(block_delta("text_delta", "text", "hello "));
    text += event(block_delta("text_delta", "text", "world"));
    if (!stop) return text;
    text += event({{"type", "message_delta"},
                   {"delta", {{"stop_reason", stop_reason}}},
                   {"usage", {{"output_tokens", 500}}}});
    return text + event({{"type", "message_stop"}});
}

TryResult read(const std::string& body, bool whole = true, std::size_t piece = 7) {
    const auto reader = make_anthropic_reader();
    for (std::size_t i = 0; i < body.size(); i += piece) {
        if (!reader->take("text/event-stream", std::string_view(body).substr(i, piece))) break;
    }
    TryResult result;
    result.http_status = 200;
    reader->finish(whole, result);
    return result;
}

}  // namespace

TEST_CASE("a Messages request carries system prompt, thinking budget and cache mark") {
    ModelOptions model;
    model.name = "claude-sonnet-4-20250514";
    model.temperature = 1;
    model.max_tokens = 20000;
    model.thinking_tokens = 10000;
    model.cache_prompt = true;
    const json body = json::parse(anthropic_request_body(model, make_request("u")));
    CHECK(body["max_tokens"] == 20000);
    CHECK(body["thinking"]["type"] == "enabled");
    CHECK(body["thinking"]["budget_tokens"] == 10000);
    CHECK(body["temperature"] == 1.0);
    CHECK(body["stream"] == true);
    CHECK(body["system"][0]["text"] == "be brief");
    CHECK(body["system"][0]["cache_control"]["type"] == "ephemeral");
    REQUIRE(body["messages"].size() == 1);
    CHECK(body["messages"][0]["role"] == "user");
}

TEST_CASE("a Messages stream gives text, thinking and disjoint token classes", "[N19][N20]") {
    const TryResult result = read(stream("end_turn"));
    CHECK(result.outcome == LlmOutcome::kOk);
    CHECK(result.text == "hello world");
    CHECK(result.reasoning == "let me see");
    CHECK(result.usage.input_tokens.value() == 12);
    CHECK(result.usage.cached_input_tokens.value() == 2000);
    CHECK(result.usage.cache_write_tokens.value() == 300);
    CHECK(result.usage.output_tokens.value() == 500);
    CHECK(json::parse(result.usage.raw_json)["cache_read_input_tokens"] == 2000);
    Price price;
    price.input_usd = 3;
    price.cached_input_usd = 0.3;
    price.cache_write_usd = 3.75;
    price.output_usd = 15;
    PriceTable prices;
    prices.set("c", price);
    CHECK(prices.cost_usd("c", result.usage).value() ==
          Approx((12 * 3 + 2000 * 0.3 + 300 * 3.75 + 500 * 15) / 1e6));
}

TEST_CASE("the stop reason decides how a message ended") {
    CHECK(read(stream("stop_sequence")).outcome == LlmOutcome::kOk);
    CHECK(read(stream("max_tokens")).outcome == LlmOutcome::kLength);
    CHECK(read(stream("refusal")).outcome == LlmOutcome::kRefused);
    CHECK(read(stream("tool_use")).outcome == LlmOutcome::kMalformed);
}

TEST_CASE("a Messages stream that breaks off keeps what it used", "[N18]") {
    const TryResult cut = read(stream("", false));
    CHECK(cut.outcome == LlmOutcome::kTruncatedStream);
    CHECK(cut.text == "hello world");
    CHECK(cut.usage.input_tokens.value() == 12);
    CHECK(cut.usage.output_tokens.value() == 1);
    const TryResult error = read(
        stream("", false) +
        event({{"type", "error"}, {"error", {{"type", "overloaded_error"}, {"message", "busy"}}}}));
    CHECK(error.outcome == LlmOutcome::kOverloaded);
    CHECK(error.usage.cached_input_tokens.value() == 2000);
}

TEST_CASE("a message in one piece is read as well") {
    const json body = {
        {"type", "message"},
        {"content",
         {{{"type", "thinking"}, {"thinking", "hm"}}, {{"type", "text"}, {"text", "hello"}}}},
        {"stop_reason", "end_turn"},
        {"usage", {{"input_tokens", 5}, {"output_tokens", 6}}}};
    const TryResult result = read(body.dump());
    CHECK(result.outcome == LlmOutcome::kOk);
    CHECK(result.text == "hello");
    CHECK(result.reasoning == "hm");
    CHECK(result.usage.output_tokens.value() == 6);
    CHECK(read("{\"type\":\"message\"}").outcome == LlmOutcome::kMalformed);
    // A stream by its header, without a single event.
    CHECK(read("nonsense").outcome == LlmOutcome::kTruncatedStream);
}

TEST_CASE("the anthropic provider sends its key and version and reads errors by their type") {
    ScriptedReply good;
    good.content_type = "text/event-stream";
    good.body = stream("end_turn");
    ScriptedReply busy;
    busy.status = 529;
    busy.body = R"({"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}})";
    ScriptedReply too_long;
    too_long.status = 400;
    too_long.body =
        R"({"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 9 tokens > 8 maximum"}})";
    FaultServer server({busy, good, too_long});
    ModelOptions model;
    model.key = "m";
    model.provider = "anthropic";
    model.url = server.url();
    model.name = "claude";
    model.api_key = Secret("sk-ant-0123456789abcdef");
    model.timeout_s = 20;
    Client client({{"m", model}}, {{"anthropic", make_anthropic_provider()}}, {}, nullptr, nullptr,
                  nullptr, system_clock(), 3, RetryOptions{0.01, 0.05});
    client.submit(make_request("u"));
    auto all = drain(client, system_clock(), 20);
    REQUIRE(all.size() == 1);
    CHECK(all[0].reply.outcome == LlmOutcome::kOk);
    REQUIRE(all[0].reply.tries.size() == 2);
    CHECK(all[0].reply.tries[0].outcome == LlmOutcome::kOverloaded);
    const auto request = server.requests().at(0);
    CHECK(request.path == "/v1/messages");
    CHECK(request.headers.at("x-api-key") == "sk-ant-0123456789abcdef");
    CHECK(request.headers.at("anthropic-version") == "2023-06-01");
    client.submit(make_request("u2"));
    all = drain(client, system_clock(), 20);
    REQUIRE(all.size() == 1);
    CHECK(all[0].reply.outcome == LlmOutcome::kContextOverflow);
}
