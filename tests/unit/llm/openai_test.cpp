#include "llm/openai.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <nlohmann/json.hpp>

#include "llm/transport/curl_multi.h"
#include "support/fault_server.h"
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

TEST_CASE("an answer cut off at the cap keeps its text; an eaten cap is doubled", "[N22]") {
    testing::ChatUsage eaten{100, 200, -1, 199};
    FaultServer server({chat_reply("half an ans", {}, "length"), chat_reply("", eaten, "length"),
                        chat_reply("ok")});
    Endpoint endpoint(server.url());
    endpoint.model.max_tokens = 200;
    const Reply cut = endpoint.run("u1");
    CHECK(cut.outcome == LlmOutcome::kLength);
    CHECK(cut.text == "half an ans");
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
    FaultServer server([](const std::string& body, int nth) {
        if (nth % 8 == 3) return error_reply(500, "now and then");
        ScriptedReply reply =
            chat_reply("to " + testing::last_user_message(body), {100 + nth, 10, -1, -1});
        reply.delay_s = 0.2;
        return reply;
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
    const auto requests = server.requests();
    CHECK(requests.size() > kCalls);
    CHECK(endpoint.log->rows.size() == requests.size());
    double server_usd = 0;
    for (std::size_t nth = 0; nth < requests.size(); ++nth) {
        if (nth % 8 != 3) server_usd += (100 + static_cast<double>(nth)) * 2e-6 + 10 * 4e-6;
    }
    CHECK(replies_usd == Approx(server_usd).epsilon(1e-12));
    CHECK(endpoint.pacer->usd == Approx(server_usd).epsilon(1e-12));
}
