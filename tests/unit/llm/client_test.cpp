#include "llm/client.h"

#include <catch2/catch.hpp>

#include "core/error.h"
#include "unit/llm/client_fakes.h"

using namespace accelopt;
using namespace accelopt::llm;
using protocol::LlmOutcome;

namespace {

TryResult outcome(LlmOutcome kind, int status, const std::string& error = "") {
    TryResult result;
    result.outcome = kind;
    result.http_status = status;
    result.error = error;
    return result;
}

TryResult good(const std::string& text) {
    TryResult result = outcome(LlmOutcome::kOk, 200);
    result.text = text;
    result.usage.input_tokens = 1000;
    result.usage.output_tokens = 100;
    return result;
}

/// A client over one scripted provider on a clock that stands still.
struct Bench {
    explicit Bench(ScriptedProvider::Answer answer)
        : provider(std::make_shared<ScriptedProvider>(std::move(answer))) {
        model.key = "m";
        model.provider = "scripted";
        model.name = "org/m";
    }
    Client& client() {
        if (!client_) {
            PriceTable prices;
            prices.set("org/m", price(10, 1, 20));
            client_ = std::make_unique<Client>(std::map<std::string, ModelOptions>{{"m", model}},
                                               ProviderRegistry{{"scripted", provider}}, prices,
                                               replies, log, pacer, clock, 7);
        }
        return *client_;
    }
    Reply run(const std::string& unit = "u") {
        client().submit(make_request(unit));
        const auto all = drain(client(), clock);
        REQUIRE(all.size() == 1);
        return all[0].reply;
    }

    VirtualClock clock;
    ModelOptions model;
    std::shared_ptr<ScriptedProvider> provider;
    std::shared_ptr<MapReplies> replies = std::make_shared<MapReplies>();
    std::shared_ptr<MemoryLog> log = std::make_shared<MemoryLog>();
    std::shared_ptr<CountingPacer> pacer = std::make_shared<CountingPacer>();

  private:
    std::unique_ptr<Client> client_;
};

/// Answers the nth try with the nth outcome, then well.
ScriptedProvider::Answer script(std::vector<TryResult> results) {
    return [results](const ModelOptions&, const Request&, int nth) -> std::optional<TryResult> {
        return nth < static_cast<int>(results.size()) ? results[nth] : good("fine");
    };
}

}  // namespace

TEST_CASE("a call is reserved, tried and recorded before it is returned") {
    Bench bench(script({}));
    const Reply reply = bench.run("u1");
    CHECK(reply.outcome == LlmOutcome::kOk);
    CHECK(reply.text == "fine");
    CHECK(bench.log->events == std::vector<std::string>{"reserve u1 0", "try u1 0", "reply u1"});
    REQUIRE(reply.tries.size() == 1);
    const auto& row = reply.tries[0];
    CHECK(row.model == "m");
    CHECK(row.model_name == "org/m");
    CHECK(row.provider == "scripted");
    CHECK(row.request_sha256 == make_request("u1").sha256());
    CHECK_FALSE(row.replayed);
    CHECK(row.cost_usd.value() == Approx(1000 * 10e-6 + 100 * 20e-6));
    CHECK(bench.pacer->usd == Approx(row.cost_usd.value()));
}

TEST_CASE("a reply that is already paid for is not asked for again") {
    Bench bench(script({}));
    const Reply first = bench.run("u1");
    bench.replies->known["u1"] = first;
    const Reply again = bench.run("u1");
    CHECK(bench.provider->started == 1);
    CHECK(again.text == first.text);
    REQUIRE(again.tries.size() == 1);
    CHECK(again.tries[0].replayed);
    CHECK(bench.log->rows.size() == 1);
    CHECK(bench.log->replies.size() == 1);
}

TEST_CASE("a server's wait is kept to the second and told to the pacer", "[N17]") {
    TryResult limited = outcome(LlmOutcome::kRateLimited, 429, "slow down");
    limited.retry_after_s = 75;
    Bench bench(script({limited}));
    const double start = bench.clock.monotonic_s();
    const Reply reply = bench.run();
    CHECK(reply.outcome == LlmOutcome::kOk);
    CHECK(bench.clock.monotonic_s() - start >= 75);
    CHECK(bench.clock.monotonic_s() - start < 77.5);
    CHECK(bench.pacer->holds.at("m") == 75);
    CHECK(bench.provider->started == 2);
    REQUIRE(reply.tries.size() == 2);
    CHECK(reply.tries[0].outcome == LlmOutcome::kRateLimited);
    CHECK(reply.tries[1].attempt == 1);
}

TEST_CASE("a server's wait beyond the deadline ends the call at once", "[N17]") {
    TryResult limited = outcome(LlmOutcome::kRateLimited, 429, "slow down");
    limited.retry_after_s = 75;
    Bench bench(script({limited}));
    bench.model.timeout_s = 60;
    const double start = bench.clock.monotonic_s();
    const Reply reply = bench.run();
    CHECK(reply.outcome == LlmOutcome::kTimeout);
    CHECK(bench.clock.monotonic_s() == start);
    CHECK(reply.tries.size() == 1);
    CHECK(reply.error.find("75.0 s") != std::string::npos);
    CHECK(bench.log->replies.empty());
}

TEST_CASE("failures of a server are tried again up to max_tries") {
    const auto kind =
        GENERATE(LlmOutcome::kServerError, LlmOutcome::kOverloaded, LlmOutcome::kRateLimited,
                 LlmOutcome::kTimeout, LlmOutcome::kTruncatedStream);
    Bench bench([kind](const auto&, const auto&, int) { return outcome(kind, 500, "no"); });
    bench.model.max_tries = 4;
    const Reply reply = bench.run();
    CHECK(reply.outcome == kind);
    CHECK(bench.provider->started == 4);
    CHECK(reply.tries.size() == 4);
    CHECK(bench.log->rows.size() == 4);
    CHECK(bench.log->replies.empty());
    for (int i = 0; i < 4; ++i) CHECK(reply.tries[i].attempt == i);
}

TEST_CASE("what another try cannot mend is not tried again") {
    const auto kind =
        GENERATE(LlmOutcome::kRefused, LlmOutcome::kAuth, LlmOutcome::kFiltered,
                 LlmOutcome::kContextOverflow, LlmOutcome::kQuotaExhausted, LlmOutcome::kLength);
    Bench bench([kind](const auto&, const auto&, int) { return outcome(kind, 400, "no"); });
    const Reply reply = bench.run();
    CHECK(reply.outcome == kind);
    CHECK(bench.provider->started == 1);
}

TEST_CASE("an answer that is worthless but billed is asked for once more") {
    const auto kind = GENERATE(LlmOutcome::kMalformed, LlmOutcome::kEmpty);
    Bench bench([kind](const auto&, const auto&, int) { return outcome(kind, 200, "no"); });
    const Reply reply = bench.run();
    CHECK(reply.outcome == kind);
    CHECK(bench.provider->started == 2);
    CHECK(bench.log->replies.size() == 1);
}

TEST_CASE("a cap that reasoning used up is doubled once", "[N22]") {
    TryResult exhausted = outcome(LlmOutcome::kReasoningExhausted, 200, "used up");
    exhausted.usage.input_tokens = 10;
    exhausted.usage.output_tokens = 0;
    exhausted.usage.reasoning_tokens = 199;
    Bench bench(script({exhausted}));
    bench.model.max_tokens = 200;
    const Reply reply = bench.run();
    CHECK(reply.outcome == LlmOutcome::kOk);
    REQUIRE(bench.provider->options.size() == 2);
    CHECK(bench.provider->options[0].max_tokens == 200);
    CHECK(bench.provider->options[1].max_tokens == 400);
    REQUIRE(bench.log->rows.size() == 2);
    CHECK(bench.log->rows[0].cost_usd.value() == Approx(10 * 10e-6 + 199 * 20e-6));
}

TEST_CASE("tries and waits share one deadline", "[N25]") {
    Bench bench(
        [](const auto&, const auto&, int) { return outcome(LlmOutcome::kServerError, 500, "no"); });
    bench.model.timeout_s = 30;
    bench.model.max_tries = 1000;
    const double start = bench.clock.monotonic_s();
    const Reply reply = bench.run();
    CHECK(reply.outcome == LlmOutcome::kTimeout);
    CHECK(bench.clock.monotonic_s() - start <= 30);
    for (std::size_t i = 1; i < bench.provider->options.size(); ++i) {
        CHECK(bench.provider->options[i].timeout_s < bench.provider->options[i - 1].timeout_s);
    }
}

TEST_CASE("a provider that never answers cannot hold a call beyond its deadline", "[N25]") {
    Bench bench([](const auto&, const auto&, int) { return std::nullopt; });
    bench.model.timeout_s = 30;
    Client& client = bench.client();
    client.submit(make_request("u"));
    CHECK(client.poll(0).empty());
    bench.clock.advance(30.5);
    CHECK(client.poll(0).empty());
    bench.clock.advance(0.6);
    const auto done = client.poll(0);
    REQUIRE(done.size() == 1);
    CHECK(done[0].reply.outcome == LlmOutcome::kTimeout);
    CHECK(done[0].reply.tries.size() == 1);
    CHECK(bench.provider->cancelled.size() == 1);
    CHECK(client.in_flight() == 0);
}

TEST_CASE("a spent budget stops a call before it is reserved", "[N27]") {
    Bench bench(script({}));
    bench.pacer->tries_left = 3;
    Client& client = bench.client();
    for (int i = 0; i < 5; ++i) client.submit(make_request("u" + std::to_string(i)));
    const auto all = drain(client, bench.clock);
    REQUIRE(all.size() == 5);
    int budget = 0;
    for (const auto& completion : all) {
        if (completion.reply.outcome == LlmOutcome::kBudget) ++budget;
    }
    CHECK(budget == 2);
    CHECK(bench.provider->started == 3);
    CHECK(bench.log->replies.size() == 3);
}

TEST_CASE("the pacer is asked again after a wait, and other calls do not wait with it") {
    Bench bench(script({}));
    bench.pacer->next_delay_s = 40;
    Client& client = bench.client();
    const auto first = client.submit(make_request("u1"));
    const auto second = client.submit(make_request("u2"));
    const auto early = client.poll(0);
    REQUIRE(early.size() == 1);
    CHECK(early[0].id == second);
    CHECK(bench.provider->started == 1);
    const double start = bench.clock.monotonic_s();
    CHECK(client.poll(10).empty());
    CHECK(bench.clock.monotonic_s() - start == Approx(10));
    const auto late = client.poll(1000);
    REQUIRE(late.size() == 1);
    CHECK(late[0].id == first);
    CHECK(bench.clock.monotonic_s() - start == Approx(40));
}

TEST_CASE("waits between tries are the same in every run of one seed and differ between calls") {
    const auto waits = [](const std::string& unit) {
        Bench bench([](const auto&, const auto&, int) {
            return outcome(LlmOutcome::kServerError, 500, "no");
        });
        bench.model.max_tries = 5;
        const double start = bench.clock.monotonic_s();
        bench.run(unit);
        return bench.clock.monotonic_s() - start;
    };
    CHECK(waits("a") == waits("a"));
    CHECK(waits("a") != waits("b"));
    CHECK(waits("a") > 0);
    CHECK(waits("a") <= 1 + 2 + 4 + 8);
}

TEST_CASE("calls of several providers end together") {
    VirtualClock clock;
    const auto one = std::make_shared<ScriptedProvider>(script({}));
    const auto two = std::make_shared<ScriptedProvider>(script({}));
    ModelOptions a;
    a.key = "a";
    a.provider = "one";
    ModelOptions b;
    b.key = "b";
    b.provider = "two";
    Client client({{"a", a}, {"b", b}}, {{"one", one}, {"two", two}}, {}, nullptr, nullptr, nullptr,
                  clock, 1);
    client.submit(make_request("u1", "a"));
    client.submit(make_request("u2", "b"));
    const auto done = client.poll(0.1);
    REQUIRE(done.size() == 2);
    for (const auto& completion : done) {
        CHECK(completion.reply.outcome == LlmOutcome::kOk);
        CHECK_FALSE(completion.reply.tries.at(0).cost_usd);
    }
}

TEST_CASE("a client drops its tries when it goes") {
    const auto silent = std::make_shared<ScriptedProvider>(
        [](const auto&, const auto&, int) { return std::nullopt; });
    VirtualClock clock;
    {
        ModelOptions a;
        a.key = "a";
        a.provider = "one";
        Client client({{"a", a}}, {{"one", silent}}, {}, nullptr, nullptr, nullptr, clock, 1);
        client.submit(make_request("u", "a"));
        client.poll(0);
    }
    CHECK(silent->cancelled.size() == 1);
}

TEST_CASE("an unknown provider or model key is an error of the configuration") {
    VirtualClock clock;
    ModelOptions model;
    model.key = "a";
    model.provider = "opanai";
    CHECK_THROWS_WITH(Client({{"a", model}}, {}, {}, nullptr, nullptr, nullptr, clock, 1),
                      Catch::Contains("opanai"));
    Bench bench(script({}));
    CHECK_THROWS_WITH(bench.client().submit(make_request("u", "nobody")),
                      Catch::Contains("nobody"));
}
