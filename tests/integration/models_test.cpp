// The whole program with models behind a scripted server.
#include <atomic>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>

#include "integration/program.h"
#include "integration/scripted_model.h"
#include "store/archive.h"
#include "store/journal.h"
#include "store/reader.h"
#include "support/fault_server.h"

using namespace accelopt;
using namespace accelopt::testing;
using nlohmann::json;

namespace {

/// Every text that a run left behind: files, journal records, HDF5 columns.
std::string everything(const Folder& folder) {
    std::string all = folder.output();
    for (const auto& entry : fs::recursive_directory_iterator(folder.path)) {
        if (!entry.is_regular_file()) continue;
        const std::string path = entry.path().string();
        all += read_file(path);
        if (entry.path().extension() == ".journal") {
            store::read_journal(path, [&](const store::Record& r) { all += r.payload; });
        }
        if (entry.path().extension() != ".h5") continue;
        for (const auto& name : store::table_names(path)) {
            const auto table = store::read_table(path, name);
            for (const auto& column : table.columns()) {
                const auto* texts = std::get_if<std::vector<std::string>>(&column.values);
                if (!texts) continue;
                for (const auto& text : *texts) all += text;
            }
        }
    }
    return all;
}

}  // namespace

TEST_CASE("the key is in nothing that a run leaves behind, and a new key changes nothing",
          "[N26]") {
    const std::string keys[] = {"sk-models-first-0123456789", "sk-models-second-987654321"};
    std::string resolved[2];
    std::set<std::string> hashes[2];
    for (int i = 0; i < 2; ++i) {
        setenv("ACCELOPT_MODELS_KEY", keys[i].c_str(), 1);
        Model model;
        // A server that repeats the key wherever it can.
        FaultServer server([&](const std::string& body, int nth) {
            if (nth == 0) return error_reply(500, "Authorization: Bearer " + keys[i]);
            auto reply = model.answer(body);
            auto document = json::parse(reply.body);
            document["usage"]["debug"] = "key " + keys[i];
            auto& message = document["choices"][0]["message"];
            message["content"] = message["content"].get<std::string>() + "\n# " + keys[i];
            message["reasoning_content"] = "thinking of " + keys[i];
            reply.body = document.dump();
            return reply;
        });
        const Folder folder("key");
        folder.write("prices.yaml", kPrices);
        folder.write("run.yaml", run_file(openai_model(server)));
        const int code = run_program(folder, "run run.yaml");
        INFO(folder.output());
        REQUIRE(code == 0);
        CHECK(server.requests().at(0).headers.at("authorization") == "Bearer " + keys[i]);
        const std::string left = everything(folder);
        CHECK(left.find("thinking of ") != std::string::npos);  // of the journal
        CHECK(left.find(keys[i]) == std::string::npos);
        const std::string url = server.url();
        resolved[i] = replaced(folder.read("r/resolved.yaml"), url, "URL");
        for (const auto& row : store::load_run((folder.path / "r").string()).ledger) {
            hashes[i].insert(row.request_sha256);
        }
    }
    CHECK(resolved[0] == resolved[1]);
    CHECK(hashes[0] == hashes[1]);
}

TEST_CASE("a budget of $1 admits three calls of $0.30, and a resumed run does only the rest",
          "[N27]") {
    setenv("ACCELOPT_MODELS_KEY", "sk-models-0123456789abcdef", 1);
    Model model({1000, 20'000, -1, -1});
    FaultServer server([&](const std::string& body, int) { return model.answer(body); });
    const Folder folder("budget");
    folder.write("prices.yaml", kPrices);
    folder.write("run.yaml", run_file(openai_model(server), "budget: {usd: 1}\n",
                                      "beam: 1, plans: 5, samples: 1, rounds: 1"));
    CHECK(run_program(folder, "run run.yaml") == 5);
    INFO(folder.output());
    CHECK(server.requests().size() == 3);
    CHECK_THAT(folder.output(), Catch::Contains("--resume"));
    CHECK(run_program(folder, "run run.yaml --resume --set budget.usd=2") == 5);
    CHECK(server.requests().size() == 6);
    CHECK(run_program(folder, "run run.yaml --resume --set budget.usd=9") == 0);
    CHECK(server.requests().size() == 10);  // 5 plans, 5 kernels: none was asked for twice
    double usd = 0;
    for (const auto& row : store::load_run((folder.path / "r").string()).ledger) {
        usd += row.cost_usd.value();
    }
    CHECK(usd == Approx(10 * 0.30));
}

TEST_CASE("a fixer mends what the checks turned down, once or as often as it may") {
    setenv("ACCELOPT_MODELS_KEY", "sk-models-0123456789abcdef", 1);
    const std::string broken = replaced(silu_good(), "nisa.activation(", "nisa.activate_it(");
    std::mutex mutex;
    std::string told;
    std::atomic<int> repairs{0};
    Model model;
    FaultServer server([&](const std::string& body, int) {
        if (asked_for(body) == Asked::kRepair) {
            const std::scoped_lock lock(mutex);
            told = last_user_message(body);
            if (repairs++ == 0) return chat_reply(in_fence(replaced(broken, "activate_it", "act")));
        }
        return model.answer(body, broken);
    });
    const std::string search = "beam: 1, plans: 1, samples: 1, rounds: 1";
    for (const int attempts : {1, 2}) {
        repairs = 0;
        const Folder folder("fixer");
        folder.write("prices.yaml", kPrices);
        folder.write("run.yaml",
                     run_file(openai_model(server), "", search,
                              ", fixer: {model: m, attempts: " + std::to_string(attempts) + "}"));
        const int code = run_program(folder, "run run.yaml");
        INFO(folder.output());
        REQUIRE(code == 0);
        const auto run = store::load_run((folder.path / "r").string());
        const auto& sample = run.rounds.at(0).rewrites.at(0).samples.at(0);
        REQUIRE(sample.repairs.size() == static_cast<std::size_t>(attempts));
        CHECK(sample.repairs[0].source == broken);
        CHECK(sample.repairs[0].verdict == "unsupported/unknown_api");
        REQUIRE(sample.evaluation);
        CHECK(sample.evaluation->verified() == (attempts == 2));
        CHECK(repairs == attempts);
        int rows = 0;
        for (const auto& row : run.ledger) rows += row.role == protocol::Role::kFixer ? 1 : 0;
        CHECK(rows == attempts);
        CHECK_THAT(told, Catch::Contains("unsupported/unknown_api"));
    }
}

TEST_CASE("a kernel that equals its parent is not evaluated, and its tokens are in the ledger",
          "[N08]") {
    setenv("ACCELOPT_MODELS_KEY", "sk-models-0123456789abcdef", 1);
    const std::string copy = "# Faster now.\n" + silu_baseline();
    Model model;
    FaultServer server([&](const std::string& body, int) { return model.answer(body, copy); });
    const Folder folder("no-change");
    folder.write("prices.yaml", kPrices);
    folder.write("run.yaml", run_file(openai_model(server)));
    REQUIRE(run_program(folder, "run run.yaml") == 0);
    const auto run = store::load_run((folder.path / "r").string());
    int physical = 0;
    for (const auto& unit : run.units) {
        if (unit.kind == protocol::UnitKind::kRewrite) physical += unit.physical_evaluations;
        for (const auto& sample : unit.samples) {
            CHECK(sample.status == protocol::SampleStatus::kNoChange);
        }
    }
    CHECK(physical == 0);
    CHECK(run.ledger.size() == 4);
    for (const auto& row : run.ledger) CHECK(row.usage.output_tokens == 100);
}

TEST_CASE("a try in flight at a kill is shown as possibly spent and counts against the budget",
          "[N27]") {
    setenv("ACCELOPT_MODELS_KEY", "sk-models-0123456789abcdef", 1);
    std::atomic<bool> silent{true};
    Model model;
    FaultServer server([&](const std::string& body, int) {
        auto reply = model.answer(body);
        reply.delay_s = silent ? 60 : 0;
        return reply;
    });
    const Folder folder("killed");
    folder.write("prices.yaml", kPrices);
    folder.write("run.yaml", run_file(openai_model(server), "budget: {usd: 5}\n"));
    run_program(folder, "run run.yaml", "timeout -s KILL 10");
    silent = false;
    REQUIRE(server.requests().size() == 2);
    CHECK(store::load_run((folder.path / "r").string()).open_tries.size() == 2);
    REQUIRE(run_program(folder, "report r --format csv --table cost") == 0);
    CHECK_THAT(folder.read("out.txt"), Catch::Contains(",2,<= 0.6000\n"));
    // What is left of $0.80 does not admit another call of $0.30.
    CHECK(run_program(folder, "run run.yaml --resume --set budget.usd=0.8") == 5);
    CHECK_THAT(folder.output(), Catch::Contains("possibly spent, up to $0.6000"));
    CHECK(server.requests().size() == 2);
    CHECK(run_program(folder, "run run.yaml --resume") == 0);
}

TEST_CASE("the doctor looks at keys, endpoints and prices, shows no key and spends nothing",
          "[N26]") {
    const std::string key = "sk-models-0123456789abcdef";
    setenv("ACCELOPT_MODELS_KEY", key.c_str(), 1);
    ScriptedReply list;
    list.body = "{\"data\": [{\"id\": \"scripted\"}]}";
    FaultServer server([&](const std::string& body, int) {
        CHECK(body.empty());
        return list;
    });
    const Folder folder("doctor");
    folder.write("prices.yaml", kPrices);
    folder.write("run.yaml", run_file(openai_model(server), "budget: {usd: 1}\n"));
    CHECK(run_program(folder, "doctor run.yaml") == 0);
    INFO(folder.output());
    for (const char* part :
         {"openai, key present", "reachable, lists scripted", "test, 2026-01-01"}) {
        CHECK_THAT(folder.output(), Catch::Contains(part));
    }
    CHECK(folder.output().find(key) == std::string::npos);
    CHECK(server.requests().size() == 1);
    list.body = "{\"data\": [{\"id\": \"scripted-2\"}]}";
    CHECK(run_program(folder, "doctor run.yaml") == 2);
    CHECK_THAT(folder.output(), Catch::Contains("is it scripted-2?"));
    folder.write("run.yaml", run_file("  m: {provider: openai, name: scripted, url: '" +
                                      refused_url() + "'}\n"));
    CHECK(run_program(folder, "doctor run.yaml") == 2);
}

TEST_CASE("a refused key or a used-up quota ends the run at once, and a resumed one goes on",
          "[N27]") {
    setenv("ACCELOPT_MODELS_KEY", "sk-models-0123456789abcdef", 1);
    std::atomic<int> refusing{401};
    Model model;
    FaultServer server([&](const std::string& body, int) {
        if (refusing == 401) return error_reply(401, "no such key", "invalid_api_key");
        if (refusing == 429) return error_reply(429, "pay first", "insufficient_quota");
        return model.answer(body);
    });
    const Folder folder("refused");
    folder.write("prices.yaml", kPrices);
    folder.write("run.yaml",
                 run_file(openai_model(server), "", "beam: 1, plans: 3, samples: 1, rounds: 1"));
    CHECK(run_program(folder, "run run.yaml") == 2);
    CHECK_THAT(folder.output(), Catch::Contains("refuses the key"));
    CHECK(server.requests().size() == 3);  // one for each call that was in flight
    refusing = 429;
    CHECK(run_program(folder, "run run.yaml --resume") == 5);
    CHECK_THAT(folder.output(), Catch::Contains("quota"));
    refusing = 0;
    CHECK(run_program(folder, "run run.yaml --resume") == 0);
    CHECK(folder.read("r/best/silu.py") == silu_good());
}

TEST_CASE("a run with Claude over its own API or over Bedrock goes through") {
    setenv("ACCELOPT_MODELS_KEY", "sk-models-0123456789abcdef", 1);
    const auto text_for = [](const std::string& body) {
        return body.find("PLAN one") != std::string::npos ? in_fence(silu_good())
                                                          : std::string("PLAN one");
    };
    const std::string more =
        ", name: scripted, key_env: ACCELOPT_MODELS_KEY, max_tokens: 20000, "
        "thinking: 10000, cache_prompt: true";
    FaultServer anthropic([&](const std::string& body, int) {
        ScriptedReply reply;
        reply.body =
            json{{"type", "message"},
                 {"content",
                  {{{"type", "thinking"}, {"thinking", "hm"}},
                   {{"type", "text"}, {"text", text_for(body)}}}},
                 {"stop_reason", "end_turn"},
                 {"usage",
                  {{"input_tokens", 10}, {"cache_read_input_tokens", 5}, {"output_tokens", 100}}}}
                .dump();
        return reply;
    });
    FaultServer bedrock([&](const std::string& body, int) {
        ScriptedReply reply;
        reply.body =
            json{{"output", {{"message", {{"content", {{{"text", text_for(body)}}}}}}}},
                 {"stopReason", "end_turn"},
                 {"usage", {{"inputTokens", 10}, {"outputTokens", 100}, {"totalTokens", 110}}}}
                .dump();
        return reply;
    });
    const std::string models[] = {
        "  m: {provider: anthropic, url: '" + anthropic.url() + "'" + more + "}\n",
        "  m: {provider: bedrock, region: us-west-2, secret_key_env: ACCELOPT_MODELS_KEY, url: '" +
            bedrock.url() + "'" + more + "}\n"};
    for (const auto& model : models) {
        const Folder folder("claude");
        folder.write("prices.yaml", replaced(kPrices, "input: 0", "input: 0, cached_input: 0"));
        folder.write("run.yaml", run_file(model, "", "beam: 1, plans: 1, samples: 1, rounds: 1"));
        const int code = run_program(folder, "run run.yaml");
        INFO(folder.output());
        REQUIRE(code == 0);
        CHECK(folder.read("r/best/silu.py") == silu_good());
        for (const auto& row : store::load_run((folder.path / "r").string()).ledger) {
            CHECK(row.cost_usd.value() == Approx(100 * 15e-6));
        }
    }
    CHECK(anthropic.requests().at(0).path == "/v1/messages");
    CHECK(json::parse(anthropic.requests().at(0).body)["thinking"]["budget_tokens"] == 10'000);
    CHECK(bedrock.requests().at(0).path == "/v1/model/scripted/converse");
    CHECK(bedrock.requests().at(0).headers.at("authorization").rfind("AWS4-HMAC-SHA256 ", 0) == 0);
}
