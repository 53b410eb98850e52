#include "llm/batch.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/text.h"
#include "support/fault_server.h"
#include "unit/llm/client_fakes.h"

using namespace accelopt;
using namespace accelopt::llm;
using nlohmann::json;
using protocol::LlmOutcome;
namespace fs = std::filesystem;

namespace {

struct Batch {
    Batch() : path(fs::temp_directory_path() / ("accelopt-batch-" + std::to_string(getpid()))) {
        fs::remove_all(path);
        model.key = "m";
        model.provider = "batch";
        model.name = "org/m";
        model.folder = path.string();
        model.run_id = "abcd1234";
        model.timeout_s = 1e9;
        Price price;
        price.input_usd = 2;
        price.output_usd = 4;
        price.batch_factor = 0.5;
        prices.set("org/m", price);
    }
    ~Batch() { fs::remove_all(path); }

    /// Runs the calls of these units in a new process, as it were.
    std::map<std::string, Reply> run(const std::vector<std::string>& units) {
        Client client({{"m", model}}, {{"batch", make_batch_provider(clock, 1.0)}}, prices, nullptr,
                      log, pacer, clock, 1);
        std::map<std::uint64_t, std::string> names;
        for (const auto& unit : units) names[client.submit(make_request(unit))] = unit;
        std::map<std::string, Reply> replies;
        for (auto& done : drain(client, clock, 1000)) replies[names[done.id]] = done.reply;
        return replies;
    }
    std::vector<json> requests() const {
        std::vector<json> lines;
        for (const auto& entry : fs::directory_iterator(path / "requests")) {
            for (const auto& line : split(read_file(entry.path().string()), '\n')) {
                if (!line.empty()) lines.push_back(json::parse(line));
            }
        }
        return lines;
    }
    void answer(const std::string& file, const std::string& text) const {
        fs::create_directories(path / "answers");
        std::ofstream(path / "answers" / file, std::ios::app) << text;
    }
    std::string id(const std::string& unit, int attempt = 0) const {
        return batch_id(model, make_request(unit), attempt);
    }

    fs::path path;
    ModelOptions model;
    PriceTable prices;
    VirtualClock clock;
    std::shared_ptr<MemoryLog> log = std::make_shared<MemoryLog>();
    std::shared_ptr<CountingPacer> pacer = std::make_shared<CountingPacer>();
};

std::string good_line(const std::string& id, const std::string& text) {
    const json line = {
        {"id", "batch_req_1"},
        {"custom_id", id},
        {"response",
         {{"status_code", 200},
          {"body", json::parse(testing::chat_reply(text, {1000, 100, -1, -1}).body)}}},
        {"error", nullptr}};
    return line.dump() + "\n";
}

}  // namespace

TEST_CASE("a round is written as one file, and the calls end resumable and unbilled") {
    Batch batch;
    const auto replies = batch.run({"u1", "u2", "u3"});
    for (const auto& [unit, reply] : replies) {
        CHECK(reply.outcome == LlmOutcome::kCancelled);
        CHECK(reply.tries.empty());
        CHECK_THAT(reply.error, Catch::Contains("--resume") && Catch::Contains("requests/"));
    }
    CHECK(batch.log->rows.empty());
    CHECK(batch.pacer->open.empty());
    const auto lines = batch.requests();
    REQUIRE(lines.size() == 3);
    for (const auto& line : lines) {
        CHECK(line["method"] == "POST");
        CHECK(line["url"] == "/v1/chat/completions");
        CHECK(line["body"]["model"] == "org/m");
        CHECK(line["body"]["stream"] == false);
        CHECK(line["custom_id"].get<std::string>().size() <= 64);
    }
    // Asked again, the same round is the same file.
    batch.run({"u1", "u2", "u3"});
    CHECK(batch.requests().size() == 3);
}

TEST_CASE("partial, disordered, doubled, unknown and failed answer lines are handled") {
    Batch batch;
    batch.run({"u1", "u2", "u3", "u4"});
    const json failed = {{"custom_id", batch.id("u3")},
                         {"response", nullptr},
                         {"error", {{"code", "server_error"}, {"message", "worker died"}}}};
    batch.answer("b.jsonl", good_line(batch.id("u2"), "two") + "\n" + failed.dump() + "\n" +
                                good_line(batch.id("u9"), "nobody asked"));
    batch.answer("a.jsonl", good_line(batch.id("u1"), "one") + good_line(batch.id("u2"), "again") +
                                good_line(batch.id("u4"), "four").substr(0, 40));
    const auto replies = batch.run({"u1", "u2", "u3", "u4"});
    CHECK(replies.at("u1").text == "one");
    CHECK(replies.at("u2").text == "again");
    CHECK(replies.at("u4").outcome == LlmOutcome::kCancelled);
    // The failed line is a try of its own; the next one waits for the next round.
    CHECK(replies.at("u3").outcome == LlmOutcome::kCancelled);
    REQUIRE(replies.at("u3").tries.size() == 1);
    CHECK(replies.at("u3").tries[0].outcome == LlmOutcome::kServerError);
    bool asked_again = false;
    for (const auto& line : batch.requests()) {
        asked_again = asked_again || line["custom_id"] == batch.id("u3", 1);
    }
    CHECK(asked_again);
    // Half price, where the table says so.
    CHECK(replies.at("u1").tries[0].cost_usd.value() == Approx(0.5 * (1000 * 2e-6 + 100 * 4e-6)));
    const auto answers = read_batch_answers(batch.path.string() + "/answers", "abcd1234");
    CHECK(answers.duplicates == 1);
    CHECK(answers.unreadable == 1);
}

TEST_CASE("a good answer counts more than a failed one that came before it") {
    Batch batch;
    const json failed = {{"custom_id", batch.id("u1")},
                         {"response", {{"status_code", 500}, {"body", nullptr}}},
                         {"error", nullptr}};
    batch.answer("a.jsonl", failed.dump() + "\n" + good_line(batch.id("u1"), "one"));
    CHECK(batch.run({"u1"}).at("u1").text == "one");
}

TEST_CASE("a batch file of another run is refused with file and line") {
    Batch batch;
    ModelOptions other = batch.model;
    other.run_id = "ffff0000";
    batch.answer("a.jsonl", good_line(batch.id("u1"), "one") +
                                good_line(batch_id(other, make_request("u1"), 0), "two"));
    CHECK_THROWS_WITH(batch.run({"u1"}),
                      Catch::Contains("a.jsonl:2") && Catch::Contains("another run"));
}

TEST_CASE("a run that waits takes the answers when they come") {
    Batch batch;
    batch.model.wait = true;
    Client client({{"m", batch.model}}, {{"batch", make_batch_provider(batch.clock, 1.0)}},
                  batch.prices, nullptr, batch.log, batch.pacer, batch.clock, 1);
    client.submit(make_request("u1"));
    for (int i = 0; i < 20; ++i) CHECK(client.poll(1.0).empty());
    CHECK(batch.requests().size() == 1);
    batch.answer("a.jsonl", good_line(batch.id("u1"), "one"));
    std::vector<Completion> done;
    for (int i = 0; i < 20 && done.empty(); ++i) done = client.poll(1.0);
    REQUIRE(done.size() == 1);
    CHECK(done[0].reply.text == "one");
}
