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

std::vector<fs::path> files_in(const std::string& folder) {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    return files;
}

std::string fault_of(const std::string& body) {
    const ScratchFolder folder;
    ReferenceStore store("", 1 << 20);
    const auto result = store.get(small_problem(folder, body), input_seed("s", "small", 0));
    REQUIRE_FALSE(result.ok());
    return result.error();
}

}  // namespace

TEST_CASE("a reference holds normal inputs and what forward makes of them") {
    const ScratchFolder folder;
    const eval::Problem problem = small_problem(folder, kDouble, 4096);
    ReferenceStore store("", 1 << 24);
    const auto data = store.get(problem, input_seed("secret", "small", 0)).value();
    REQUIRE(data->arrays() == 2);
    const auto x = data->array(0);
    const auto y = data->array(1);
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
    const auto normal = store.get(problem, seed).value();
    problem.inputs[0].distribution.kind = "abs_normal";
    problem.inputs[0].distribution.scale = 0.25;
    problem.definition_sha256 = "other";
    const auto folded = store.get(problem, seed).value();
    for (std::size_t i = 0; i < normal->array(0).size(); ++i) {
        CHECK_FALSE(folded->array(0)[i] != 0.25f * std::abs(normal->array(0)[i]));
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
    const auto a = first.get(problem, seed).value();
    const auto b = second.get(problem, seed).value();
    const auto other = second.get(problem, input_seed("a", "silu", 1)).value();
    CHECK(std::equal(a->array(0).begin(), a->array(0).end(), b->array(0).begin()));
    CHECK_FALSE(std::equal(a->array(0).begin(), a->array(0).end(), other->array(0).begin()));
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
    const auto a = first.get(problem, seed).value();
    CHECK(first.computed() == 1);
    const auto files = files_in(cache.path() + "/made/here");
    REQUIRE(files.size() == 1);
    struct stat status {};
    REQUIRE(stat(files[0].c_str(), &status) == 0);
    CHECK((status.st_mode & 0777) == 0600);
    const std::string bytes = read_file(files[0]);
    CHECK(bytes.find("very secret") == std::string::npos);
    CHECK(bytes.find(seed) == std::string::npos);
    CHECK(files[0].string().find(seed.substr(0, 8)) == std::string::npos);

    ReferenceStore second(cache.path() + "/made/here", 1 << 20);
    const auto b = second.get(problem, seed).value();
    CHECK(second.computed() == 0);
    CHECK(second.loaded() == 1);
    CHECK(std::equal(a->array(1).begin(), a->array(1).end(), b->array(1).begin()));
    (void)second.get(problem, seed).value();
    CHECK(second.loaded() == 1);  // warm
}

TEST_CASE("what defines a reference names its file") {
    const ScratchFolder folder, cache;
    const std::string seed = input_seed("s", "small", 0);
    ReferenceStore store(cache.path(), 1 << 20);
    (void)store.get(small_problem(folder, kDouble), seed).value();
    (void)store.get(small_problem(folder, kDouble, 32), seed).value();
    (void)store.get(small_problem(folder, kDouble + "# changed\n"), seed).value();
    (void)store.get(small_problem(folder, kDouble), input_seed("s", "small", 1)).value();
    CHECK(store.computed() == 4);
    CHECK(files_in(cache.path()).size() == 4);
}

TEST_CASE("torn, rotten and foreign cache files are recomputed") {
    const ScratchFolder folder, cache;
    const eval::Problem problem = small_problem(folder, kDouble);
    const std::string seed = input_seed("s", "small", 0);
    (void)ReferenceStore(cache.path(), 1 << 20).get(problem, seed).value();
    const fs::path file = files_in(cache.path()).at(0);
    const std::string good = read_file(file);

    const auto recomputed_after = [&](const std::string& bytes) {
        {
            std::ofstream out(file, std::ios::binary | std::ios::trunc);
            out << bytes;
        }
        ReferenceStore store(cache.path(), 1 << 20);
        (void)store.get(problem, seed).value();
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
    const eval::Problem problem = small_problem(folder, kDouble, 512);  // 2 x 16 KiB and a header
    const auto seed = [](int k) { return input_seed("s", "small", k); };
    const std::int64_t bound = 100 << 10;  // two files
    const auto set_age = [&](const fs::path& file, int hours) {
        fs::last_write_time(file, fs::file_time_type::clock::now() - std::chrono::hours(hours));
    };
    (void)ReferenceStore(cache.path(), bound).get(problem, seed(0)).value();
    const fs::path first = files_in(cache.path()).at(0);
    set_age(first, 5);
    (void)ReferenceStore(cache.path(), bound).get(problem, seed(1)).value();
    REQUIRE(files_in(cache.path()).size() == 2);
    for (const fs::path& file : files_in(cache.path())) {
        if (file != first) set_age(file, 3);
    }
    (void)ReferenceStore(cache.path(), bound).get(problem, seed(0)).value();  // used again
    (void)ReferenceStore(cache.path(), bound).get(problem, seed(2)).value();
    CHECK(files_in(cache.path()).size() == 2);
    CHECK(fs::exists(first));
}

TEST_CASE("a reference larger than the bound, or than the disk, is kept in memory") {
    const ScratchFolder folder, cache;
    const eval::Problem problem = small_problem(folder, kDouble, 512);
    ReferenceStore store(cache.path(), 1000);
    CHECK(store.get(problem, input_seed("s", "small", 0)).ok());
    CHECK(files_in(cache.path()).empty());
}

TEST_CASE("left-overs of killed processes are cleared once they are old") {
    const ScratchFolder folder, cache;
    const std::string old_part = cache.write("small-x.99.part", "torn");
    const std::string new_part = cache.write("small-y.98.part", "in work");
    fs::last_write_time(old_part, fs::file_time_type::clock::now() - std::chrono::hours(3));
    (void)ReferenceStore(cache.path(), 1 << 20)
        .get(small_problem(folder, kDouble), input_seed("s", "small", 0))
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
            const bool good = store.get(problem, seed).ok();
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
    CHECK(files_in(cache.path()).size() == 1);  // neither locks nor parts remain
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
        (void)ReferenceStore(cache.path(), 1 << 20).get(slow, seed);
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
    CHECK(store.get(quick, seed).ok());
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
        const auto data = store.get(problem, input_seed("s", "small", 0)).value();
        const pid_t child = fork();
        if (child == 0) {
            signal(SIGSEGV, SIG_DFL);
            const_cast<float&>(data->array(0)[0]) = 1;
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
