#include "llm/openai_reply.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "support/fault_server.h"
#include "unit/llm/client_fakes.h"

using namespace accelopt;
using namespace accelopt::llm;
using nlohmann::json;
using protocol::LlmOutcome;

namespace {

TryResult read(int status, const std::string& body) {
    TryResult result;
    read_openai_reply(status, body, result);
    return result;
}

/// A complete answer whose message and choice can be varied.
json answer(json message, json finish) {
    return {{"choices", {{{"message", std::move(message)}, {"finish_reason", std::move(finish)}}}},
            {"usage", {{"prompt_tokens", 5}, {"completion_tokens", 2}}}};
}

TryResult read_usage(json usage) {
    json body = answer({{"content", "x"}}, "stop");
    body["usage"] = std::move(usage);
    return read(200, body.dump());
}

}  // namespace

TEST_CASE("a request body carries what the model was configured with") {
    ModelOptions model;
    model.name = "org/m";
    model.temperature = 0.25;
    model.max_tokens = 77;
    model.stream = true;
    Request request = make_request("u");
    request.messages[1].text = "bytes \xff that are no text";
    json body = json::parse(openai_request_body(model, request));
    CHECK(body["model"] == "org/m");
    CHECK(body["temperature"] == 0.25);
    CHECK(body["max_tokens"] == 77);
    CHECK(body["stream"] == true);
    CHECK(body["stream_options"]["include_usage"] == true);
    CHECK_FALSE(body.contains("reasoning_effort"));
    REQUIRE(body["messages"].size() == 2);
    CHECK(body["messages"][0]["role"] == "system");
    CHECK(body["messages"][0]["content"] == "be brief");
    model.reasoning = "high";
    body = json::parse(openai_request_body(model, request));
    CHECK(body["reasoning_effort"] == "high");
}

TEST_CASE("an answer gives text, reasoning and usage") {
    json body = answer({{"content", "the answer"}, {"reasoning_content", "because"}}, "stop");
    const TryResult result = read(200, body.dump());
    CHECK(result.outcome == LlmOutcome::kOk);
    CHECK(result.http_status == 200);
    CHECK(result.text == "the answer");
    CHECK(result.reasoning == "because");
    CHECK(result.error.empty());
    CHECK(result.usage.input_tokens.value() == 5);
    CHECK(result.usage.output_tokens.value() == 2);
    CHECK_FALSE(result.usage.reasoning_tokens);
    CHECK_FALSE(result.usage.cached_input_tokens);
    CHECK(json::parse(result.usage.raw_json)["prompt_tokens"] == 5);
}

TEST_CASE("reasoning is found under its other names and kept out of the text") {
    json other = answer({{"content", "a"}, {"reasoning", "r"}}, "stop");
    CHECK(read(200, other.dump()).reasoning == "r");
    json inlined = answer({{"content", "<think>hm</think>\na"}}, "stop");
    CHECK(read(200, inlined.dump()).reasoning == "hm");
    CHECK(read(200, inlined.dump()).text == "\na");
    json cut = answer({{"content", "<think>hm and hm"}}, "length");
    CHECK(read(200, cut.dump()).outcome == LlmOutcome::kReasoningExhausted);
    json later = answer({{"content", "see <think>"}}, "stop");
    CHECK(read(200, later.dump()).text == "see <think>");
    json parts = answer({{"content",
                          {{{"type", "text"}, {"text", "a"}},
                           {{"type", "image"}, {"url", "u"}},
                           {{"type", "text"}, {"text", "b"}}}}},
                        "stop");
    CHECK(read(200, parts.dump()).text == "ab");
}

TEST_CASE("the finish reason decides how an answer ended", "[N18][N22]") {
    const auto outcome = [](json message, json finish) {
        return read(200, answer(std::move(message), std::move(finish)).dump()).outcome;
    };
    CHECK(outcome({{"content", "x"}}, "length") == LlmOutcome::kLength);
    CHECK(outcome({{"content", ""}}, "length") == LlmOutcome::kReasoningExhausted);
    CHECK(outcome({{"content", nullptr}}, "length") == LlmOutcome::kReasoningExhausted);
    CHECK(outcome({{"content", " \n"}}, "stop") == LlmOutcome::kEmpty);
    CHECK(outcome({{"content", "x"}}, "content_filter") == LlmOutcome::kFiltered);
    CHECK(outcome({{"content", "x"}, {"refusal", "no"}}, "stop") == LlmOutcome::kRefused);
    CHECK(outcome({{"content", "x"}}, nullptr) == LlmOutcome::kTruncatedStream);
    CHECK(outcome({{"content", "x"}}, "banana") == LlmOutcome::kMalformed);
}

TEST_CASE("usage becomes disjoint classes that sum to the server's total", "[N19][N20]") {
    const auto cached = read_usage({{"prompt_tokens", 262'960},
                                    {"completion_tokens", 1'744},
                                    {"prompt_tokens_details", {{"cached_tokens", 257'955}}}});
    CHECK(cached.usage.input_tokens.value() == 5'005);
    CHECK(cached.usage.cached_input_tokens.value() == 257'955);
    PriceTable prices;
    prices.set("m", price(1.25, 0.625, 10));
    // 5,005 x 1.25 + 257,955 x 0.625 + 1,744 x 10 dollars per million
    CHECK(prices.cost_usd("m", cached.usage).value() == Approx(0.184918).margin(5e-7));

    const auto inside = read_usage({{"prompt_tokens", 14'746},
                                    {"completion_tokens", 1'944},
                                    {"total_tokens", 16'690},
                                    {"completion_tokens_details", {{"reasoning_tokens", 1'360}}}});
    CHECK(inside.usage.output_tokens.value() == 584);
    CHECK(inside.usage.reasoning_tokens.value() == 1'360);
    prices.set("n", price(30, 30, 180));
    CHECK(prices.cost_usd("n", inside.usage).value() == Approx(0.7923).margin(5e-5));

    const auto extra = read_usage({{"prompt_tokens", 10},
                                   {"completion_tokens", 1},
                                   {"total_tokens", 109},
                                   {"completion_tokens_details", {{"reasoning_tokens", 98}}}});
    CHECK(extra.usage.output_tokens.value() + extra.usage.reasoning_tokens.value() == 99);
    const auto also_extra = read_usage({{"prompt_tokens", 10},
                                        {"completion_tokens", 100},
                                        {"total_tokens", 150},
                                        {"completion_tokens_details", {{"reasoning_tokens", 40}}}});
    CHECK(also_extra.usage.output_tokens.value() == 100);
    CHECK(also_extra.usage.reasoning_tokens.value() == 40);
}

TEST_CASE("a success without usage is a success with unknown cost", "[N18][N21]") {
    const auto none = read_usage(nullptr);
    CHECK(none.outcome == LlmOutcome::kOk);
    CHECK(none.usage.missing());
    CHECK(none.usage.raw_json.empty());
    const auto nonsense =
        read_usage({{"prompt_tokens", -3}, {"completion_tokens", "many"}, {"total_tokens", 1.5}});
    CHECK(nonsense.outcome == LlmOutcome::kOk);
    CHECK(nonsense.usage.missing());
}

TEST_CASE("an error is known by its code, then by the status, then by its words", "[N24]") {
    const auto outcome = [](int status, const std::string& message, const std::string& code) {
        return read(status, testing::error_reply(status, message, code).body).outcome;
    };
    CHECK(outcome(429, "x", "insufficient_quota") == LlmOutcome::kQuotaExhausted);
    CHECK(outcome(429, "x", "rate_limit_exceeded") == LlmOutcome::kRateLimited);
    CHECK(outcome(400, "x", "context_length_exceeded") == LlmOutcome::kContextOverflow);
    CHECK(outcome(400, "x", "content_filter") == LlmOutcome::kFiltered);
    CHECK(outcome(500, "x", "overloaded_error") == LlmOutcome::kOverloaded);
    CHECK(outcome(401, "x", "") == LlmOutcome::kAuth);
    CHECK(outcome(403, "x", "") == LlmOutcome::kAuth);
    CHECK(outcome(402, "x", "") == LlmOutcome::kQuotaExhausted);
    CHECK(outcome(404, "x", "model_not_found") == LlmOutcome::kRefused);
    CHECK(outcome(408, "x", "") == LlmOutcome::kTimeout);
    CHECK(outcome(429, "x", "") == LlmOutcome::kRateLimited);
    CHECK(outcome(500, "the context length", "") == LlmOutcome::kServerError);
    CHECK(outcome(502, "x", "") == LlmOutcome::kServerError);
    CHECK(outcome(503, "x", "") == LlmOutcome::kOverloaded);
    CHECK(outcome(400, "x", "") == LlmOutcome::kRefused);
    CHECK(outcome(400, "This model's maximum context length is 16384 tokens.", "") ==
          LlmOutcome::kContextOverflow);
    CHECK(outcome(301, "x", "") == LlmOutcome::kRefused);
}

TEST_CASE("an error inside a 200 is an error") {
    CHECK(read(200, R"({"error":{"message":"busy","code":429}})").outcome ==
          LlmOutcome::kRateLimited);
    CHECK(read(200, R"({"error":{"message":"busy","type":"overloaded_error"}})").outcome ==
          LlmOutcome::kOverloaded);
    CHECK(read(200, R"({"error":"what"})").outcome == LlmOutcome::kServerError);
}

TEST_CASE("whatever a server sends becomes an outcome") {
    const char* bodies[] = {"",
                            "not json",
                            "[]",
                            "{}",
                            "null",
                            "12",
                            "{\"choices\":[]}",
                            "{\"choices\":{}}",
                            "{\"choices\":[1]}",
                            "{\"choices\":[{}]}",
                            "{\"choices\":[{\"message\":[]}]}",
                            "{\"choices\":[",
                            "\xff\xfe{}"};
    for (const char* body : bodies) {
        CAPTURE(body);
        const auto result = read(200, body);
        CHECK(result.outcome == LlmOutcome::kMalformed);
        CHECK_FALSE(result.error.empty());
    }
    const std::string deep = std::string(5'000'000, '[');
    CHECK(read(200, "{\"choices\":" + deep).outcome == LlmOutcome::kMalformed);
    const auto html = read(502, "<html>\r\n<h1>Bad\tGateway</h1></html>");
    CHECK(html.outcome == LlmOutcome::kServerError);
    CHECK(html.error == "HTTP 502: <html> <h1>Bad Gateway</h1></html>");
}

TEST_CASE("a 403 of a gateway's moderation is no refused key") {
    const auto outcome = [](const json& error) {
        TryResult result;
        read_openai_reply(403, json{{"error", error}}.dump(), result);
        return result.outcome;
    };
    CHECK(outcome({{"code", 403}, {"message", "no access"}}) == LlmOutcome::kAuth);
    CHECK(outcome({{"code", 403},
                   {"message", "flagged"},
                   {"metadata", {{"reasons", {"violence"}}, {"flagged_input", "kill -9"}}}}) ==
          LlmOutcome::kFiltered);
}
