#include "llm/openai.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <nlohmann/json.hpp>

#include "llm/transport/curl_multi.h"
#include "support/fault_server.h"
#include "support/raw_server.h"
#include "unit/llm/client_fakes.h"

using namespace accelopt;
using namespace accelopt::llm;
using accelopt::testing::chat_reply;
using accelopt::testing::error_reply;
using accelopt::testing::FaultServer;
using accelopt::testing::ScriptedReply;
using protocol::LlmOutcome;

namespace {

constexpr const char* kKey = "sk-very-secret-0123456789abcdef";

/// A client that speaks to a server of this process, with short waits.
struct Endpoint {
    explicit Endpoint(const std::string& url) {
        model.key = "m";
        model.provider = "openai";
        model.url = url;
        model.name = "org/m";
        model.api_key = Secret(kKey);
        model.timeout_s = 20;
    }
    Client& client() {
        if (!client_) {
            PriceTable prices;
            prices.set("org/m", price(2, 1, 4));
            client_ = std::make_unique<Client>(std::map<std::string, ModelOptions>{{"m", model}},
                                               ProviderRegistry{{"openai", make_openai_provider()}},
                                               prices, nullptr, log, pacer, system_clock(), 3,
                                               RetryOptions{0.01, 0.05});
        }
        return *client_;
    }
    Reply run(const std::string& unit = "u") {
        client().submit(make_request(unit));
        const auto all = drain(client(), system_clock(), 30);
        REQUIRE(all.size() == 1);
        return all[0].reply;
    }

    ModelOptions model;
    std::shared_ptr<MemoryLog> log = std::make_shared<MemoryLog>();
    std::shared_ptr<CountingPacer> pacer = std::make_shared<CountingPacer>();

  private:
    std::unique_ptr<Client> client_;
};

double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

TEST_CASE("a question reaches the server whole and its answer comes back priced") {
    FaultServer server({chat_reply("hello", {100, 10, 40, 6})});
    Endpoint endpoint(server.url());
    const Reply reply = endpoint.run();
    CHECK(reply.outcome == LlmOutcome::kOk);
    CHECK(reply.text == "hello");
    const auto requests = server.requests();
    REQUIRE(requests.size() == 1);
    CHECK(requests[0].path == "/v1/chat/completions");
    CHECK(requests[0].headers.at("authorization") == std::string("Bearer ") + kKey);
    CHECK(requests[0].headers.at("content-type") == "application/json");
    CHECK(testing::last_user_message(requests[0].body) == "question of u");
    CHECK(testing::system_message(requests[0].body) == "be brief");
    CHECK(requests[0].body.find(kKey) == std::string::npos);
    REQUIRE(reply.tries.size() == 1);
    const auto& row = reply.tries[0];
    CHECK(row.http_status == 200);
    CHECK(row.latency_s > 0);
    CHECK(row.cost_usd.value() == Approx(60 * 2e-6 + 40 * 1e-6 + 10 * 4e-6));
}

TEST_CASE("a complete address is used as it is, and no key means no header") {
    FaultServer server({chat_reply("hello")});
    Endpoint endpoint(server.url() + "/chat/completions/");
    endpoint.model.api_key = Secret();
    CHECK(endpoint.run().outcome == LlmOutcome::kOk);
    CHECK(server.requests().at(0).path == "/v1/chat/completions");
    CHECK(server.requests().at(0).headers.count("authorization") == 0);
}

TEST_CASE("429 with a wait, then 500, then an answer: three tries, three rows", "[N17]") {
    ScriptedReply limited = error_reply(429, "slow down");
    limited.headers["Retry-After"] = "1";
    FaultServer server({limited, error_reply(500, "oops"), chat_reply("hello")});
    Endpoint endpoint(server.url());
    const auto start = std::chrono::steady_clock::now();
    const Reply reply = endpoint.run();
    CHECK(seconds_since(start) >= 1.0);
    CHECK(reply.outcome == LlmOutcome::kOk);
    CHECK(server.requests().size() == 3);
    REQUIRE(endpoint.log->rows.size() == 3);
    CHECK(endpoint.log->rows[0].http_status == 429);
    CHECK(endpoint.log->rows[1].http_status == 500);
    CHECK(endpoint.log->rows[2].http_status == 200);
    CHECK_FALSE(endpoint.log->rows[0].cost_usd);
    CHECK(endpoint.pacer->holds.at("m") == 1);
    CHECK(server.requests()[0].body == server.requests()[2].body);
}

TEST_CASE("a wait given as a date is measured on the server's clock", "[N17]") {
    ScriptedReply limited = error_reply(429, "slow down");
    limited.headers["Date"] = "Mon, 30 Nov 2026 14:05:06 GMT";
    limited.headers["Retry-After"] = "Mon, 30 Nov 2026 14:06:36 GMT";
    FaultServer server({limited});
    Endpoint endpoint(server.url());
    endpoint.model.timeout_s = 60;
    const Reply reply = endpoint.run();
    CHECK(reply.outcome == LlmOutcome::kTimeout);
    CHECK(endpoint.pacer->holds.at("m") == 90);
    CHECK(server.requests().size() == 1);
}

TEST_CASE("a request that the server finds wrong is not repeated", "[N24]") {
    FaultServer server({error_reply(400, "maximum context length is 16384 tokens"),
                        error_reply(404, "no such model")});
    Endpoint endpoint(server.url());
    CHECK(endpoint.run("u1").outcome == LlmOutcome::kContextOverflow);
    CHECK(endpoint.run("u2").outcome == LlmOutcome::kRefused);
    CHECK(server.requests().size() == 2);
    CHECK(endpoint.log->replies.empty());
}

TEST_CASE("a refused key ends the call and appears in nothing that is kept", "[N26]") {
    const std::string echo = std::string("Incorrect API key provided: ") + kKey;
    ScriptedReply html;
    html.status = 403;
    html.body = "<p>" + std::string(600, ' ') + std::string(490, 'x') + kKey + "</p>";
    ScriptedReply answer = chat_reply(std::string("your key is ") + kKey);
    FaultServer server({error_reply(401, echo), html, answer});
    Endpoint endpoint(server.url());
    CHECK(endpoint.run("u1").outcome == LlmOutcome::kAuth);
    CHECK(endpoint.run("u2").outcome == LlmOutcome::kAuth);
    const Reply talkative = endpoint.run("u3");
    CHECK(talkative.outcome == LlmOutcome::kOk);
    CHECK(talkative.text == "your key is [secret]");
    CHECK(server.requests().size() == 3);
    std::string kept;
    for (const auto& row : endpoint.log->rows) kept += protocol::to_json(row) + row.error;
    for (const auto& reply : endpoint.log->replies) kept += reply.text + reply.error;
    CHECK(kept.find(std::string(kKey).substr(0, 6)) == std::string::npos);
    CHECK(kept.find("[secret]") != std::string::npos);
}

TEST_CASE("a malformed and an empty answer are asked for once more, and recorded") {
    ScriptedReply broken;
    broken.body = "{\"choices\": [";
    FaultServer server({broken, broken, chat_reply(""), chat_reply("")});
    Endpoint endpoint(server.url());
    CHECK(endpoint.run("u1").outcome == LlmOutcome::kMalformed);
    CHECK(endpoint.run("u2").outcome == LlmOutcome::kEmpty);
    CHECK(server.requests().size() == 4);
    CHECK(endpoint.log->rows.size() == 4);
    CHECK(endpoint.log->replies.size() == 2);
}

TEST_CASE("an answer cut off at the cap keeps its text; an eaten cap is doubled", "[N22][N23]") {
    testing::ChatUsage eaten{100, 200, -1, 199};
    FaultServer server({chat_reply("```python\nhalf an ans", {}, "length"),
                        chat_reply("", eaten, "length"), chat_reply("ok")});
    Endpoint endpoint(server.url());
    endpoint.model.max_tokens = 200;
    const Reply cut = endpoint.run("u1");
    CHECK(cut.outcome == LlmOutcome::kLength);
    CHECK(cut.text == "```python\nhalf an ans");  // truncated, not malformed
    CHECK(endpoint.run("u2").outcome == LlmOutcome::kOk);
    const auto requests = server.requests();
    REQUIRE(requests.size() == 3);
    CHECK(nlohmann::json::parse(requests[1].body)["max_tokens"] == 200);
    CHECK(nlohmann::json::parse(requests[2].body)["max_tokens"] == 400);
}

TEST_CASE("a body that breaks off is tried again", "[N18]") {
    ScriptedReply half = chat_reply("hello");
    half.break_off = true;
    FaultServer server({half, chat_reply("hello")});
    Endpoint endpoint(server.url());
    const Reply reply = endpoint.run();
    CHECK(reply.outcome == LlmOutcome::kOk);
    REQUIRE(reply.tries.size() == 2);
    CHECK(reply.tries[0].outcome == LlmOutcome::kTruncatedStream);
}

TEST_CASE("nobody listening is a server failure with a message") {
    Endpoint endpoint(testing::refused_url());
    endpoint.model.max_tries = 3;
    const Reply reply = endpoint.run();
    CHECK(reply.outcome == LlmOutcome::kServerError);
    REQUIRE(reply.tries.size() == 3);
    CHECK(reply.tries[0].http_status == 0);
    CHECK_FALSE(reply.error.empty());
}

TEST_CASE("plain text where TLS is expected ends as a failure, without a request") {
    FaultServer server({chat_reply("hello")});
    Endpoint endpoint("https" + server.url().substr(4));
    endpoint.model.max_tries = 2;
    const Reply reply = endpoint.run();
    CHECK(reply.outcome == LlmOutcome::kServerError);
    CHECK(server.requests().empty());
}

TEST_CASE("a redirect is not followed") {
    ScriptedReply moved;
    moved.status = 302;
    moved.headers["Location"] = "/v1/elsewhere";
    FaultServer server({moved});
    Endpoint endpoint(server.url());
    CHECK(endpoint.run().outcome == LlmOutcome::kRefused);
    CHECK(server.requests().size() == 1);
}

TEST_CASE("a server that accepts and stays silent ends at the deadline", "[N25]") {
    ScriptedReply silent = chat_reply("too late");
    silent.delay_s = 20;
    FaultServer server({silent});
    Endpoint endpoint(server.url());
    endpoint.model.timeout_s = 0.4;
    const auto start = std::chrono::steady_clock::now();
    const Reply reply = endpoint.run();
    CHECK(reply.outcome == LlmOutcome::kTimeout);
    CHECK(seconds_since(start) < 1.9);
    CHECK(reply.tries.size() == 1);
}

TEST_CASE("an answer larger than the bound is given up") {
    ScriptedReply large;
    large.body = std::string(300'000, 'x');
    FaultServer server({large});
    CurlMulti transport(100'000);
    HttpRequest request;
    request.id = 5;
    request.url = server.url();
    request.body = "{}";
    transport.start(request);
    std::vector<HttpResponse> done;
    transport.poll(10, done);
    REQUIRE(done.size() == 1);
    CHECK(done[0].id == 5);
    CHECK(done[0].transport == HttpResponse::Transport::kTooLarge);
    CHECK(done[0].body.empty());
}

TEST_CASE("many calls are in flight at once on one thread, and the ledger equals the requests") {
    testing::RawServer server([](const testing::RawRequest& request, int nth) {
        if (nth % 8 == 3) return testing::http_answer(500, "text/plain", "now and then");
        return testing::RawAnswer{
            {0.2, testing::event_stream_head() +
                      testing::chat_delta("to " + testing::last_user_message(request.body))},
            {0, testing::chat_end(100 + nth, 10)}};
    });
    Endpoint endpoint(server.url());
    constexpr int kCalls = 64;
    std::map<std::uint64_t, std::string> expected;
    for (int i = 0; i < kCalls; ++i) {
        const std::string unit = "u" + std::to_string(i);
        expected[endpoint.client().submit(make_request(unit))] = "to question of " + unit;
    }
    CHECK(endpoint.client().in_flight() == kCalls);
    const auto all = drain(endpoint.client(), system_clock(), 120);
    REQUIRE(all.size() == kCalls);
    double replies_usd = 0;
    for (const auto& completion : all) {
        CHECK(completion.reply.outcome == LlmOutcome::kOk);
        CHECK(completion.reply.text == expected.at(completion.id));
        for (const auto& row : completion.reply.tries) replies_usd += row.cost_usd.value_or(0);
    }
    const int requests = server.requests();
    CHECK(requests > kCalls);
    CHECK(server.connections() <= kCalls);
    CHECK(static_cast<int>(endpoint.log->rows.size()) == requests);
    double server_usd = 0;
    for (int nth = 0; nth < requests; ++nth) {
        if (nth % 8 != 3) server_usd += (100 + nth) * 2e-6 + 10 * 4e-6;
    }
    CHECK(replies_usd == Approx(server_usd).epsilon(1e-12));
    CHECK(endpoint.pacer->usd == Approx(server_usd).epsilon(1e-12));
}

using testing::chat_delta;
using testing::chat_end;
using testing::chat_event;
using testing::event_stream_head;
using testing::RawAnswer;
using testing::RawServer;
using testing::RawStep;

TEST_CASE("a stream is put together and asks for its usage") {
    FaultServer server({testing::stream_reply("hello, world", {100, 10, 40, 6})});
    Endpoint endpoint(server.url());
    const Reply reply = endpoint.run();
    CHECK(reply.outcome == LlmOutcome::kOk);
    CHECK(reply.text == "hello, world");
    CHECK(reply.tries.at(0).cost_usd.value() == Approx(60 * 2e-6 + 40 * 1e-6 + 10 * 4e-6));
    const auto body = nlohmann::json::parse(server.requests().at(0).body);
    CHECK(body["stream"] == true);
    CHECK(body["stream_options"]["include_usage"] == true);
}

TEST_CASE("without streaming the whole answer is asked for at once") {
    FaultServer server({chat_reply("hello")});
    Endpoint endpoint(server.url());
    endpoint.model.stream = false;
    endpoint.model.token_field = "max_completion_tokens";
    CHECK(endpoint.run().outcome == LlmOutcome::kOk);
    const auto body = nlohmann::json::parse(server.requests().at(0).body);
    CHECK(body["stream"] == false);
    CHECK_FALSE(body.contains("stream_options"));
    CHECK_FALSE(body.contains("max_tokens"));
    CHECK(body["max_completion_tokens"] == 20000);
}

TEST_CASE("a stream that ends without its finish_reason is truncated and tried again", "[N18]") {
    FaultServer server({testing::stream_reply("three deltas", {}, ""), chat_reply("hello")});
    Endpoint endpoint(server.url());
    endpoint.model.max_tries = 1;
    const Reply cut = endpoint.run("u1");
    CHECK(cut.outcome == LlmOutcome::kTruncatedStream);
    CHECK(cut.text == "three deltas");
    CHECK_FALSE(cut.tries.at(0).cost_usd);
}

TEST_CASE("a truncated stream's text is never joined to the next one's", "[N18]") {
    FaultServer server({testing::stream_reply("first half", {}, ""),
                        testing::stream_reply("whole answer", {100, 10, -1, -1})});
    Endpoint endpoint(server.url());
    const Reply reply = endpoint.run();
    CHECK(reply.outcome == LlmOutcome::kOk);
    CHECK(reply.text == "whole answer");
    REQUIRE(reply.tries.size() == 2);
    CHECK(reply.tries[0].outcome == LlmOutcome::kTruncatedStream);
}

TEST_CASE("a stream that stops without usage is a success of unknown cost", "[N18][N21]") {
    FaultServer server({testing::stream_reply("hello", {-1, -1, -1, -1})});
    Endpoint endpoint(server.url());
    const Reply reply = endpoint.run();
    CHECK(reply.outcome == LlmOutcome::kOk);
    CHECK(reply.tries.at(0).usage.missing());
    CHECK_FALSE(reply.tries.at(0).cost_usd);
}

TEST_CASE("an error within a stream fails the try, and what it used is billed") {
    int answered = 0;
    RawServer server([&](const testing::RawRequest&, int) {
        if (answered++ > 0)
            return RawAnswer{{0, event_stream_head() + chat_delta("good") + chat_end(7, 2)}};
        return RawAnswer{
            {0, event_stream_head() + chat_delta("bad") +
                    chat_event(
                        R"({"choices":[],"usage":{"prompt_tokens":50,"completion_tokens":5}})") +
                    chat_event(R"({"error":{"message":"engine died","type":"overloaded_error"}})") +
                    testing::chunk("")}};
    });
    Endpoint endpoint(server.url());
    const Reply reply = endpoint.run();
    CHECK(reply.outcome == LlmOutcome::kOk);
    CHECK(reply.text == "good");
    REQUIRE(reply.tries.size() == 2);
    CHECK(reply.tries[0].outcome == LlmOutcome::kOverloaded);
    CHECK(reply.tries[0].cost_usd.value() == Approx(50 * 2e-6 + 5 * 4e-6));
}

TEST_CASE("every way a connection can break is a failed try") {
    const std::string start = event_stream_head() + chat_delta("some");
    struct Broken {
        const char* name;
        RawAnswer answer;
        LlmOutcome outcome;
    };
    const std::vector<Broken> cases = {
        {"reset before an answer", {{0, "", RawStep::Then::kReset}}, LlmOutcome::kServerError},
        {"closed before an answer", {{0, "", RawStep::Then::kClose}}, LlmOutcome::kServerError},
        {"closed within the stream",
         {{0, start}, {0.01, "", RawStep::Then::kClose}},
         LlmOutcome::kTruncatedStream},
        {"reset within the stream",
         {{0, start}, {0.05, "", RawStep::Then::kReset}},
         LlmOutcome::kTruncatedStream},
        {"half-closed within the stream",
         {{0, start}, {0.01, "", RawStep::Then::kHalfClose}},
         LlmOutcome::kTruncatedStream},
        {"a chunk of garbage",
         {{0, event_stream_head() + chat_event("{\"choices\":[{\"del") + testing::chunk("")}},
         LlmOutcome::kMalformed},
        {"no HTTP at all",
         {{0, "SSH-2.0-OpenSSH_9.2\r\n", RawStep::Then::kClose}},
         LlmOutcome::kServerError},
        {"a body shorter than it says",
         {{0, "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{", RawStep::Then::kClose}},
         LlmOutcome::kTruncatedStream},
        {"a wrong content type", testing::http_answer(200, "text/html", "<html>hello</html>"),
         LlmOutcome::kMalformed},
        {"an endless event",
         {{0,
           "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: " +
               std::string(18U << 20U, 'x'),
           RawStep::Then::kClose}},
         LlmOutcome::kMalformed}};
    for (const auto& broken : cases) {
        CAPTURE(broken.name);
        RawServer server([&](const testing::RawRequest&, int) { return broken.answer; });
        Endpoint endpoint(server.url());
        endpoint.model.max_tries = 1;
        const Reply reply = endpoint.run();
        CHECK(reply.outcome == broken.outcome);
        CHECK(reply.tries.size() == 1);
        CHECK_FALSE(reply.error.empty());
    }
}

TEST_CASE("a stream that stalls ends long before the deadline", "[N25]") {
    RawServer server([](const testing::RawRequest&, int nth) {
        if (nth > 0) return RawAnswer{{0, event_stream_head() + chat_delta("ok") + chat_end(1, 1)}};
        return RawAnswer{{0, event_stream_head() + chat_delta("so")},
                         {0, "", RawStep::Then::kHold}};
    });
    Endpoint endpoint(server.url());
    endpoint.model.stall_timeout_s = 0.3;
    const auto start = std::chrono::steady_clock::now();
    const Reply reply = endpoint.run();
    CHECK(reply.outcome == LlmOutcome::kOk);
    CHECK(seconds_since(start) < 5);
    REQUIRE(reply.tries.size() == 2);
    CHECK(reply.tries[0].outcome == LlmOutcome::kTimeout);
    CHECK(reply.tries[0].error.find("no byte came for 0.3 s") != std::string::npos);
}

TEST_CASE("bytes that trickle in are no stall, and a whole answer may be long in coming") {
    RawServer server([](const testing::RawRequest& request, int) {
        RawAnswer answer;
        if (request.body.find("\"stream\":true") == std::string::npos) {
            return testing::http_answer(200, "application/json", chat_reply("late").body, 0.8);
        }
        const std::string text = event_stream_head() + chat_delta("slow") + chat_end(1, 1);
        for (std::size_t i = 0; i < text.size(); i += 40) {
            answer.push_back({0.1, text.substr(i, 40)});
        }
        return answer;
    });
    Endpoint endpoint(server.url());
    endpoint.model.stall_timeout_s = 0.4;
    CHECK(endpoint.run().text == "slow");
    Endpoint whole(server.url());
    whole.model.stall_timeout_s = 0.4;
    whole.model.stream = false;
    CHECK(whole.run().text == "late");
}

TEST_CASE("an answer is complete at its end even when the server keeps the body open") {
    RawServer server([](const testing::RawRequest&, int) {
        const std::string whole = event_stream_head() + chat_delta("done") + chat_end(1, 1);
        return RawAnswer{{0, whole.substr(0, whole.size() - 5)}, {0, "", RawStep::Then::kHold}};
    });
    Endpoint endpoint(server.url());
    const auto start = std::chrono::steady_clock::now();
    CHECK(endpoint.run().text == "done");
    CHECK(seconds_since(start) < 5);
}

TEST_CASE("ten megabytes and invalid UTF-8 come through") {
    const std::string large(10U << 20U, 'k');
    RawServer server([&](const testing::RawRequest&, int nth) {
        if (nth == 0)
            return RawAnswer{{0, event_stream_head() + chat_delta(large) + chat_end(1, 1)}};
        return RawAnswer{{0, event_stream_head() + chat_delta("a\xff\xfe") + chat_end(1, 1)}};
    });
    Endpoint endpoint(server.url());
    const Reply reply = endpoint.run("u1");
    CHECK(reply.outcome == LlmOutcome::kOk);
    CHECK(reply.text.size() == large.size());
    // Bytes that are no text are no JSON either.
    CHECK(endpoint.run("u2").outcome == LlmOutcome::kMalformed);
}

TEST_CASE("a limit that is used up pauses the endpoint, after an answer as after a 429", "[N17]") {
    ScriptedReply last = chat_reply("hello");
    last.headers["x-ratelimit-remaining-requests"] = "0";
    last.headers["x-ratelimit-reset-requests"] = "1m30s";
    FaultServer server({last});
    Endpoint endpoint(server.url());
    CHECK(endpoint.run().outcome == LlmOutcome::kOk);
    CHECK(endpoint.pacer->holds.at("m") == 90);
}
