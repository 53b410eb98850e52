// The whole program with models whose answers come from a record or in batches.
#include <atomic>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "integration/program.h"
#include "integration/scripted_model.h"
#include "store/archive.h"
#include "store/candidates.h"
#include "support/fault_server.h"

using namespace accelopt;
using namespace accelopt::testing;
using nlohmann::json;

namespace {

std::vector<std::string> candidates_of(const Folder& folder) {
    const auto run = store::load_run((folder.path / "r").string());
    std::vector<std::string> rows;
    for (const auto& row : store::candidate_rows(run)) {
        rows.push_back(row.id + " " + row.parent_id + " " + row.source_hash + " " +
                       std::string(to_string(row.status)) + " " +
                       (row.latency_ms() ? std::to_string(*row.latency_ms()) : "-") + "\n" +
                       row.source);
    }
    return rows;
}

std::string tables_of(const Folder& folder) {
    std::string all;
    for (const char* table : {"summary", "rounds", "outcomes", "best"}) {
        REQUIRE(run_program(folder, std::string("report r --format csv --table ") + table) == 0);
        all += folder.read("out.txt");
    }
    return all;
}

}  // namespace

TEST_CASE("a recorded run is replayed on any number of ranks without a call", "[N07]") {
    setenv("ACCELOPT_MODELS_KEY", "sk-models-0123456789abcdef", 1);
    const Folder recorded("recorded");
    const std::string search = "beam: 2, plans: 2, samples: 2, rounds: 2";
    std::atomic<int> kernels{0};
    Model model;
    FaultServer server([&](const std::string& body, int nth) {
        if (nth == 1) return error_reply(503, "busy");
        const int number = kernels++;
        const std::string kernel = number % 3 == 0
                                       ? silu_wrong()
                                       : replaced(silu_good(), "block = 1024",
                                                  "block = " + std::to_string(512 << (number % 2)));
        return model.answer(body, kernel);
    });
    recorded.write("prices.yaml", kPrices);
    recorded.write("run.yaml", run_file(openai_model(server), "", search));
    const int code = run_program(recorded, "run run.yaml");
    INFO(recorded.output());
    REQUIRE(code == 0);
    const auto expected = candidates_of(recorded);
    const std::string tables = tables_of(recorded);
    const auto calls = store::load_run((recorded.path / "r").string()).ledger;
    const auto asked = server.requests().size();
    REQUIRE(calls.size() == asked);
    unsetenv("ACCELOPT_MODELS_KEY");

    for (const char* launcher : {"", "mpirun -n 2", "mpirun -n 4", "mpirun -n 5"}) {
        const Folder folder("replayed");
        folder.write("prices.yaml", kPrices);
        folder.write("run.yaml",
                     run_file("  m: {provider: replay, run: '" + (recorded.path / "r").string() +
                                  "', name: scripted}\n",
                              "budget: {usd: 0.000001}\n", search));
        const int replayed = run_program(folder, "run run.yaml", launcher);
        INFO(launcher << "\n" << folder.output());
        REQUIRE(replayed == 0);
        CHECK(server.requests().size() == asked);
        CHECK(candidates_of(folder) == expected);
        CHECK(tables_of(folder) == tables);
        const auto rows = store::load_run((folder.path / "r").string()).ledger;
        REQUIRE(rows.size() == calls.size());
        for (std::size_t i = 0; i < rows.size(); ++i) {
            CHECK(rows[i].replayed);
            CHECK(rows[i].cost_usd == calls[i].cost_usd);
            CHECK(rows[i].outcome == calls[i].outcome);
            CHECK(rows[i].usage.raw_json == calls[i].usage.raw_json);
            CHECK(rows[i].usage.output_tokens == calls[i].usage.output_tokens);
        }
        REQUIRE(run_program(folder, "report r --format csv --table cost") == 0);
        CHECK_THAT(folder.read("out.txt"), Catch::Contains(",0.0000,0,0.0000\n"));
    }
}

TEST_CASE("a question that a replayed run does not hold is an error that names the unit") {
    setenv("ACCELOPT_MODELS_KEY", "sk-models-0123456789abcdef", 1);
    Model model;
    FaultServer server([&](const std::string& body, int) { return model.answer(body); });
    const Folder folder("miss");
    folder.write("prices.yaml", kPrices);
    folder.write("run.yaml", run_file(openai_model(server)));
    REQUIRE(run_program(folder, "run run.yaml") == 0);
    const auto asked = server.requests().size();
    const std::string replay = "  m: {provider: replay, run: r, name: scripted";
    const std::string wider = "beam: 1, plans: 3, samples: 1, rounds: 1";
    folder.write("miss.yaml",
                 replaced(run_file(replay + "}\n", "", wider), "directory: r", "directory: s"));
    CHECK(run_program(folder, "run miss.yaml") == 4);
    CHECK_THAT(folder.output(),
               Catch::Contains("holds no answer for unit") && Catch::Contains("planner, sample 0"));
    CHECK(server.requests().size() == asked);
    // By option the rest is asked of another model.
    folder.write("rest.yaml",
                 replaced(run_file(replay + ", fallback: live}\n" +
                                       replaced(openai_model(server), "  m:", "  live:"),
                                   "", wider),
                          "directory: r", "directory: t"));
    CHECK(run_program(folder, "run rest.yaml") == 0);
    CHECK(server.requests().size() == asked + 2);
}

namespace {

/// Answers the questions of a batch folder as a hosted service would: last question first.
int answer_batch(const fs::path& folder, Model& model, std::set<std::string>& answered) {
    std::string lines;
    int count = 0;
    std::error_code none;
    for (const auto& file : fs::directory_iterator(folder / "requests", none)) {
        for (const auto& text : split(read_file(file.path().string()), '\n')) {
            if (text.empty()) continue;
            const auto line = json::parse(text);
            const auto id = line.at("custom_id").get<std::string>();
            if (!answered.insert(id).second) continue;
            const auto reply = model.answer(line.at("body").dump());
            lines = json{{"custom_id", id},
                         {"response", {{"status_code", 200}, {"body", json::parse(reply.body)}}},
                         {"error", nullptr}}
                        .dump() +
                    "\n" + lines;
            ++count;
        }
    }
    if (count > 0) {
        const auto name = folder / "answers" / ("a" + std::to_string(answered.size()) + ".jsonl");
        write_file_atomically(name.string(), lines);
    }
    return count;
}

}  // namespace

TEST_CASE("a batch run ends resumable with code 6 until every round is answered") {
    const Folder folder("batch");
    folder.write("prices.yaml", kPrices);
    folder.write("run.yaml", run_file("  m: {provider: batch, name: scripted}\n"));
    Model model;
    std::set<std::string> answered;
    const fs::path batch = folder.path / "r/batch/m";
    CHECK(run_program(folder, "run run.yaml") == 6);
    INFO(folder.output());
    CHECK_THAT(folder.output(), Catch::Contains("accelopt run run.yaml --resume") &&
                                    Catch::Contains("r/batch/m/answers"));
    CHECK(answer_batch(batch, model, answered) == 2);
    CHECK(run_program(folder, "run run.yaml --resume") == 6);
    CHECK(answer_batch(batch, model, answered) == 2);  // two executors; the plans are known
    CHECK(run_program(folder, "run run.yaml --resume") == 0);
    const auto run = store::load_run((folder.path / "r").string());
    CHECK(run.ledger.size() == 4);
    CHECK(run.open_tries.empty());
    for (const auto& row : run.ledger) CHECK(row.cost_usd.value() == Approx(0.5 * 100 * 15e-6));
    CHECK(folder.read("r/best/silu.py") == silu_good());
}

TEST_CASE("with --wait a batch run takes the answers as they come") {
    const Folder folder("batch-wait");
    folder.write("prices.yaml", kPrices);
    folder.write("run.yaml", run_file("  m: {provider: batch, name: scripted}\n"));
    std::atomic<bool> over{false};
    std::thread service([&] {
        Model model;
        std::set<std::string> answered;
        while (!over) {
            answer_batch(folder.path / "r/batch/m", model, answered);
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
        }
    });
    const int code = run_program(folder, "run run.yaml --wait", "timeout 120");
    over = true;
    service.join();
    INFO(folder.output());
    CHECK(code == 0);
    CHECK(folder.read("r/best/silu.py") == silu_good());
}

TEST_CASE("an answer file of another run is refused with file and line") {
    const Folder folder("batch-foreign");
    folder.write("prices.yaml", kPrices);
    folder.write("run.yaml", run_file("  m: {provider: batch, name: scripted, folder: b}\n"));
    folder.write("b/answers/other.jsonl",
                 "{\"custom_id\": \"accelopt-00000000-u-planner-0-0\", \"response\": {}}\n");
    CHECK(run_program(folder, "run run.yaml") == 2);
    CHECK_THAT(folder.output(),
               Catch::Contains("b/answers/other.jsonl:1:") && Catch::Contains("another run"));
    CHECK_FALSE(fs::exists(folder.path / "b/requests"));
}
