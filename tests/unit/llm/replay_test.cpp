#include "llm/replay.h"

#include <catch2/catch.hpp>

#include "core/error.h"
#include "unit/llm/client_fakes.h"

using namespace accelopt;
using namespace accelopt::llm;
using protocol::LlmOutcome;

namespace {

struct Replayed {
    explicit Replayed(const std::string& fallback = "") {
        model.key = "m";
        model.provider = "replay";
        model.recording = "runs/r-1";
        model.fallback = fallback;
        other.key = "other";
        other.provider = "scripted";
        Reply reply;
        reply.text = "recorded";
        protocol::LedgerRow failed;
        failed.outcome = LlmOutcome::kServerError;
        failed.cost_usd = 0.25;
        protocol::LedgerRow good;
        good.cost_usd = 0.5;
        good.usage.input_tokens = 7;
        reply.tries = {failed, good};
        record->known["u1"] = reply;
    }
    std::unique_ptr<Client> client() {
        auto loader = [this](const std::string& directory) {
            directories.push_back(directory);
            return record;
        };
        return std::make_unique<Client>(
            std::map<std::string, ModelOptions>{{"m", model}, {"other", other}},
            ProviderRegistry{{"replay", make_replay_provider(loader)}, {"scripted", scripted}},
            PriceTable{}, nullptr, log, pacer, clock, 1);
    }

    VirtualClock clock;
    ModelOptions model;
    ModelOptions other;
    std::vector<std::string> directories;
    std::shared_ptr<MapReplies> record = std::make_shared<MapReplies>();
    std::shared_ptr<MemoryLog> log = std::make_shared<MemoryLog>();
    std::shared_ptr<CountingPacer> pacer = std::make_shared<CountingPacer>();
    std::shared_ptr<ScriptedProvider> scripted =
        std::make_shared<ScriptedProvider>([](const auto&, const auto&, int) {
            TryResult result;
            result.text = "asked";
            return result;
        });
};

}  // namespace

TEST_CASE("a replayed answer brings its recorded rows and spends nothing") {
    Replayed setup;
    const auto client = setup.client();
    Request request = make_request("u1");
    request.problem = "silu";
    client->submit(request);
    const auto done = client->poll(0);
    REQUIRE(done.size() == 1);
    CHECK(done[0].reply.text == "recorded");
    REQUIRE(setup.log->rows.size() == 2);
    double usd = 0;
    for (const auto& row : setup.log->rows) {
        CHECK(row.replayed);
        CHECK(row.unit_id == "u1");
        CHECK(row.problem == "silu");
        usd += row.cost_usd.value();
    }
    CHECK(usd == 0.75);
    CHECK(setup.log->replies.size() == 1);
    CHECK(setup.pacer->usd == 0);
    CHECK(setup.pacer->tries_left == 1000);
    CHECK(setup.directories == std::vector<std::string>{"runs/r-1"});
}

TEST_CASE("a question that is not recorded is an error that names the unit") {
    Replayed setup;
    const auto client = setup.client();
    try {
        client->submit(make_request("u2"));
        FAIL("no error");
    } catch (const Error& error) {
        CHECK(error.source() == ErrorSource::kUser);
        CHECK_THAT(error.what(), Catch::Contains("unit u2") && Catch::Contains("runs/r-1") &&
                                     Catch::Contains("planner, sample 0"));
    }
}

TEST_CASE("a question that is not recorded goes to the fallback where there is one") {
    Replayed setup("other");
    const auto client = setup.client();
    client->submit(make_request("u1"));
    client->submit(make_request("u2"));
    const auto all = drain(*client, setup.clock);
    REQUIRE(all.size() == 2);
    CHECK(setup.scripted->started == 1);
    REQUIRE(setup.log->rows.size() == 3);
    CHECK(setup.log->rows[2].model == "other");
    CHECK_FALSE(setup.log->rows[2].replayed);
}
