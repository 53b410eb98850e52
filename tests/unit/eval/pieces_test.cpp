#include "eval/reference/pieces.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "core/error.h"
#include "eval/reference/python_reference.h"
#include "eval/reference/reference_store.h"
#include "eval/task_check.h"
#include "scratch_folder.h"

using namespace accelopt;
using eval::PiecePlan;

namespace {

const char* const kProblem = R"(id: scans
title: a test
source: nowhere
tolerance: 2e-5
shape: {M: 4096, N: 24}
test_shape: {M: 40, N: 24}
inputs:
  - {name: x, shape: [M, N], distribution: normal}
  - {name: w, shape: [N], distribution: normal}
  - {name: s, value: 2}
outputs:
  - {name: y, shape: [M, N]}
vector_flops: M
matmul_flops: 0
minimal_bytes: 8 * M
conditioned: {constant: 16}
)";

/// Sums along rows: columns depend on each other, rows do not.
const char* const kReference = R"(import numpy as np

def forward(x, w, s):
    return np.cumsum(x, axis=1) * w * s

def scale(x, w, s):
    return np.cumsum(np.abs(x), axis=1) * np.abs(w * s)
)";

eval::Problem problem_with(const ScratchFolder& folder, const std::string& blocks,
                           const std::string& reference = kReference) {
    folder.write("p/problem.yaml", kProblem + blocks + "\n");
    folder.write("p/reference.py", reference);
    folder.write("p/baseline.py", "def kernel(x, w, s):\n    return x\n");
    return eval::load_problem(folder.path() + "/p", "test");
}

std::string refusal(const std::string& blocks) {
    const ScratchFolder folder;
    try {
        problem_with(folder, blocks);
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

/// forward in float64 as one piece: row-major values per output.
std::vector<std::vector<double>> whole(const eval::Problem& problem, const eval::InputSet& set,
                                       const std::vector<std::span<const float>>& tensors) {
    std::vector<std::vector<double>> values(problem.outputs.size());
    const auto fault = call_reference(problem, "forward", eval::Precision::kFloat64, set, tensors,
                                      [&](std::size_t i, const eval::ReferenceValues& made) {
                                          values[i].assign(made.wide.begin(), made.wide.end());
                                      });
    REQUIRE_FALSE(fault);
    return values;
}

}  // namespace

TEST_CASE("pieces cover every axis once, in order and without a gap") {
    const ScratchFolder folder;
    for (const char* blocks : {"blocks: {x: 0, y: 0}", "blocks: {x: 1, w: 0, y: 1}"}) {
        const eval::Problem problem = problem_with(folder, blocks);
        const PiecePlan plan(problem);
        CHECK(plan.pieces() == 8);
        for (const std::int64_t extent : {std::int64_t{40}, std::int64_t{24}}) {
            if (extent % problem.blocks->units != 0) continue;
            std::int64_t next = 0;
            for (std::int64_t i = 0; i < plan.pieces(); ++i) {
                const eval::PieceRange range = plan.range(i, extent);
                CHECK(range.first == next);
                CHECK(range.count > 0);
                next = range.first + range.count;
            }
            CHECK(next == extent);
        }
    }
    CHECK(PiecePlan(problem_with(folder, "")).pieces() == 1);
}

TEST_CASE("axes of different extents are cut in step, and a large problem into small pieces") {
    const eval::Problem gqa = eval::load_problem("gqa_full", "full");
    const PiecePlan plan(gqa);
    REQUIRE(plan.pieces() == 8);  // key heads
    CHECK(plan.range(3, 16).first == 6);
    CHECK(plan.range(3, 16).count == 2);
    CHECK(plan.range(3, 8).first == 3);
    CHECK(plan.range(3, 8).count == 1);
    CHECK(plan.output_axis(0) == 1);
    const eval::Problem silu = eval::load_problem("silu", "full");
    CHECK(PiecePlan(silu).range(0, 4096).count * 2 * 7168 * 8 <= std::int64_t{64} << 20);
}

TEST_CASE("runs of a piece go where they belong") {
    // A [2, 6, 3] array, indices 2 and 3 of its middle axis.
    std::vector<std::vector<std::size_t>> runs;
    eval::for_each_run({2, 6, 3}, 1, {2, 2}, [&](std::size_t from, std::size_t to, std::size_t n) {
        runs.push_back({from, to, n});
    });
    CHECK(runs == std::vector<std::vector<std::size_t>>{{0, 6, 6}, {6, 24, 6}});
}

TEST_CASE("references in pieces are those of the whole, for all shipped problems") {
    for (const std::string& id : eval::shipped_problems()) {
        const eval::Problem problem = eval::load_problem(id, "test");
        INFO(id);
        REQUIRE(problem.blocks.has_value());
        CHECK(PiecePlan(problem).pieces() >= 2);
        eval::ReferenceStore store("", 1 << 30);
        const eval::InputSet set = eval::nominal_set(problem, "pieces", 0);
        const auto made = store.get(problem, set, eval::ReferenceKind::kConditioned);
        REQUIRE(made.ok());
        std::vector<std::span<const float>> tensors;
        for (std::size_t i = 0; i < made->inputs(); ++i) tensors.push_back(made->input(i));
        const auto expected = whole(problem, set, tensors);
        for (std::size_t o = 0; o < expected.size(); ++o) {
            const eval::ExpectedOutput output = made->output(o);
            std::size_t wrong = 0;
            for (std::size_t i = 0; i < expected[o].size(); ++i) {
                // 2^-32: how exactly a reference is stored.
                const double allowed = 0x1p-32 * output.scale_at(i);
                if (!(std::abs(output.reference(i) - expected[o][i]) <= allowed)) ++wrong;
            }
            CHECK(wrong == 0);
        }
    }
}

TEST_CASE("a wrong declaration of pieces is found when the problem is checked", "[X02]") {
    const ScratchFolder folder;
    eval::ReferenceStore store("", 1 << 26);
    const auto rows = check_task(problem_with(folder, "blocks: {x: 0, y: 0}"), store);
    INFO(rows.complaint());
    CHECK(rows.ok());
    const auto columns = check_task(problem_with(folder, "blocks: {x: 1, w: 0, y: 1}"), store);
    CHECK(contains(columns.complaint(), "the float32 reference fails on input set 'nominal'"));
}

TEST_CASE("blocks must name tensors and axes that exist, and cut every output") {
    CHECK(contains(refusal("blocks: {x: 2, y: 0}"), "axis of the tensor: 0 to 1"));
    CHECK(contains(refusal("blocks: {x: -1, y: 0}"), "axis of the tensor"));
    CHECK(contains(refusal("blocks: {s: 0, y: 0}"), "is no tensor"));
    CHECK(contains(refusal("blocks: {x: 0}"), "cut every output; 'y' is missing"));
    CHECK(contains(refusal("blocks: {y: 0}"), "at least one input"));
    CHECK(contains(refusal("blocks: {x: 0, y: 0, v: 0}"), "v"));
}

TEST_CASE("faults of a piece name the function, the shape of the piece and the element") {
    const ScratchFolder folder;
    eval::ReferenceStore store("", 1 << 26);
    const auto fault = [&](const std::string& reference) {
        const eval::Problem problem = problem_with(folder, "blocks: {x: 0, y: 0}", reference);
        const auto made = store.get(problem, eval::nominal_set(problem, "", 0),
                                    eval::ReferenceKind::kConditioned);
        return made ? "" : made.error();
    };
    const std::string scale = "def scale(x, w, s):\n    return abs(x) + 1\n";
    CHECK(contains(fault("def forward(x, w, s):\n    return x[:1]\n" + scale),
                   "forward(): output 'y' has shape (1, 24), expected (5, 24)"));
    CHECK(
        contains(fault("def forward(x, w, s):\n    x *= 2\n    return x\n" + scale), "read-only"));
    CHECK(contains(fault("def forward(x, w, s):\n    return x\n"),
                   "scale(): the file defines no scale()"));
    CHECK(contains(fault("def forward(x, w, s):\n    return x\n"
                         "def scale(x, w, s):\n    return 0 * x\n"),
                   "scale() is 0 at element 0,"));
}
