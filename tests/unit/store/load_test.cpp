#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "core/error.h"
#include "store/archive.h"
#include "store/journal.h"
#include "unit/store/sample_run.h"
#include "unit/store/temporary_folder.h"

using accelopt::Error;
using namespace accelopt::store;
using namespace accelopt::store::testing;
using accelopt::protocol::Role;
using accelopt::protocol::UnitResult;

namespace {

UnitResult result_of(const std::string& unit, std::int64_t lease) {
    UnitResult result;
    result.unit_id = unit;
    result.problem = "silu";
    result.lease = lease;
    return result;
}

std::string round_json(int number, const std::string& title) {
    RoundRow round;
    round.problem = "silu";
    round.round = number;
    round.memory.resize(1);
    round.memory[0].title = title;
    return to_json(round);
}

}  // namespace

TEST_CASE("A run is read back as it was journalled") {
    TemporaryFolder folder;
    const RunData written = sample_run();
    journal_run(written, folder.path());
    std::ofstream(folder.path() + "/resolved.yaml") << "run: {seed: 1}\n";
    const RunData run = load_run(folder.path());
    CHECK(run.directory == folder.path());
    CHECK(run.resolved_config == "run: {seed: 1}\n");
    CHECK(run.version == "0.1.0");
    CHECK(run.launches == 1);
    CHECK(run.exit_code == 0);
    REQUIRE(run.units.size() == written.units.size());
    CHECK(run.units[0].unit_id == "adamw-base");
    CHECK(run.units[2].unit_id == "silu-base");
    CHECK(run.units[3].unit_id == "silu-r0-0");
    CHECK(run.ledger.size() == written.ledger.size());
    REQUIRE(run.rounds.size() == 3);
    CHECK(run.rounds[2].problem == "silu");
    CHECK(run.rounds[2].round == 1);
    CHECK(to_json(run.rounds[1]) == to_json(written.rounds[1]));
    REQUIRE(run.events.size() == 1);
    CHECK(run.events[0].text == "a calm day");
}

TEST_CASE("A folder without journals is not a run") {
    TemporaryFolder folder;
    for (const std::string& path : {folder.path(), folder.path() + "/missing"}) {
        try {
            load_run(path);
            FAIL("accepted");
        } catch (const Error& error) {
            CHECK(error.code() == "not_a_run");
            CHECK(error.source() == accelopt::ErrorSource::kUser);
        }
    }
}

TEST_CASE("The last accepted result and the last round win, and only the coordinator's count",
          "[N38]") {
    TemporaryFolder folder;
    const std::string journal = folder.path() + "/journal";
    {
        JournalWriter first(journal, 0, 0);
        first.append(RecordType::kUnitResult, to_json(result_of("u1", 1)));
        first.append(RecordType::kUnitResult, to_json(result_of("u1", 2)));
        first.append(RecordType::kRound, round_json(0, "early"));
        first.append(RecordType::kRunEnd, R"({"exit_code": 6})");
        JournalWriter worker(journal, 1, 0);
        worker.append(RecordType::kUnitResult, to_json(result_of("u2", 3)));
        worker.append(RecordType::kRound, round_json(0, "not the coordinator's"));
        JournalWriter second(journal, 0, 1);
        second.append(RecordType::kUnitResult, to_json(result_of("u1", 4)));
        second.append(RecordType::kRound, round_json(0, "late"));
    }
    const RunData run = load_run(folder.path());
    REQUIRE(run.units.size() == 1);
    CHECK(run.units[0].lease == 4);
    REQUIRE(run.rounds.size() == 1);
    CHECK(run.rounds[0].memory.at(0).title == "late");
    CHECK(run.launches == 2);
    CHECK_FALSE(run.exit_code.has_value());  // the last launch never ended
}

TEST_CASE("Every try is in the ledger once, those of dead launches and other ranks included") {
    TemporaryFolder folder;
    const std::string journal = folder.path() + "/journal";
    const auto planner = to_json(ledger_row("u1", Role::kPlanner, 0, 0.25));
    const auto executor = to_json(ledger_row("u1", Role::kExecutor, 0, 0.5));
    {
        JournalWriter(journal, 0, 0).append(RecordType::kEvent, R"({"kind": "start"})");
        JournalWriter dead(journal, 1, 0);
        dead.append(RecordType::kLlmTry, executor);
        dead.append(RecordType::kLlmTry, planner);
        dead.append(RecordType::kLlmTry, planner);
        JournalWriter(journal, 1, 1).append(RecordType::kLlmTry, planner);
    }
    const RunData run = load_run(folder.path());
    REQUIRE(run.ledger.size() == 3);
    CHECK(run.ledger[0].role == Role::kPlanner);
    CHECK(run.ledger[1].role == Role::kPlanner);
    CHECK(run.ledger[2].role == Role::kExecutor);
}

TEST_CASE("A truncated payload loses that unit only, and the loss is an event", "[N38]") {
    TemporaryFolder folder;
    const std::string path = [&] {
        JournalWriter writer(folder.path() + "/journal", 0, 0);
        writer.append(RecordType::kUnitResult, to_json(result_of("u1", 1)));
        writer.append(RecordType::kUnitResult, to_json(result_of("u2", 2)));
        return writer.path();
    }();
    std::filesystem::resize_file(path, std::filesystem::file_size(path) - 3);
    const RunData run = load_run(folder.path());
    REQUIRE(run.units.size() == 1);
    CHECK(run.units[0].unit_id == "u1");
    REQUIRE(run.events.size() == 1);
    CHECK(run.events[0].kind == "journal_torn");
}

TEST_CASE("A record that is whole but makes no sense names its file") {
    TemporaryFolder folder;
    JournalWriter writer(folder.path() + "/journal", 0, 0);
    SECTION("a result") { writer.append(RecordType::kUnitResult, "not json"); }
    SECTION("a round") { writer.append(RecordType::kRound, R"({"round": "x"})"); }
    SECTION("an end") { writer.append(RecordType::kRunEnd, R"({})"); }
    CHECK_THROWS_WITH(load_run(folder.path()), Catch::Contains(writer.path()));
}

TEST_CASE("Records of a later version are passed over") {
    TemporaryFolder folder;
    JournalWriter writer(folder.path() + "/journal", 0, 0);
    writer.append(static_cast<RecordType>(900), "whatever");
    writer.append(RecordType::kUnitResult, to_json(result_of("u1", 1)));
    CHECK(load_run(folder.path()).units.size() == 1);
}

TEST_CASE("A round survives its JSON, broken text included") {
    RoundRow round = sample_run().rounds.at(1);
    round.rewrites.at(0).plan_text = "caf\xe9 \xff";
    const RoundRow back = parse_round(to_json(round));
    CHECK(back.problem == "silu");
    CHECK(back.selected.size() == 1);
    CHECK(back.memory.size() == 1);
    CHECK(back.rewrites.size() == 2);
    REQUIRE(back.baseline.has_value());
    CHECK(back.baseline->id == "silu-base");
    CHECK(back.rewrites[1].samples[0].duplicate_of == round.rewrites[1].samples[0].duplicate_of);
    CHECK(to_json(back) == to_json(parse_round(to_json(back))));
    CHECK_THROWS_AS(parse_round("[]"), Error);
    CHECK_THROWS_AS(parse_round("{"), Error);
}
