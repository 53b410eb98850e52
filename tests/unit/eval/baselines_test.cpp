#include <catch2/catch.hpp>

#include "core/text.h"
#include "eval/evaluator.h"
#include "eval/problem.h"

using namespace accelopt;
using protocol::EvaluationReply;
using protocol::EvaluationRequest;
using protocol::Outcome;

namespace {

EvaluationReply evaluate_baseline(const std::string& id, const std::string& shape,
                                  const std::vector<std::string>& tiers,
                                  const std::vector<int>& seeds = {0, 1}) {
    static eval::Evaluator evaluator({});
    EvaluationRequest request;
    request.id = id;
    request.problem = id;
    request.source = eval::load_problem(id, shape).baseline_source;
    request.shape = shape;
    request.tiers = tiers;
    request.seeds = seeds;
    request.secret = "baselines";
    return evaluator.evaluate(request);
}

std::string explain(const EvaluationReply& reply) {
    std::string text = std::string(to_string(reply.outcome)) + "/" + reply.reason;
    for (const auto& diagnostic : reply.diagnostics) {
        text += "\n" + render(diagnostic, "baseline.py");
    }
    return text;
}

}  // namespace

TEST_CASE("every baseline is verified at its test shape", "[slow]") {
    for (const std::string& id : eval::shipped_problems()) {
        const EvaluationReply reply =
            evaluate_baseline(id, "test", {"legality", "timing", "values"});
        INFO(id << ": " << explain(reply));
        CHECK(reply.outcome == Outcome::kOk);
        CHECK(reply.verified());
        REQUIRE(reply.correctness.size() == 2);
        for (const auto& row : reply.correctness) {
            CHECK(row.ok);
            REQUIRE(row.rel_l2.has_value());
            // An honest float32 kernel is far from the tolerance; a scan adds up rounding over
            // time.
            CHECK(*row.rel_l2 < (id == "mamba" ? 5e-6 : 2e-6));
        }
        CHECK_FALSE(reply.measured.has_value());
        REQUIRE(reply.profile.has_value());
        CHECK(reply.profile->latency.value_or(0) > reply.profile->lower_bound_ms.value_or(1e9));
    }
}

TEST_CASE("two evaluations of one kernel agree to the bit") {
    const auto tiers = {std::string("legality"), std::string("timing"), std::string("values")};
    EvaluationReply a = evaluate_baseline("rmsnorm_matmul", "test", tiers);
    EvaluationReply b = evaluate_baseline("rmsnorm_matmul", "test", tiers);
    a.cost = b.cost = {};
    CHECK(to_json(a) == to_json(b));
}

namespace {

/// What a baseline of the published tile structure does as written, counted on the published
/// kernels (NKIBench/kernels of AccelOpt's repository), which stay outside this repository.
struct AsWritten {
    const char* problem;
    std::int64_t hbm_read_bytes;
    std::int64_t hbm_write_bytes;
    std::int64_t hardware_flops;
    std::int64_t transpose_flops;
    std::int64_t scratch_bytes;  ///< stores to the kernel's own HBM scratch, which the device's
                                 ///< profiler counts as spills
};

constexpr AsWritten kAsWritten[] = {
    {"adamw", 358612992, 89653248, 0, 0, 0},
    {"add_rmsnorm_matmul", 302059520, 33554432, 42949935104, 8589934592, 0},
    {"bmm", 83951616, 1073741824, 77309411328, 8589934592, 0},
    {"bmm_softmax", 83951616, 1073741824, 77309411328, 8589934592, 0},
    {"gqa_full", 67174400, 33554432, 418759311360, 143881404416, 0},
    {"lora", 1357447168, 201326592, 1232655613952, 165356240896, 0},
    {"mamba", 236732416, 7340032, 117440512, 0, 0},
    {"matmul", 1258356736, 201326592, 1159641169920, 128849018880, 0},
    {"matmul_add_rmsnorm", 604053504, 33554432, 85899870208, 17179869184, 0},
    {"rmsnorm_matmul", 67174400, 33554432, 36507222016, 2147483648, 0},
    {"rope_single_freq_apply", 268435456, 134217728, 0, 0, 0},
    {"silu", 117440512, 117440512, 0, 0, 0},
    {"swiglu", 188809216, 67108864, 167503724544, 12884901888, 50331648},
    {"transpose_matmul", 392167424, 179306496, 377957122048, 0, 0},
};

std::int64_t count(const std::optional<std::int64_t>& figure) { return figure.value_or(0); }

}  // namespace

TEST_CASE("baselines as written move and compute what the published kernels do") {
    CHECK(std::size(kAsWritten) == eval::shipped_problems().size());
    for (const AsWritten& expected : kAsWritten) {
        const std::string id = expected.problem;
        const EvaluationReply reply = evaluate_baseline(id, "full", {"legality", "timing"});
        INFO(id << ": " << explain(reply));
        REQUIRE(reply.outcome == Outcome::kOk);
        REQUIRE(reply.as_written.has_value());
        REQUIRE(reply.profile.has_value());
        REQUIRE(reply.measured.has_value());
        const protocol::Profile& written = *reply.as_written;
        CHECK(written.hbm_read_bytes == expected.hbm_read_bytes);
        CHECK(written.hbm_write_bytes == expected.hbm_write_bytes);
        CHECK(count(written.hardware_flops) == expected.hardware_flops);
        CHECK(count(written.transpose_flops) == expected.transpose_flops);

        // What neuron-profile measured on Trainium 1, apart from what the compiler adds (spills)
        // and removes (repeated loads and transposes).
        const protocol::Profile& measured = *reply.measured;
        CHECK(expected.hbm_write_bytes - expected.scratch_bytes ==
              count(measured.hbm_write_bytes) - count(measured.spill_save_bytes));
        CHECK(expected.hardware_flops - expected.transpose_flops ==
              count(measured.hardware_flops) - count(measured.transpose_flops));
        CHECK(expected.transpose_flops >= count(measured.transpose_flops));
        CHECK(reply.profile->latency.value_or(0) == Approx(*measured.latency).epsilon(0.25));
        CHECK(reply.profile->percent_of_peak.value_or(0) > 0.1);
    }
}

TEST_CASE("a measurement is shown beside its own baseline only") {
    eval::Evaluator evaluator({});
    EvaluationRequest request;
    request.problem = "silu";
    request.tiers = {"legality", "timing"};
    request.source = eval::load_problem("silu", "full").baseline_source;
    // Comments, layout and local names are not part of a kernel's identity; a constant is.
    const std::string renamed = join(split(request.source, '\n'), "  # a remark\n");
    request.source = renamed;
    CHECK(evaluator.evaluate(request).measured.has_value());
    const std::size_t at = request.source.find("width = 512");
    REQUIRE(at != std::string::npos);
    request.source.replace(at, 11, "width = 256");
    const EvaluationReply changed = evaluator.evaluate(request);
    CHECK(changed.outcome == Outcome::kOk);
    CHECK_FALSE(changed.measured.has_value());
}
