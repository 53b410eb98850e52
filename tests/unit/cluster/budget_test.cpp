#include "cluster/budget.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "cluster/call_journal.h"
#include "core/error.h"
#include "llm/client.h"
#include "unit/llm/client_fakes.h"

using namespace accelopt;
using namespace accelopt::cluster;
using protocol::LlmOutcome;
namespace fs = std::filesystem;

namespace {

protocol::LedgerRow row_of(double usd, const std::string& problem = "p") {
    protocol::LedgerRow row;
    row.model = "m";
    row.problem = problem;
    row.cost_usd = usd;
    return row;
}

/// Two ranks that share a coordinator's budget, with tries that end when told to.
struct Ranks {
    explicit Ranks(BudgetLimits limits) : budget(std::move(limits)) {
        model.key = "m";
        model.provider = "scripted";
        model.max_tokens = 100'000;
        llm::Price price;
        price.input_usd = 0;
        price.output_usd = 3;  // at most $0.30 a call
        prices.set("m", price);
        for (int rank = 0; rank < 2; ++rank) {
            pacers.push_back(std::make_shared<WorkerPacer>(true, clock, reports(rank)));
            logs.push_back(std::make_shared<llm::MemoryLog>());
            clients.push_back(std::make_unique<llm::Client>(
                std::map<std::string, llm::ModelOptions>{{"m", model}},
                llm::ProviderRegistry{{"scripted", provider}}, prices, nullptr, logs.back(),
                pacers.back(), clock, 1));
        }
    }
    WorkerPacer::Coordinator reports(int rank) {
        const std::string prefix = std::to_string(rank) + ":";
        WorkerPacer::Coordinator c;
        c.reserve = [this, rank, prefix](const llm::Reservation& r) {
            const std::string name = prefix + std::to_string(r.ticket);
            auto answer = budget.reserve(name, r.model, r.problem, r.max_usd.value_or(0));
            most_reserved = std::max(most_reserved, budget.reserved());
            pacers[static_cast<std::size_t>(rank)]->answered(r.ticket, answer);
        };
        c.release = [this, prefix](std::uint64_t t) { budget.release(prefix + std::to_string(t)); };
        c.spent = [this](const protocol::LedgerRow& row) { budget.book(row); };
        c.hold = [](const std::string&, double) {};
        return c;
    }
    /// Runs these units, spread over the ranks, to their ends.
    std::map<std::string, LlmOutcome> run(const std::vector<std::string>& units) {
        std::map<std::pair<std::size_t, std::uint64_t>, std::string> names;
        for (std::size_t i = 0; i < units.size(); ++i) {
            llm::Request request = llm::make_request(units[i]);
            request.problem = "p";
            names[{i % 2, clients[i % 2]->submit(request)}] = units[i];
        }
        std::map<std::string, LlmOutcome> ends;
        for (int turn = 0; turn < 2000 && ends.size() < units.size(); ++turn) {
            for (std::size_t rank = 0; rank < 2; ++rank) {
                for (const auto& done : clients[rank]->poll(0.01)) {
                    ends[names.at({rank, done.id})] = done.reply.outcome;
                }
            }
        }
        return ends;
    }

    VirtualClock clock;
    Budget budget;
    llm::ModelOptions model;
    llm::PriceTable prices;
    std::size_t most_reserved = 0;
    std::shared_ptr<llm::ScriptedProvider> provider = std::make_shared<llm::ScriptedProvider>(
        [](const auto&, const auto&, int) -> std::optional<llm::TryResult> {
            llm::TryResult result;
            result.text = "fine";
            result.usage.input_tokens = 10;
            result.usage.output_tokens = 100'000;
            return result;
        });
    std::vector<std::shared_ptr<WorkerPacer>> pacers;
    std::vector<std::shared_ptr<llm::MemoryLog>> logs;
    std::vector<std::unique_ptr<llm::Client>> clients;
};

}  // namespace

TEST_CASE("no reservation may take a budget over its limit", "[N27]") {
    BudgetLimits limits;
    limits.usd = 1;
    Budget budget(limits);
    CHECK(budget.reserve("a", "m", "p", 0.3).verdict == Budget::Verdict::kGranted);
    CHECK(budget.reserve("b", "m", "p", 0.3).verdict == Budget::Verdict::kGranted);
    CHECK(budget.reserve("c", "m", "p", 0.3).verdict == Budget::Verdict::kGranted);
    CHECK(budget.reserve("a", "m", "p", 0.3).verdict == Budget::Verdict::kGranted);
    CHECK(budget.reserved() == 3);
    CHECK(budget.reserve("d", "m", "p", 0.3).verdict == Budget::Verdict::kWait);
    CHECK(budget.reserve("e", "m", "p", 1.3).verdict == Budget::Verdict::kSpent);
    // A call that turns out cheap makes room.
    budget.book(row_of(0.05));
    budget.release("a");
    CHECK(budget.reserve("d", "m", "p", 0.3).verdict == Budget::Verdict::kGranted);
    for (const char* name : {"b", "c", "d"}) {
        budget.book(row_of(0.3));
        budget.release(name);
    }
    const auto answer = budget.reserve("f", "m", "p", 0.3);
    CHECK(answer.verdict == Budget::Verdict::kSpent);
    CHECK(answer.why ==
          "budget.usd of $1.00: $0.9500 is spent, and the next call may cost $0.3000");
    CHECK(budget.reserve("g", "m", "p", 0.05).verdict == Budget::Verdict::kGranted);
}

TEST_CASE("what was in flight when a rank died counts as spent, up to what it was reserved with",
          "[N27]") {
    BudgetLimits limits;
    limits.usd = 1;
    limits.problem_usd = 0.6;
    limits.calls = 5;
    Budget budget(limits);
    budget.book_possible({"u", "p", "planner", 0, 0, "m", 0.5});
    budget.book_possible({"v", "q", "planner", 0, 0, "m", std::nullopt});
    CHECK(budget.spent_usd() == 0.5);
    CHECK(budget.spent_calls() == 2);
    CHECK(budget.reserve("a", "m", "p", 0.2).verdict == Budget::Verdict::kSpent);
    CHECK(budget.reserve("b", "m", "q", 0.4).verdict == Budget::Verdict::kGranted);
}

TEST_CASE("budgets of a problem, of a model and of calls are kept apart", "[N27]") {
    BudgetLimits limits;
    limits.problem_usd = 0.5;
    limits.model_usd["dear"] = 0.4;
    limits.calls = 4;
    Budget budget(limits);
    CHECK(budget.reserve("a", "m", "p", 0.5).verdict == Budget::Verdict::kGranted);
    CHECK(budget.reserve("b", "m", "p", 0.1).verdict == Budget::Verdict::kWait);
    CHECK(budget.reserve("c", "m", "q", 0.5).verdict == Budget::Verdict::kGranted);
    CHECK(budget.reserve("d", "dear", "r", 0.4).verdict == Budget::Verdict::kGranted);
    CHECK(budget.reserve("e", "dear", "s", 0.1).verdict == Budget::Verdict::kWait);
    CHECK(budget.reserve("f", "m", "s", 0.1).verdict == Budget::Verdict::kGranted);
    CHECK(budget.reserve("g", "m", "t", 0.1).verdict == Budget::Verdict::kWait);
    for (int i = 0; i < 4; ++i) budget.book(row_of(0, "other"));
    CHECK(budget.reserve("h", "m", "t", 0.1).why == "budget.calls of 4: all are made");
    protocol::LedgerRow replayed = row_of(5);
    replayed.replayed = true;
    budget.book(replayed);
    CHECK(budget.spent_usd() == 0);
    CHECK(budget.spent_calls() == 4);
}

TEST_CASE("thirteen calls of $0.30 on two ranks spend no more than $1", "[N27]") {
    BudgetLimits limits;
    limits.usd = 1;
    std::vector<std::string> units;
    for (int i = 0; i < 13; ++i) units.push_back("u" + std::to_string(i));
    Ranks first(limits);
    const auto ends = first.run(units);
    REQUIRE(ends.size() == 13);
    std::vector<std::string> rest;
    for (const auto& [unit, outcome] : ends) {
        if (outcome == LlmOutcome::kBudget) {
            rest.push_back(unit);
        } else {
            CHECK(outcome == LlmOutcome::kOk);
        }
    }
    CHECK(rest.size() == 10);
    CHECK(first.most_reserved <= 3);
    CHECK(first.provider->started == 3);
    CHECK(first.budget.spent_usd() == Approx(0.9));
    CHECK(first.budget.reserved() == 0);
    CHECK(first.logs[0]->rows.size() + first.logs[1]->rows.size() == 3);

    // Resumed with $2, only the rest is run, on top of what is spent.
    limits.usd = 2;
    Ranks second(limits);
    for (int i = 0; i < 3; ++i) second.budget.book(row_of(0.3));
    const auto more = second.run(rest);
    REQUIRE(more.size() == 10);
    CHECK(second.provider->started == 3);
    CHECK(second.budget.spent_usd() == Approx(1.8));
}

TEST_CASE("a wait of the server holds all calls to a model, and no budget is asked meanwhile",
          "[N17]") {
    VirtualClock clock;
    int asked = 0;
    WorkerPacer::Coordinator c;
    c.reserve = [&](const llm::Reservation&) { ++asked; };
    c.release = [](std::uint64_t) {};
    c.spent = [](const protocol::LedgerRow&) {};
    double told = 0;
    c.hold = [&](const std::string&, double seconds) { told = seconds; };
    WorkerPacer pacer(true, clock, c);
    pacer.hold("m", 75);
    CHECK(told == 75);
    pacer.hold_from_peer("m", 10);
    clock.advance(30);
    const auto admission = pacer.admit({1, "m", "p", 0.1});
    CHECK(admission.verdict == llm::Admission::Verdict::kWait);
    CHECK(admission.wait_s == 45);
    CHECK(admission.servers_wait);
    CHECK(asked == 0);
    CHECK(pacer.admit({2, "other", "p", 0.1}).wait_s < 1);
    CHECK(asked == 1);
}

TEST_CASE("a recorded run is replayed call by call, failures too, from its journals") {
    const fs::path folder =
        fs::temp_directory_path() / ("accelopt-recording-" + std::to_string(getpid()));
    fs::remove_all(folder);
    const llm::Request answered = llm::make_request("u1");
    const llm::Request failed = llm::make_request("u2");
    {
        store::JournalWriter journal((folder / "journal").string(), 1, 1);
        JournalCallLog log(journal);
        const auto row = [](const llm::Request& request, int attempt, LlmOutcome outcome) {
            protocol::LedgerRow r = row_of(0.25);
            r.unit_id = request.unit_id;
            r.attempt = attempt;
            r.outcome = outcome;
            r.request_sha256 = request.sha256();
            return r;
        };
        llm::Reply reply;
        reply.text = "an answer";
        reply.tries = {row(answered, 0, LlmOutcome::kServerError),
                       row(answered, 1, LlmOutcome::kOk)};
        for (const auto& r : reply.tries) log.record_try(answered, r);
        log.record_reply(answered, reply);
        for (int i = 0; i < 2; ++i)
            log.record_try(failed, row(failed, i, LlmOutcome::kServerError));
    }
    const auto recording = open_recording(folder.string());
    const auto one = recording->find(answered);
    REQUIRE(one);
    CHECK(one->text == "an answer");
    CHECK(one->tries.size() == 2);
    const auto two = recording->find(failed);
    REQUIRE(two);
    CHECK(two->outcome == LlmOutcome::kServerError);
    CHECK(two->tries.size() == 2);
    // A resumed run asks what failed again.
    CHECK_FALSE(JournalReplies((folder / "journal").string()).find(failed));
    llm::Request other = answered;
    other.messages[1].text = "another question";
    CHECK_FALSE(recording->find(other));
    other = answered;
    other.sample = 1;
    CHECK_FALSE(recording->find(other));
    fs::remove_all(folder);
    CHECK_THROWS_AS(open_recording(folder.string()), Error);
}
