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
                                     "llm_calls", "memory", "problems", "profiles", "runs",
                                     "units"});
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
