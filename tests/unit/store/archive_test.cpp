#include "store/archive.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "core/error.h"
#include "core/text.h"
#include "store/reader.h"
#include "unit/store/sample_run.h"
#include "unit/store/temporary_folder.h"

using namespace accelopt::store;
using namespace accelopt::store::testing;
using Texts = std::vector<std::string>;
namespace fs = std::filesystem;

TEST_CASE("run.h5 holds every table and reads back") {
    TemporaryFolder folder;
    RunData run = sample_run();
    run.directory = folder.path();
    write_run_file(run, 4);
    const std::string path = folder.path() + "/run.h5";
    CHECK(table_names(path) == Texts{"candidates", "evaluations", "events", "experience",
                                     "llm_calls", "memory", "problems", "profile_critical_path",
                                     "profile_lines", "profile_occupancy", "profile_tensors",
                                     "profiles", "runs", "units"});
    const Table candidates = read_table(path, "candidates");
    CHECK(candidates.rows() == 11);
    CHECK(candidates.texts("candidate")[0] == "adamw-base");
    CHECK(candidates.texts("status")[5] == "duplicate");
    CHECK(candidates.integers("round")[0] == -1);
    CHECK(std::isnan(candidates.numbers("latency_ms")[6]));  // no reply, no latency
    const Table evaluations = read_table(path, "evaluations");
    CHECK(evaluations.rows() == 7);
    CHECK_THAT(evaluations.texts("outcome"), Catch::VectorContains(std::string("incorrect")));
    CHECK_THAT(evaluations.texts("reason"), Catch::VectorContains(std::string("sbuf_capacity")));
    CHECK_THAT(evaluations.texts("diagnostics_json").back(), Catch::Contains("not as wanted"));
    const Table calls = read_table(path, "llm_calls");
    CHECK(calls.rows() == run.ledger.size());
    CHECK(calls.integers("cached_input_tokens")[0] == -1);
    CHECK(calls.integers("input_tokens")[0] == 1000);
    CHECK(calls.numbers("cost_usd")[0] == 0.25);
    const Table problems = read_table(path, "problems");
    CHECK(problems.texts("problem") == Texts{"adamw", "silu"});
    CHECK(problems.numbers("speedup") == std::vector<double>{1.0, 2.0});
    CHECK(read_table(path, "profiles").rows() == 6);
    CHECK(read_table(path, "experience").rows() == 1);
    CHECK(read_table(path, "memory").integers("round") == std::vector<std::int64_t>{0, 1});
    CHECK(read_table(path, "runs").texts("version") == Texts{"0.1.0"});
}

TEST_CASE("The lists of a profile are tables of their own, made from the journals too") {
    TemporaryFolder folder;
    RunData run = sample_run();
    run.directory = folder.path();
    const std::string path = folder.path() + "/run.h5";
    const auto check = [&] {
        const Table profiles = read_table(path, "profiles");
        CHECK(profiles.integers("lines_left_out")[0] == 5);
        CHECK(profiles.integers("tensors_left_out")[0] == 0);
        CHECK(profiles.numbers("critical_left_out_ms")[0] == 1.0);
        const Table lines = read_table(path, "profile_lines");
        REQUIRE(lines.rows() == 2 * profiles.rows());
        CHECK(lines.texts("candidate")[0] == "adamw-base");
        CHECK(lines.texts("candidate")[1] == "adamw-base");
        CHECK(lines.texts("kind")[0] == "predicted");
        CHECK(lines.integers("position")[1] == 1);
        CHECK(lines.integers("line")[0] == 3);
        CHECK(lines.texts("operation")[0] == "nisa.nc_matmul");
        CHECK(lines.numbers("critical_ms")[1] == 1.0);
        CHECK(read_table(path, "profile_critical_path").texts("cause")[0] == "end");
        const Table tensors = read_table(path, "profile_tensors");
        CHECK(tensors.texts("kind")[1] == "predicted");
        CHECK(tensors.texts("tensor_kind")[1] == "output");
        CHECK(tensors.integers("read_bytes")[0] == 8192);
        CHECK(std::isnan(tensors.numbers("reads_per_byte")[1]));
        const Table occupancy = read_table(path, "profile_occupancy");
        REQUIRE(occupancy.rows() == 2 * profiles.rows());
        CHECK(occupancy.texts("memory")[1] == "sbuf");
        CHECK(occupancy.numbers("series")[1] == 1536.0);
        CHECK(occupancy.integers("peak")[1] == 4096);
    };
    write_run_file(run, 4);
    check();
    fs::remove(path);
    journal_run(run, folder.path());
    write_run_file(load_run(folder.path()), 4);
    check();
}

TEST_CASE("A profile without detail has no rows in the tables of its lists") {
    TemporaryFolder folder;
    RunData run = sample_run();
    run.directory = folder.path();
    for (auto& unit : run.units) {
        if (unit.baseline) unit.baseline->profile->detail.reset();
    }
    write_run_file(run, 4);
    const Table profiles = read_table(folder.path() + "/run.h5", "profiles");
    CHECK(profiles.integers("lines_left_out")[0] == -1);
    CHECK(std::isnan(profiles.numbers("critical_left_out_ms")[0]));
    CHECK(read_table(folder.path() + "/run.h5", "profile_lines").texts("candidate")[0] !=
          "adamw-base");
}

TEST_CASE("A round has a file of its own with the same tables") {
    TemporaryFolder folder;
    write_round_file(folder.path(), sample_run().rounds.at(1), 4);
    const std::string path = folder.path() + "/rounds/silu-0000.h5";
    REQUIRE(fs::exists(path));
    CHECK(read_table(path, "candidates").rows() == 5);
    CHECK(read_table(path, "candidates").texts("parent")[1] == "silu-base");
    CHECK(read_table(path, "llm_calls").rows() == 6);
    CHECK(read_table(path, "memory").rows() == 1);
    CHECK(read_table(path, "experience").texts("title") == Texts{"Wider tiles"});
}

TEST_CASE("A run without any result still has a file that opens") {
    TemporaryFolder folder;
    RunData run;
    run.directory = folder.path();
    write_run_file(run, 4);
    CHECK(read_table(folder.path() + "/run.h5", "candidates").rows() == 0);
    CHECK(read_table(folder.path() + "/run.h5", "runs").rows() == 1);
}

TEST_CASE("What a killed writer left behind is removed, and the content does not vary") {
    TemporaryFolder folder;
    RunData run = sample_run();
    run.directory = folder.path();
    std::ofstream(folder.path() + "/run.h5.tmp.4711") << "half a file";
    write_run_file(run, 4);
    CHECK_FALSE(fs::exists(folder.path() + "/run.h5.tmp.4711"));
    const std::string first = accelopt::read_file(folder.path() + "/run.h5");
    write_run_file(run, 4);
    CHECK((accelopt::read_file(folder.path() + "/run.h5") == first));
    for (const auto& entry : fs::directory_iterator(folder.path())) {
        CHECK(entry.path().filename() == "run.h5");
    }
}

TEST_CASE("The analysis library reads the lists of a profile") {
    TemporaryFolder folder;
    RunData run = sample_run();
    run.directory = folder.path();
    write_run_file(run, 4);
    const std::string script = folder.path() + "/check.py";
    std::ofstream(script) << R"(
import sys
sys.path.insert(0, sys.argv[1])
from accelopt_runs import load_run, profile_list
tables = load_run(sys.argv[2])
lines = profile_list(tables, "lines", "adamw-base")
assert list(lines["line"]) == [3, 0] and list(lines["critical_ms"]) == [2.0, 1.0], lines
assert len(profile_list(tables, "tensors")) == 2 * len(tables["profiles"])
assert list(profile_list(tables, "occupancy", "adamw-base")["series"]) == [512.0, 1536.0]
assert profile_list({}, "lines").empty
)";
    const std::string command = "PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 " + script +
                                " " ACCELOPT_SOURCE_DIR "/analysis " + folder.path();
    CHECK(std::system(command.c_str()) == 0);
}

TEST_CASE("A place that cannot be written is an error with the path") {
    RunData run;
    run.directory = "/proc/no/such/place";
    CHECK_THROWS_WITH(write_run_file(run, 4), Catch::Contains("/proc/no/such/place"));
}

TEST_CASE("h5py opens run.h5 and round files", "[N33]") {
    TemporaryFolder folder;
    RunData run = sample_run();
    run.directory = folder.path();
    write_run_file(run, 4);
    write_round_file(folder.path(), run.rounds.at(2), 4);
    const std::string script = folder.path() + "/check.py";
    std::ofstream(script) << R"(
import sys, h5py
for name in ("run.h5", "rounds/silu-0001.h5"):
    with h5py.File(sys.argv[1] + "/" + name, "r") as f:
        for table in f.values():
            for column in table.values():
                n = column["offsets"].shape[0] - 1 if isinstance(column, h5py.Group) else column.shape[0]
                assert n == table.attrs["rows"], (table.name, column.name)
                if isinstance(column, h5py.Group):
                    column["bytes"][:].tobytes().decode()
)";
    CHECK(std::system(("/usr/bin/python3 " + script + " " + folder.path()).c_str()) == 0);
}

TEST_CASE("The analysis scripts summarise a finished run, and an unfinished one from its rounds") {
    TemporaryFolder folder;
    RunData run = sample_run();
    run.directory = folder.path();
    const std::string command = "cd " + folder.path() + " && PYTHONDONTWRITEBYTECODE=1 " +
                                "/usr/bin/python3 " ACCELOPT_SOURCE_DIR "/analysis/summarize.py . ";
    REQUIRE(std::system((command + "2> error").c_str()) != 0);
    CHECK_THAT(accelopt::read_file(folder.path() + "/error"), Catch::Contains("accelopt recover"));
    for (const auto& round : run.rounds) write_round_file(folder.path(), round, 4);
    REQUIRE(std::system((command + "> from_rounds").c_str()) == 0);
    CHECK_THAT(accelopt::read_file(folder.path() + "/from_rounds"), Catch::Contains("silu"));
    write_run_file(run, 4);
    REQUIRE(std::system((command + "--figure best.png > summary").c_str()) == 0);
    CHECK(accelopt::read_file(folder.path() + "/summary") ==
          "problem  baseline_ms  best_ms  speedup  evaluations  failed\n"
          "  adamw        4.000    4.000    1.000            2       0\n"
          "   silu        2.000    1.000    2.000            5       4\n"
          "geometric mean of the speed-ups: 1.414\n"
          "figure: best.png\n");
    CHECK(accelopt::read_file(folder.path() + "/best.png").substr(1, 3) == "PNG");
}
