#include "eval/reference/reference_store.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "core/error.h"
#include "core/hash.h"
#include "core/text.h"
#include "eval/reference/blas.h"
#include "eval/reference/python_reference.h"
#include "scratch_folder.h"

using namespace accelopt;
using eval::input_seed;
using eval::ReferenceStore;
namespace fs = std::filesystem;

namespace {

/// y = 2 x + offset on [rows, 8], with the reference's text free.
eval::Problem small_problem(const ScratchFolder& folder, const std::string& body,
                            std::int64_t rows = 16) {
    eval::Problem problem;
    problem.id = "small";
    problem.shape_name = "full";
    problem.sizes = {{"M", rows}};
    problem.inputs.resize(2);
    problem.inputs[0].name = "x";
    problem.inputs[0].shape = {rows, 8};
    problem.inputs[0].distribution.kind = "normal";
    problem.inputs[1].name = "offset";
    problem.inputs[1].tensor = false;
    problem.inputs[1].scalar = 0.5;
    problem.outputs = {{"y", {rows, 8}, {rows, 8}}};
    problem.reference_path = folder.write("reference.py", "import numpy as np\n" + body);
    problem.definition_sha256 = sha256_hex(body);
    return problem;
}

const std::string kDouble =
    "def forward(x, offset):\n    return np.float32(2) * x + np.float32(offset)\n";

/// The published reference of the nominal inputs drawn from `seed`.
Result<eval::Reference, std::string> get(ReferenceStore& store, const eval::Problem& problem,
                                         const std::string& seed) {
    eval::InputSet set = eval::nominal_set(problem, "", 0);
    set.seeds.assign(set.inputs.size(), seed);
    return store.get(problem, set, eval::ReferenceKind::kPublished);
}

Result<eval::Reference, std::string> get(ReferenceStore&& store, const eval::Problem& problem,
                                         const std::string& seed) {
    return get(store, problem, seed);
}

std::vector<fs::path> files_in(const std::string& folder) {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    return files;
}

std::string fault_of(const std::string& body) {
    const ScratchFolder folder;
    ReferenceStore store("", 1 << 20);
    const auto result = get(store, small_problem(folder, body), input_seed("s", "small", 0));
    REQUIRE_FALSE(result.ok());
    return result.error();
}

}  // namespace

TEST_CASE("a reference holds normal inputs and what forward makes of them") {
    const ScratchFolder folder;
    const eval::Problem problem = small_problem(folder, kDouble, 4096);
    ReferenceStore store("", 1 << 24);
    const auto data = get(store, problem, input_seed("secret", "small", 0)).value();
    REQUIRE(data.inputs() == 1);
    const auto x = data.input(0);
    const auto y = data.output(0).value;
    REQUIRE(x.size() == 4096 * 8);
    double sum = 0, squares = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
        CHECK_FALSE(y[i] != 2 * x[i] + 0.5f);
        sum += x[i];
        squares += static_cast<double>(x[i]) * x[i];
    }
    CHECK(std::abs(sum / static_cast<double>(x.size())) < 0.03);
    CHECK(squares / static_cast<double>(x.size()) == Approx(1).epsilon(0.05));
}

TEST_CASE("distributions and scales are applied") {
    const ScratchFolder folder;
    eval::Problem problem = small_problem(folder, kDouble, 512);
    const std::string seed = input_seed("secret", "small", 0);
    ReferenceStore store("", 1 << 24);
    const auto normal = get(store, problem, seed).value();
    problem.inputs[0].distribution.kind = "abs_normal";
    problem.inputs[0].distribution.scale = 0.25;
    problem.definition_sha256 = "other";
    const auto folded = get(store, problem, seed).value();
    for (std::size_t i = 0; i < normal.input(0).size(); ++i) {
        CHECK_FALSE(folded.input(0)[i] != 0.25f * std::abs(normal.input(0)[i]));
    }
}

TEST_CASE("seeds depend on secret, problem and index, and repeat") {
    const std::string seed = input_seed("a", "silu", 0);
    CHECK(seed == input_seed("a", "silu", 0));
    CHECK(seed != input_seed("b", "silu", 0));
    CHECK(seed != input_seed("a", "adamw", 0));
    CHECK(seed != input_seed("a", "silu", 1));
    CHECK(input_seed("as", "ilu", 0) != input_seed("a", "silu", 0));

    const ScratchFolder folder;
    const eval::Problem problem = small_problem(folder, kDouble);
    ReferenceStore first("", 1 << 20), second("", 1 << 20);
    const auto a = get(first, problem, seed).value();
    const auto b = get(second, problem, seed).value();
    const auto other = get(second, problem, input_seed("a", "silu", 1)).value();
    CHECK(std::equal(a.input(0).begin(), a.input(0).end(), b.input(0).begin()));
    CHECK_FALSE(std::equal(a.input(0).begin(), a.input(0).end(), other.input(0).begin()));
}

TEST_CASE("a failing reference is reported with the place and the last line") {
    CHECK(fault_of("def forward(x, offset):\n    return x[:, 99]\n")
              .find("reference.py:3: IndexError: index 99 is out of bounds") == 0);
    CHECK(fault_of("def forward(x, offset):\n    x[0, 0] = 1\n    return x\n").find("read-only") !=
          std::string::npos);
    CHECK(fault_of("def forward(x, offset)\n").find("SyntaxError") != std::string::npos);
    CHECK(fault_of("def backward(x):\n    return x\n").find("forward") != std::string::npos);
    CHECK(fault_of("def forward(x):\n    return x\n").find("TypeError") != std::string::npos);
    CHECK(fault_of("def forward(x, offset):\n    return x.astype(np.float64)\n") ==
          "output 'y' has dtype float64, expected float32");
    CHECK(fault_of("def forward(x, offset):\n    return x[:3]\n") ==
          "output 'y' has shape (3, 8), expected (16, 8)");
    CHECK(fault_of("def forward(x, offset):\n    return x, x\n") ==
          "returned 2 arrays, expected 1");
    CHECK(fault_of("def forward(x, offset):\n    return 'x'\n").find("dtype") != std::string::npos);
    CHECK(fault_of("def forward(x, offset):\n    raise SystemExit(3)\n").find("SystemExit") !=
          std::string::npos);
}

TEST_CASE("a cache folder serves the next process, keeps no secret and belongs to its owner") {
    const ScratchFolder folder, cache;
    const eval::Problem problem = small_problem(folder, kDouble);
    const std::string seed = input_seed("very secret words", "small", 0);
    ReferenceStore first(cache.path() + "/made/here", 1 << 20);
    const auto a = get(first, problem, seed).value();
    CHECK(first.computed() == 1);
    const auto files = files_in(cache.path() + "/made/here");
    REQUIRE(files.size() == 2);  // the input and the result
    for (const fs::path& file : files) {
        struct stat status {};
        REQUIRE(stat(file.c_str(), &status) == 0);
        CHECK((status.st_mode & 0777) == 0600);
        const std::string bytes = read_file(file);
        CHECK(bytes.find("very secret") == std::string::npos);
        CHECK(bytes.find(seed) == std::string::npos);
        CHECK(file.string().find(seed.substr(0, 8)) == std::string::npos);
    }

    ReferenceStore second(cache.path() + "/made/here", 1 << 20);
    const auto b = get(second, problem, seed).value();
    CHECK(second.computed() == 0);
    CHECK(second.loaded() == 1);
    CHECK(
        std::equal(a.output(0).value.begin(), a.output(0).value.end(), b.output(0).value.begin()));
    (void)get(second, problem, seed).value();
    CHECK(second.loaded() == 1);  // warm
}

TEST_CASE("what defines a reference names its file") {
    const ScratchFolder folder, cache;
    const std::string seed = input_seed("s", "small", 0);
    ReferenceStore store(cache.path(), 1 << 20);
    (void)get(store, small_problem(folder, kDouble), seed).value();
    (void)get(store, small_problem(folder, kDouble, 32), seed).value();
    (void)get(store, small_problem(folder, kDouble + "# changed\n"), seed).value();
    (void)get(store, small_problem(folder, kDouble), input_seed("s", "small", 1)).value();
    CHECK(store.computed() == 4);
    // An input does not depend on what the reference makes of it.
    CHECK(files_in(cache.path()).size() == 4 + 3);
}

TEST_CASE("torn, rotten and foreign cache files are recomputed") {
    const ScratchFolder folder, cache;
    const eval::Problem problem = small_problem(folder, kDouble);
    const std::string seed = input_seed("s", "small", 0);
    (void)get(ReferenceStore(cache.path(), 1 << 20), problem, seed).value();
    const fs::path file = files_in(cache.path()).at(0);
    const std::string good = read_file(file);

    const auto recomputed_after = [&](const std::string& bytes) {
        {
            std::ofstream out(file, std::ios::binary | std::ios::trunc);
            out << bytes;
        }
        ReferenceStore store(cache.path(), 1 << 20);
        (void)get(store, problem, seed).value();
        const bool repaired = read_file(file) == good;
        return store.computed() == 1 && repaired;
    };
    CHECK(recomputed_after(good.substr(0, good.size() / 2)));
    CHECK(recomputed_after(""));
    CHECK(recomputed_after(std::string(good.size(), '\0')));
    for (const std::size_t at : {std::size_t{3}, std::size_t{20}, std::size_t{40}, std::size_t{90},
                                 std::size_t{4096}, std::size_t{4096 + 511}, good.size() - 4096}) {
        std::string flipped = good;
        flipped[at] = static_cast<char>(flipped[at] ^ 4);
        INFO("byte " << at);
        CHECK(recomputed_after(flipped));
    }
    CHECK_FALSE(recomputed_after(good));
}

TEST_CASE("the least recently used files make room") {
    const ScratchFolder folder, cache;
    const eval::Problem problem = small_problem(folder, kDouble, 512);  // 2 x (16 + 4) KiB
    const auto seed = [](int k) { return input_seed("s", "small", k); };
    const std::int64_t bound = 90 << 10;  // two references
    const auto set_age = [&](const fs::path& file, int hours) {
        fs::last_write_time(file, fs::file_time_type::clock::now() - std::chrono::hours(hours));
    };
    (void)get(ReferenceStore(cache.path(), bound), problem, seed(0)).value();
    const auto first = files_in(cache.path());
    REQUIRE(first.size() == 2);
    for (const fs::path& file : first) set_age(file, 5);
    (void)get(ReferenceStore(cache.path(), bound), problem, seed(1)).value();
    REQUIRE(files_in(cache.path()).size() == 4);
    for (const fs::path& file : files_in(cache.path())) {
        if (file != first[0] && file != first[1]) set_age(file, 3);
    }
    (void)get(ReferenceStore(cache.path(), bound), problem, seed(0)).value();  // used again
    (void)get(ReferenceStore(cache.path(), bound), problem, seed(2)).value();
    CHECK(files_in(cache.path()).size() == 4);
    for (const fs::path& file : first) CHECK(fs::exists(file));
}

TEST_CASE("a reference larger than the bound, or than the disk, is kept in memory") {
    const ScratchFolder folder, cache;
    const eval::Problem problem = small_problem(folder, kDouble, 512);
    ReferenceStore store(cache.path(), 1000);
    CHECK(get(store, problem, input_seed("s", "small", 0)).ok());
    CHECK(files_in(cache.path()).empty());
}

TEST_CASE("left-overs of killed processes are cleared once they are old") {
    const ScratchFolder folder, cache;
    const std::string old_part = cache.write("small-x.99.part", "torn");
    const std::string new_part = cache.write("small-y.98.part", "in work");
    fs::last_write_time(old_part, fs::file_time_type::clock::now() - std::chrono::hours(3));
    (void)get(ReferenceStore(cache.path(), 1 << 20), small_problem(folder, kDouble),
              input_seed("s", "small", 0))
        .value();
    CHECK_FALSE(fs::exists(old_part));
    CHECK(fs::exists(new_part));
}

TEST_CASE("two processes that want one reference compute it once") {
    const ScratchFolder folder, cache;
    // The reference leaves a mark per computation and takes its time.
    const std::string marks = cache.path() + "-marks";
    fs::create_directories(marks);
    const eval::Problem problem =
        small_problem(folder,
                      "import os, time, tempfile\ndef forward(x, offset):\n"
                      "    os.close(tempfile.mkstemp(dir='" +
                          marks +
                          "')[0])\n"
                          "    time.sleep(0.3)\n    return x\n");
    const std::string seed = input_seed("s", "small", 0);
    std::vector<pid_t> children;
    for (int i = 0; i < 3; ++i) {
        const pid_t child = fork();
        if (child == 0) {
            ReferenceStore store(cache.path(), 1 << 20);
            const bool good = get(store, problem, seed).ok();
            _exit(good && store.computed() + store.loaded() == 1 ? 0 : 1);
        }
        children.push_back(child);
    }
    for (const pid_t child : children) {
        int status = -1;
        REQUIRE(waitpid(child, &status, 0) == child);
        CHECK(status == 0);
    }
    CHECK(files_in(marks).size() == 1);
    CHECK(files_in(cache.path()).size() == 2);  // neither locks nor parts remain
    fs::remove_all(marks);
}

TEST_CASE("a process killed while computing blocks nobody") {
    const ScratchFolder slow_folder, quick_folder, cache;
    const eval::Problem slow = small_problem(
        slow_folder, "import time\ndef forward(x, offset):\n    time.sleep(60)\n    return x\n");
    eval::Problem quick = small_problem(quick_folder, kDouble);
    quick.definition_sha256 = slow.definition_sha256;  // the same key
    const std::string seed = input_seed("s", "small", 0);
    const pid_t child = fork();
    if (child == 0) {
        (void)get(ReferenceStore(cache.path(), 1 << 20), slow, seed);
        _exit(0);
    }
    const auto has_part = [&] {
        for (const fs::path& file : files_in(cache.path())) {
            if (file.extension() == ".part") return true;
        }
        return false;
    };
    for (int i = 0; i < 2000 && !has_part(); ++i) usleep(5000);
    CHECK(has_part());
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    ReferenceStore store(cache.path(), 1 << 20);
    CHECK(get(store, quick, seed).ok());
    CHECK(store.computed() == 1);
}

TEST_CASE("a cache folder that cannot be made is a configuration error") {
    const ScratchFolder folder;
    const std::string file = folder.write("file", "");
    CHECK_THROWS_AS(ReferenceStore(file + "/cache", 1 << 20), Error);
}

TEST_CASE("references are read-only once made") {
    const ScratchFolder folder, cache;
    const eval::Problem problem = small_problem(folder, kDouble);
    for (const std::string& directory : {std::string(), cache.path()}) {
        ReferenceStore store(directory, 1 << 20);
        const auto data = get(store, problem, input_seed("s", "small", 0)).value();
        const pid_t child = fork();
        if (child == 0) {
            signal(SIGSEGV, SIG_DFL);
            const_cast<float&>(data.input(0)[0]) = 1;
            _exit(0);
        }
        int status = 0;
        waitpid(child, &status, 0);
        CHECK(WIFSIGNALED(status));
    }
}

TEST_CASE("the BLAS choice is probed and fits the processor") {
    const eval::BlasChoice& choice = eval::choose_blas();
    INFO(choice.core_type << " " << choice.source << ": " << choice.note);
    CHECK(choice.probed);
    if (choice.source == "processor") {
        const auto candidates = eval::blas_candidates();
        CHECK(std::find(candidates.begin(), candidates.end(),
                        std::string(getenv("OPENBLAS_CORETYPE"))) != candidates.end());
    }
    CHECK(eval::reference_identity().find("numpy ") == 0);
}

namespace {

eval::Reference conditioned(const eval::Problem& problem, const eval::InputSet& set) {
    ReferenceStore store("", 1 << 24);
    return store.get(problem, set, eval::ReferenceKind::kConditioned).value();
}

const std::string kThird =
    "def forward(x, offset):\n    return x / 3 + offset\n"
    "def scale(x, offset):\n    return np.abs(x) / 3 + abs(offset)\n"
    "def without_offset(x, offset):\n    return x / 3\n";

}  // namespace

TEST_CASE("a conditioned reference holds float64 results and a scale never too small") {
    const ScratchFolder folder;
    const eval::Problem problem = small_problem(folder, kThird, 1024);
    const eval::Reference reference = conditioned(problem, eval::nominal_set(problem, "s", 0));
    const eval::ExpectedOutput y = reference.output(0);
    REQUIRE(y.value.size() == 1024 * 8);
    double worst = 0, worst_scale = 0;
    for (std::size_t i = 0; i < y.value.size(); ++i) {
        const double x = reference.input(0)[i];
        const double s = std::abs(x) / 3 + 0.5;
        worst = std::max(worst, std::abs(y.reference(i) - (x / 3 + 0.5)) / s);
        CHECK_FALSE(y.scale_at(i) < s);
        worst_scale = std::max(worst_scale, y.scale_at(i) / s);
    }
    CHECK(worst < std::pow(2.0, -32));
    CHECK(worst_scale < 1 + std::pow(2.0, -7));
}

TEST_CASE("sets that replace one input share the others, and variants leave a term out") {
    const ScratchFolder folder, cache;
    eval::Problem problem = small_problem(folder, kThird);
    eval::StressSet stress;
    stress.name = "no offset";
    stress.inputs = problem.inputs;
    stress.inputs[1].scalar = 4;
    stress.replaced = {false, true};
    ReferenceStore store(cache.path(), 1 << 24);
    const auto kind = eval::ReferenceKind::kConditioned;
    const auto nominal = store.get(problem, eval::nominal_set(problem, "s", 0), kind).value();
    const auto changed = store.get(problem, eval::stress_set(problem, "s", stress), kind).value();
    CHECK(files_in(cache.path()).size() == 3);
    CHECK(nominal.input(0).data() == changed.input(0).data());
    CHECK(changed.output(0).reference(3) ==
          Approx(nominal.output(0).reference(3) + 3.5).epsilon(1e-9));
    const auto without =
        store.get_variant(problem, eval::nominal_set(problem, "s", 0), "without_offset").value();
    CHECK(without.output(0).reference(3) ==
          Approx(nominal.output(0).reference(3) - 0.5).epsilon(1e-9));
    CHECK(without.output(0).scale_at(3) == nominal.output(0).scale_at(3));
}

TEST_CASE("a scale that cannot bound anything is the reference's fault") {
    const ScratchFolder folder;
    const auto fault = [&](const std::string& body) {
        const eval::Problem problem = small_problem(folder, body);
        ReferenceStore store("", 1 << 20);
        const auto result = store.get(problem, eval::nominal_set(problem, "s", 0),
                                      eval::ReferenceKind::kConditioned);
        return result.ok() ? "" : result.error();
    };
    const std::string forward = "def forward(x, offset):\n    return x + offset\n";
    CHECK(fault(forward).find("no scale()") != std::string::npos);
    CHECK(fault(forward + "def scale(x, offset):\n    return 0 * x\n").find("scale() is 0") !=
          std::string::npos);
    CHECK(fault(forward + "def scale(x, offset):\n    return x * np.inf\n") != "");
    CHECK(fault(forward + "def scale(x, offset):\n    return -abs(x)\n") != "");
    CHECK(fault(forward + "def scale(x, offset):\n    return x[:2]\n").find("shape") !=
          std::string::npos);
    CHECK(fault("def forward(x, offset):\n    return np.float32(x)\n")
              .find("dtype float32, expected float64") != std::string::npos);
}

TEST_CASE("published inputs are drawn by numpy's older generator in argument order") {
    const ScratchFolder folder;
    eval::Problem problem = small_problem(folder, kDouble);
    problem.inputs.insert(problem.inputs.begin() + 1, problem.inputs[0]);
    problem.inputs[1].name = "z";
    problem.inputs[1].distribution.kind = "abs_normal";
    const eval::InputSet set = eval::published_set(problem, 42);
    std::vector<float> x(16 * 8), z(16 * 8);
    eval::draw_input(set, 0, x);
    eval::draw_input(set, 1, z);
    // numpy.random.seed(42), then normal(size=(16, 8)) twice; figures printed by numpy 1.24.
    CHECK(x[0] == Approx(0.49671415));
    CHECK(x[1] == Approx(-0.1382643));
    CHECK(x[127] == Approx(-0.56629773));
    CHECK(z[0] == Approx(0.09965137));
    CHECK(z[1] == Approx(0.50347566));
}
