#include "eval/problem.h"

#include <catch2/catch.hpp>
#include <numeric>

#include "core/error.h"
#include "eval/bounds.h"
#include "eval/evaluator.h"
#include "scratch_folder.h"

using namespace accelopt;
using eval::load_problem;

namespace {

const char* kGood = R"(id: tiny
title: a test
source: nowhere
tolerance: 2e-5
shape: {M: 256, N: 8}
test_shape: {M: 128, N: 4}
inputs:
  - {name: x, shape: [M, N], kernel_shape: [128, M // 128, N], distribution: normal, scale: 0.05}
  - {name: eps, value: 1e-5}
outputs:
  - {name: y, shape: [M, N]}
vector_flops: 3 * M * N
matmul_flops: 0
minimal_bytes: 4 * 2 * M * N
)";

/// A problem folder whose problem.yaml has `from` replaced by `to`.
std::string write_problem(const ScratchFolder& folder, const std::string& from = "",
                          const std::string& to = "") {
    std::string text = kGood;
    if (!from.empty()) {
        const std::size_t at = text.find(from);
        REQUIRE(at != std::string::npos);
        text.replace(at, from.size(), to);
    }
    folder.write("tiny/problem.yaml", text);
    folder.write("tiny/reference.py", "def forward(x, eps):\n    return x\n");
    folder.write("tiny/baseline.py", "def kernel(x, eps):\n    return x\n");
    return folder.path() + "/tiny";
}

std::string load_fault(const std::string& from, const std::string& to) {
    const ScratchFolder folder;
    const std::string path = write_problem(folder, from, to);
    try {
        load_problem(path, "full");
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

std::int64_t count(const std::vector<std::int64_t>& shape) {
    return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("all shipped problems load at both shapes") {
    const std::vector<std::string> ids = eval::shipped_problems();
    CHECK(ids == std::vector<std::string>{
                     "adamw", "add_rmsnorm_matmul", "bmm", "bmm_softmax", "gqa_full", "lora",
                     "mamba", "matmul", "matmul_add_rmsnorm", "rmsnorm_matmul",
                     "rope_single_freq_apply", "silu", "swiglu", "transpose_matmul"});
    for (const std::string& id : ids) {
        for (const char* shape : {"full", "test"}) {
            const eval::Problem problem = load_problem(id, shape);
            CHECK(problem.id == id);
            CHECK(problem.kernel_arguments().size() == problem.inputs.size());
            for (const auto& input : problem.inputs) {
                CHECK(count(input.shape) == count(input.kernel_shape));
            }
            CHECK(problem.minimal_bytes > 0);
            CHECK_FALSE(problem.baseline_source.empty());
        }
        CHECK(load_problem(id, "test").minimal_bytes < load_problem(id, "full").minimal_bytes / 2);
    }
}

TEST_CASE("the template is a complete problem, and none of the shipped ones") {
    const std::string folder = std::string(ACCELOPT_SOURCE_DIR) + "/nkibench/template";
    eval::Evaluator evaluator({});
    for (const char* shape : {"full", "test"}) {
        const eval::Problem problem = load_problem(folder, shape);
        protocol::EvaluationRequest request;
        request.problem = folder;
        request.shape = shape;
        request.seeds = {0};
        request.source = problem.baseline_source;
        const auto reply = evaluator.evaluate(request);
        INFO(to_json(reply));
        CHECK(reply.verified());
        CHECK(problem.conditioned_constant.has_value());
        CHECK(problem.stress.size() >= 3);
    }
}

// AccelOpt, figure 7: peak-model times on Trainium 1 in ms. Its table prints the vector peak as
// 286.8 GFLOPS, while the figure was made with 2 x 128 x 1.12 GHz = 286.72.
TEST_CASE("the peak model reproduces the published peak times") {
    const trainium::Machine machine = eval::load_machine("trn1");
    const std::pair<const char*, double> published[] = {{"rope_single_freq_apply", 0.9146},
                                                        {"mamba", 0.8192},
                                                        {"gqa_full", 5.7869},
                                                        {"bmm_softmax", 4.6811},
                                                        {"silu", 0.5335},
                                                        {"adamw", 1.0182},
                                                        {"matmul_add_rmsnorm", 1.4467},
                                                        {"bmm", 2.5152},
                                                        {"add_rmsnorm_matmul", 0.7234},
                                                        {"matmul", 21.7009},
                                                        {"rmsnorm_matmul", 0.7234},
                                                        {"lora", 22.4695},
                                                        {"swiglu", 3.2551},
                                                        {"transpose_matmul", 7.7309}};
    for (const auto& [id, peak_ms] : published) {
        const eval::Problem problem = load_problem(id, "full");
        INFO(id);
        CHECK(eval::peak_model_ms(problem, machine) == Approx(peak_ms).epsilon(4e-4));
        CHECK(eval::lower_bound_ms(problem, machine) <=
              eval::peak_model_ms(problem, machine) * (1 + 1e-12));
        CHECK(eval::lower_bound_ms(problem, machine) >=
              1e3 * problem.minimal_bytes / machine.peak_hbm_bytes_per_s * (1 - 1e-12));
    }
}

TEST_CASE("a problem folder loads by path with its formulas evaluated") {
    const ScratchFolder folder;
    const eval::Problem problem = load_problem(write_problem(folder), "full");
    CHECK(problem.inputs[0].kernel_shape == std::vector<std::int64_t>{128, 2, 8});
    CHECK(problem.inputs[0].distribution.scale == 0.05);
    CHECK_FALSE(problem.inputs[1].tensor);
    CHECK(problem.inputs[1].scalar == 1e-5);
    CHECK(problem.outputs[0].kernel_shape == problem.outputs[0].shape);
    CHECK(problem.vector_flops == 3 * 256 * 8);
    const eval::Problem small = load_problem(folder.path() + "/tiny/problem.yaml", "test");
    CHECK(small.vector_flops == 3 * 128 * 4);
    CHECK(small.definition_sha256 == problem.definition_sha256);
}

TEST_CASE("unknown problems and shapes are the user's error, with a suggestion") {
    for (const char* id : {"slu", "", "..", "Silu"}) {
        try {
            load_problem(id, "full");
            FAIL("loaded " << id);
        } catch (const Error& error) {
            CHECK(error.code() == "unknown_problem");
            CHECK(error.source() == ErrorSource::kUser);
        }
    }
    CHECK_THROWS_WITH(load_problem("slu", "full"), Catch::Contains("did you mean 'silu'?"));
    CHECK_THROWS_WITH(load_problem("/nowhere/x", "full"), Catch::Contains("/nowhere/x"));
    CHECK_THROWS_WITH(load_problem("silu", "huge"), Catch::Contains("'full' and 'test'"));
}

TEST_CASE("a faulty problem.yaml is reported with file and line") {
    const std::string unknown_size = load_fault("3 * M * N", "3 * M * Q");
    CHECK(contains(unknown_size, "problem.yaml:12"));
    CHECK(contains(unknown_size, "unknown size 'Q'"));
    const std::string mismatch = load_fault("[128, M // 128, N]", "[128, M // 128]");
    CHECK(contains(mismatch, "problem.yaml:8"));
    CHECK(contains(mismatch, "256 elements, but shape holds 2048"));
    CHECK(contains(load_fault("[128, M // 128, N]", "[128, M // 512, N]"), "must be positive"));
    CHECK(contains(load_fault("shape: [M, N], kernel", "shape: [M ** 4, N], kernel"), "elements"));
    CHECK(contains(load_fault("distribution: normal", "distribution: norml"), "normal"));
    CHECK(contains(load_fault("title:", "titel:"), "problem.yaml"));
    CHECK(contains(load_fault("test_shape: {M: 128, N: 4}", "test_shape: {M: 128}"),
                   "must name the same sizes"));
    CHECK(contains(load_fault("M: 256", "M: -256"), "must be positive"));
    CHECK(contains(load_fault("tolerance: 2e-5", "tolerance: 0"), "must be positive"));
    CHECK(contains(load_fault("source: nowhere", "sources: nowhere"), "source"));
    CHECK(contains(load_fault("{name: y, shape: [M, N]}", "{name: y, shape: [M, N], extra: 1}"),
                   "extra"));
}

TEST_CASE("conditioned, stress and shapes are read with every distribution") {
    const ScratchFolder folder;
    const std::string path = write_problem(folder, "inputs:\n", R"(conditioned:
  constant: 16
stress:
  - name: late_spike
    constant: 64
    inputs:
      x: {distribution: spikes, axis: -1, at: -3, value: 100}
  - {name: minor, reason: "term:eps", inputs: {eps: {value: 0.1}}}
  - name: needles
    reason: needle
    inputs:
      x: {distribution: needle, axis: 1, value: 50, background: 0.5, scale: 2}
      eps: {value: 0}
shapes:
  - {M: 384, N: 9}
inputs:
)");
    const eval::Problem problem = load_problem(path, "full");
    CHECK(problem.conditioned_constant == 16.0);
    REQUIRE(problem.stress.size() == 3);
    const eval::StressSet& spike = problem.stress[0];
    CHECK(spike.reason == "value");
    CHECK(spike.constant == 64.0);
    CHECK(spike.inputs[0].distribution.axis == 1);
    CHECK(spike.inputs[0].distribution.at == 5);
    CHECK(spike.replaced == std::vector<bool>{true, false});
    CHECK(problem.stress[1].reason == "term:eps");
    CHECK(problem.stress[1].inputs[1].scalar == 0.1);
    CHECK(problem.stress[1].inputs[0].distribution.kind == "normal");
    CHECK(problem.stress[2].replaced == std::vector<bool>{true, true});
    CHECK(load_problem(path, "test").stress[0].inputs[0].distribution.at == 1);
    REQUIRE(problem.shapes.size() == 1);
    const eval::Problem further = eval::load_problem_at(path, problem.shapes[0]);
    CHECK(further.inputs[0].shape == std::vector<std::int64_t>{384, 9});
    CHECK(further.shape_name == "M=384, N=9");
    CHECK_THROWS_WITH(eval::load_problem_at(path, {{"M", 3}}), Catch::Contains("M, N"));
}

TEST_CASE("a faulty stress set is reported with file and line") {
    const auto fault = [](const std::string& sets) {
        return load_fault("inputs:\n", "stress:\n" + sets + "inputs:\n");
    };
    const std::string head = "  - name: a\n    inputs: {x: ";
    CHECK(contains(fault(head + "{distribution: spikes, axis: 1, at: -3}}\n"), "value"));
    CHECK(contains(fault(head + "{distribution: spikes, axis: 2, at: 0, value: 1}}\n"),
                   "2 dimensions"));
    CHECK(contains(fault(head + "{distribution: impulse, axis: 1, at: 8, value: 1, "
                                "background: 1}}\n"),
                   "8 elements"));
    CHECK(contains(fault(head + "{distribution: normal, low: 1}}\n"), "low"));
    CHECK(contains(fault(head + "{distribution: uniform, low: 1, high: 1}}\n"), "larger"));
    CHECK(contains(fault(head + "{distribution: integers, low: 0.5, high: 1}}\n"), "whole"));
    CHECK(contains(fault(head + "{distribution: spiky}}\n"), "spikes"));
    CHECK(contains(fault("  - {name: a, inputs: {}}\n"), "at least one"));
    CHECK(contains(fault("  - {name: a, inputs: {xs: {value: 1}}}\n"), "did you mean 'x'"));
    CHECK(contains(fault("  - {name: nominal, inputs: {eps: {value: 1}}}\n"), "name of its own"));
    CHECK(contains(fault("  - {name: a, reason: term, inputs: {eps: {value: 1}}}\n"), "needle"));
    CHECK(contains(fault("  - {name: a, constant: 0, inputs: {eps: {value: 1}}}\n"), "1 to 1e6"));
    CHECK(contains(fault("  - {name: a, inputs: {eps: {value: 1}}}\n"
                         "  - {name: a, inputs: {eps: {value: 2}}}\n"),
                   "name of its own"));
    CHECK(contains(load_fault("inputs:\n", "shapes: [{M: 3}]\ninputs:\n"), "same sizes"));
    CHECK(contains(load_fault("inputs:\n", "conditioned: {constat: 3}\ninputs:\n"), "constant"));
}
