// The whole program against a scripted OpenAI-compatible server.
#include <atomic>
#include <map>
#include <mutex>
#include <set>

#include "integration/program.h"
#include "store/archive.h"
#include "support/fault_server.h"

using namespace accelopt;
using namespace accelopt::testing;

TEST_CASE("a good kernel wins over wrong ones, prose, throttling and server errors") {
    const std::string good = silu_good();
    const std::string wrong = silu_wrong();

    std::atomic<int> planners{0};
    std::mutex mutex;
    std::set<std::string> throttled;
    const std::vector<std::string> plans = {"PLAN good", "PLAN wrong", "PLAN prose",
                                            "PLAN throttle", "PLAN broken"};
    FaultServer server([&](const std::string& body, int) {
        const std::string asked = last_user_message(body);
        const ChatUsage usage{.prompt = 10000, .completion = 1000};
        if (asked.find("PLAN good") != std::string::npos) return chat_reply(in_fence(good), usage);
        if (asked.find("PLAN wrong") != std::string::npos)
            return chat_reply(in_fence(wrong), usage);
        if (asked.find("PLAN prose") != std::string::npos) {
            return chat_reply("I would widen the tiles.", usage);
        }
        if (asked.find("PLAN throttle") != std::string::npos) {
            const std::scoped_lock lock(mutex);
            if (throttled.insert("throttle").second) {
                auto reply = error_reply(429, "slow down");
                reply.headers["Retry-After"] = "1";
                return reply;
            }
            return chat_reply(in_fence(good), usage);
        }
        if (asked.find("PLAN broken") != std::string::npos) return error_reply(500, "oops");
        return chat_reply(plans.at(static_cast<std::size_t>(planners++)), usage);
    });

    const Folder folder("scripted");
    folder.write("prices.yaml",
                 "prices:\n"
                 "  - {models: [scripted], input: 1.0, output: 10.0, source: test, date: "
                 "2026-01-01}\n");
    folder.write("run.yaml",
                 "run: {name: scripted, directory: scripted}\n"
                 "problems: [silu]\n"
                 "shape: test\n"
                 "search: {beam: 1, plans: 5, samples: 1, rounds: 1}\n"
                 "agents:\n"
                 "  planner: {model: scripted}\n"
                 "  executor: {model: scripted}\n"
                 "  summarizer: {model: scripted}\n"
                 "models:\n"
                 "  scripted: {provider: openai, url: '" +
                     server.url() +
                     "', name: scripted, key_env: SCRIPTED_KEY, max_tries: 2}\n"
                     "prices: prices.yaml\n"
                     "verify: {seeds: 2}\n");
    setenv("SCRIPTED_KEY", "sk-scripted-secret", 1);

    // The unit whose executor only ever got 500 is a failure of infrastructure: exit code 4.
    const int code = run_program(folder, "run run.yaml");
    INFO(folder.output());
    CHECK(code == 4);

    const auto run = store::load_run((folder.path / "scripted").string());
    std::map<std::string, std::string> fates;
    for (const auto& round : run.rounds) {
        for (const auto& unit : round.rewrites) {
            REQUIRE(unit.samples.size() == 1);
            const auto& s = unit.samples[0];
            std::string fate(protocol::to_string(s.status));
            if (s.status == protocol::SampleStatus::kLlmFailed) {
                fate += "/" + std::string(protocol::to_string(s.llm_outcome));
            } else if (s.evaluation) {
                fate += "/" + std::string(protocol::to_string(s.evaluation->outcome)) + "/" +
                        s.evaluation->reason;
            }
            fates[unit.plan_text] = fate;
        }
    }
    CHECK(fates.at("PLAN wrong") == "evaluated/incorrect/value");
    CHECK(fates.at("PLAN prose") == "extraction_failed");
    CHECK(fates.at("PLAN broken") == "llm_failed/server_error");
    // Which of the two equal kernels counts as the copy follows from their order in the round.
    const std::set<std::string> twins = {fates.at("PLAN good"), fates.at("PLAN throttle")};
    CHECK(twins == std::set<std::string>{"evaluated/ok/", "duplicate/ok/"});

    CHECK(read_file((folder.path / "scripted/best/silu.py").string()) == good);
    CHECK(fs::file_size(folder.path / "scripted/best/silu.diff") > 0);

    // Ledger rows are the requests the server saw; dollars are those of the answers with usage.
    CHECK(run.ledger.size() == server.requests().size());
    double dollars = 0;
    int priced = 0;
    int throttles = 0;
    int errors = 0;
    for (const auto& row : run.ledger) {
        if (row.http_status == 429) ++throttles;
        if (row.http_status == 500) ++errors;
        if (row.cost_usd) {
            dollars += *row.cost_usd;
            ++priced;
        }
    }
    CHECK(throttles == 1);
    CHECK(errors == 2);
    CHECK(dollars == Approx(9 * (10000 * 1.0 + 1000 * 10.0) / 1e6));
    CHECK(priced >= 9);

    // Nothing is asked again: the run is over, and its resumption adopts all of it.
    const auto before = server.requests().size();
    run_program(folder, "run run.yaml --resume");
    CHECK(server.requests().size() == before);
}
