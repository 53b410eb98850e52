#include "eval/task_check.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "core/text.h"
#include "scratch_folder.h"

using namespace accelopt;
using eval::check_task;
using eval::ReferenceStore;

namespace {

const char* kProblem = R"(id: doubled
title: a test
source: nowhere
tolerance: 2e-5
shape: {M: 256}
test_shape: {M: 128}
inputs:
  - {name: x, shape: [M, 4], distribution: normal}
  - {name: offset, value: 0.5}
outputs:
  - {name: y, shape: [M, 4]}
vector_flops: M
matmul_flops: 0
minimal_bytes: 8 * M
)";

const char* kReference =
    "def forward(x, offset):\n    return 2 * x + offset\n"
    "def scale(x, offset):\n    return abs(2 * x) + abs(offset)\n";

eval::Problem problem_with(const ScratchFolder& folder, const std::string& keys,
                           const std::string& reference) {
    folder.write("p/problem.yaml", kProblem + keys);
    folder.write("p/reference.py", reference);
    folder.write("p/baseline.py", "def kernel(x, offset):\n    return x\n");
    return eval::load_problem(folder.path() + "/p", "test");
}

eval::TaskReport report_of(const std::string& keys, const std::string& reference) {
    const ScratchFolder folder;
    ReferenceStore store("", 1 << 24);
    return check_task(problem_with(folder, keys, reference), store);
}

const std::string kConditioned = "conditioned: {constant: 8}\n";

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a sound problem: trivial answers fail, the float32 reference passes", "[X02]") {
    const eval::TaskReport report = report_of(kConditioned, kReference);
    INFO(report.complaint());
    CHECK(report.ok());
    CHECK(report.rule == "conditioned");
    CHECK(report.sets == std::vector<std::string>{"nominal"});
    std::vector<std::string> names;
    for (const auto& answer : report.answers) {
        names.push_back(answer.name);
        CHECK(answer.as_it_should);
        CHECK(answer.honest == (answer.name == "float32 reference"));
        REQUIRE(answer.error.has_value());
        CHECK((answer.honest ? *answer.error <= 8 : *answer.error > 8));
    }
    CHECK(names == std::vector<std::string>{"float32 reference", "zeros", "the mean", "copy of x",
                                            "bfloat16 inputs"});
}

TEST_CASE("a term that no input set shows makes a problem insensitive", "[X02][X14]") {
    const std::string faint =
        "def forward(x, offset):\n    return 2 * x + 1e-9 * offset\n"
        "def scale(x, offset):\n    return abs(2 * x) + 1e-9\n"
        "def without_offset(x, offset):\n    return 2 * x\n";
    const eval::TaskReport blind = report_of(kConditioned, faint);
    CHECK_FALSE(blind.ok());
    CHECK(contains(blind.complaint(), "'without offset' passes on every input set"));
    const std::string stress =
        "stress:\n  - name: large_offset\n    reason: term:offset\n"
        "    inputs: {offset: {value: 1e6}}\n";
    const eval::TaskReport seeing = report_of(kConditioned + stress, faint);
    INFO(seeing.complaint());
    CHECK(seeing.ok());
    const auto& found = std::find_if(seeing.answers.begin(), seeing.answers.end(),
                                     [](const auto& a) { return a.name == "without offset"; });
    REQUIRE(found != seeing.answers.end());
    CHECK(found->set == "large_offset");
}

TEST_CASE("a bound that honest float32 arithmetic misses is a fault of the problem") {
    const std::string tight =
        "import numpy as np\ndef forward(x, offset):\n    return (x + 1000) - 1000 + offset\n"
        "def scale(x, offset):\n    return abs(x) + abs(offset)\n";
    const eval::TaskReport report = report_of(kConditioned, tight);
    CHECK_FALSE(report.ok());
    CHECK(contains(report.complaint(), "the float32 reference fails"));
}

TEST_CASE("a tolerance larger than the outputs lets zeros pass, and is refused", "[N02]") {
    const ScratchFolder folder;
    eval::Problem problem = problem_with(folder, "", "def forward(x, offset):\n    return x\n");
    problem.tolerance = 2;  // zeros have a relative error of 1
    ReferenceStore store("", 1 << 24);
    const eval::TaskReport report = check_task(problem, store);
    CHECK(report.rule == "published");
    CHECK_FALSE(report.ok());
    CHECK(contains(report.complaint(), "'zeros'"));
}

TEST_CASE("a failing reference is a fault with its place") {
    CHECK(contains(report_of(kConditioned, "def forward(x, offset):\n    return x.none\n").fault,
                   "reference.py:2: AttributeError"));
    CHECK(contains(report_of(kConditioned, "def forward(x, offset):\n    return x\n").fault,
                   "no scale()"));
}

TEST_CASE("a report is kept per definition and read back equal") {
    const ScratchFolder folder, cache;
    const eval::Problem problem = problem_with(folder, kConditioned, kReference);
    ReferenceStore first(cache.path(), 1 << 24);
    const eval::TaskReport made = check_task(problem, first);
    // The references of a check serve it alone: the report is all that is kept.
    std::string file;
    for (const auto& entry : std::filesystem::directory_iterator(cache.path())) {
        CHECK(entry.path().extension() == ".task");
        CHECK(file.empty());
        file = entry.path();
    }
    const std::string text = read_file(file);
    ReferenceStore second(cache.path(), 1 << 24);
    const eval::TaskReport read = check_task(problem, second);
    CHECK(read.sets == made.sets);
    CHECK(read.constant == made.constant);
    REQUIRE(read.answers.size() == made.answers.size());
    for (std::size_t i = 0; i < read.answers.size(); ++i) {
        CHECK(read.answers[i].name == made.answers[i].name);
        CHECK(read.answers[i].honest == made.answers[i].honest);
        CHECK(read.answers[i].as_it_should == made.answers[i].as_it_should);
        CHECK(read.answers[i].set == made.answers[i].set);
        CHECK(*read.answers[i].error == Approx(*made.answers[i].error).epsilon(1e-12));
    }
    // A torn file is made again.
    std::ofstream(file) << "conditioned\t8\n";
    ReferenceStore third(cache.path(), 1 << 24);
    CHECK(check_task(problem, third).ok());
    CHECK(read_file(file) == text);
}
