#include "eval/evaluator.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "core/text.h"
#include "eval/problem.h"
#include "scratch_folder.h"

using namespace accelopt;
using protocol::EvaluationReply;
using protocol::EvaluationRequest;
using protocol::Outcome;

namespace {

const std::string kHead =
    "import neuronxcc.nki as nki\nimport neuronxcc.nki.language as nl\n\n@nki.jit\n"
    "def kernel(x):\n";

/// A kernel for silu's arguments with this body.
std::string silu_kernel(const std::string& body) {
    return kHead + "    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)\n" + body;
}

EvaluationRequest silu_request(const std::string& source) {
    EvaluationRequest request;
    request.id = "t";
    request.problem = "silu";
    request.shape = "test";
    request.source = source;
    request.secret = "s";
    request.seeds = {0};
    return request;
}

EvaluationReply evaluate(const EvaluationRequest& request) {
    static eval::Evaluator evaluator({});
    return evaluator.evaluate(request);
}

EvaluationReply evaluate(const std::string& source) { return evaluate(silu_request(source)); }

void check_ends(const EvaluationReply& reply, Outcome outcome, const std::string& reason) {
    INFO(to_json(reply));
    CHECK(reply.outcome == outcome);
    CHECK(reply.reason == reason);
    CHECK_FALSE(reply.verified());
    REQUIRE(reply.diagnostics.size() == 1);
    CHECK_FALSE(reply.diagnostics[0].message.empty());
    CHECK_FALSE(reply.diagnostics[0].code.empty());
}

}  // namespace

TEST_CASE("a syntax error comes back with its line and snippet") {
    const EvaluationReply reply = evaluate(kHead + "    return x[\n");
    INFO(to_json(reply));
    CHECK(reply.outcome == Outcome::kSyntaxError);
    CHECK_FALSE(reply.reason.empty());
    REQUIRE(reply.diagnostics.size() == 1);
    CHECK(reply.diagnostics[0].line == 6);
    CHECK(reply.diagnostics[0].snippet.find("return x[") != std::string::npos);
    CHECK(evaluate("").outcome != Outcome::kOk);
    CHECK(evaluate(std::string("\0\xff", 2)).outcome == Outcome::kSyntaxError);
}

TEST_CASE("an endless loop ends at the step budget, the same way every time") {
    EvaluationRequest request =
        silu_request(silu_kernel("    i = 0\n    while True:\n        i = i + 1\n    return y\n"));
    request.limits.steps = 100000;
    const EvaluationReply reply = evaluate(request);
    check_ends(reply, Outcome::kResourceLimit, "steps");
    CHECK(evaluate(request).diagnostics[0].message == reply.diagnostics[0].message);
}

TEST_CASE("a ten gigabyte allocation is refused, not attempted") {
    const EvaluationReply hbm =
        evaluate(silu_kernel("    big = nl.ndarray((50000, 50000), dtype=nl.float32, "
                             "buffer=nl.private_hbm)\n    return y\n"));
    check_ends(hbm, Outcome::kResourceLimit, "memory");
    const EvaluationReply tile = evaluate(
        silu_kernel("    big = nl.ndarray((nl.par_dim(128), 20000000), dtype=nl.float32, "
                    "buffer=nl.sbuf)\n    big[...] = nl.zeros((nl.par_dim(128), 20000000), "
                    "dtype=nl.float32, buffer=nl.sbuf)\n    return y\n"));
    INFO(to_json(tile));
    const bool refused =
        tile.outcome == Outcome::kRejected || tile.outcome == Outcome::kResourceLimit;
    CHECK(refused);
}

TEST_CASE("a kernel reaches no file, no import and no Python object") {
    for (const char* body : {"    open('/etc/passwd')\n", "    import os\n    os.listdir('/')\n",
                             "    __import__('os')\n", "    eval('1')\n",
                             "    x.__class__.__mro__\n", "    exec('y = 1')\n"}) {
        INFO(body);
        const EvaluationReply reply = evaluate(silu_kernel(std::string(body) + "    return y\n"));
        INFO(to_json(reply));
        const bool refused =
            reply.outcome == Outcome::kUnsupported || reply.outcome == Outcome::kRejected;
        CHECK(refused);
    }
}

TEST_CASE("the precision ban is the published rule's") {
    const std::string source = silu_kernel(
        "    t = nl.ndarray((128, 8), dtype=nl.bfloat16, buffer=nl.sbuf)\n"
        "    return y\n");
    EvaluationRequest request = silu_request(source);
    CHECK(evaluate(request).reason != "precision_ban");
    request.rule = "published";
    const EvaluationReply reply = evaluate(request);
    check_ends(reply, Outcome::kRejected, "precision_ban");
    CHECK(reply.diagnostics[0].line == 7);
    CHECK(reply.diagnostics[0].snippet.find("nl.bfloat16") != std::string::npos);
}

TEST_CASE("what a kernel returns is checked before it is run") {
    const EvaluationReply alias = evaluate(kHead + "    return x\n");
    INFO(to_json(alias));
    CHECK(alias.outcome == Outcome::kRejected);
    const EvaluationReply unwritten = evaluate(silu_kernel("    return y\n"));
    check_ends(unwritten, Outcome::kRejected, "tensor_output_not_written_to");
}

TEST_CASE("tiers stop where the request says") {
    const std::string source = eval::load_problem("silu", "test").baseline_source;
    EvaluationRequest request = silu_request(source);
    request.tiers = {"legality"};
    const EvaluationReply legality = evaluate(request);
    CHECK(legality.outcome == Outcome::kOk);
    CHECK(legality.tier == "legality");
    CHECK_FALSE(legality.verified());
    CHECK_FALSE(legality.profile.has_value());

    request.tiers = {"legality", "timing"};
    const EvaluationReply timing = evaluate(request);
    CHECK(timing.tier == "timing");
    CHECK(timing.profile.has_value());
    CHECK_FALSE(timing.verified());
    CHECK(timing.correctness.empty());

    request.tiers = {"legality", "values"};
    const EvaluationReply values = evaluate(request);
    CHECK(values.verified());
    CHECK_FALSE(values.profile.has_value());
    CHECK(values.machine.find("trn1@") == 0);
    CHECK(values.cost.steps > 0);
    std::vector<std::string> parts;
    for (const auto& [part, seconds] : values.cost.parts) {
        parts.push_back(part);
        CHECK(seconds >= 0);
    }
    CHECK(parts == std::vector<std::string>{"parse", "trace", "legality", "tier_legality", "task",
                                            "reference", "values", "verify", "tier_values"});

    request.tiers = {"legality", "seed"};
    request.seeds = {4, 5};
    const EvaluationReply seed = evaluate(request);
    CHECK(seed.outcome == Outcome::kOk);
    CHECK(seed.tier == "seed");
    CHECK_FALSE(seed.verified());
    CHECK(seed.correctness.size() == 1);

    request.tiers = {"stress", "values", "seed", "timing", "legality"};  // order is ours
    const EvaluationReply all = evaluate(request);
    INFO(to_json(all));
    CHECK(all.verified());
    CHECK(all.tier == "stress");
    CHECK(all.rule == "conditioned");
    const auto& sets = eval::load_problem("silu", "test").stress;
    REQUIRE(all.correctness.size() == 2 + sets.size());
    CHECK(all.correctness[1].input == "nominal");
    for (std::size_t i = 0; i < sets.size(); ++i) {
        CHECK(all.correctness[2 + i].input == sets[i].name);
        CHECK(all.correctness[2 + i].rule == "conditioned");
        CHECK(all.correctness[2 + i].max_conditioned.value_or(1e9) <= 8);
    }
}

TEST_CASE("values stop at the first failing input set") {
    std::string source = eval::load_problem("silu", "test").baseline_source;
    const std::size_t at = source.find("scale=-1.0");
    source.replace(at, 10, "scale=-2.0");
    EvaluationRequest request = silu_request(source);
    request.seeds = {3, 1, 2};
    const EvaluationReply reply = evaluate(request);
    check_ends(reply, Outcome::kIncorrect, "value");
    REQUIRE(reply.correctness.size() == 1);
    CHECK(reply.correctness[0].seed == 3);
    CHECK_FALSE(reply.correctness[0].ok);
    CHECK(reply.correctness[0].rel_l2.value_or(0) > 2e-5);
    CHECK(reply.profile.has_value());
}

TEST_CASE("NaN outputs are incorrect for their own reason") {
    std::string source = eval::load_problem("silu", "test").baseline_source;
    const std::size_t at = source.find("op=nl.exp");
    source.replace(at, 9, "op=nl.log");
    check_ends(evaluate(silu_request(source)), Outcome::kIncorrect, "nonfinite");
}

TEST_CASE("a request that asks wrongly is the asker's fault") {
    const std::string source = eval::load_problem("silu", "test").baseline_source;
    const auto with = [&](auto change) {
        EvaluationRequest request = silu_request(source);
        change(request);
        return evaluate(request);
    };
    const auto bad = [](const EvaluationReply& reply) {
        check_ends(reply, Outcome::kEvaluatorError, "bad_request");
        return reply.diagnostics[0].message;
    };
    CHECK(bad(with([](auto& r) { r.problem = "slu"; })).find("did you mean 'silu'") !=
          std::string::npos);
    CHECK(bad(with([](auto& r) { r.target = "trn9"; })).find("trn9") != std::string::npos);
    CHECK(bad(with([](auto& r) { r.target = "../trn1"; })).find("../trn1") != std::string::npos);
    CHECK(bad(with([](auto& r) { r.rule = "kind"; })).find("kind") != std::string::npos);
    CHECK(bad(with([](auto& r) { r.seed_rule = "mine"; })).find("mine") != std::string::npos);
    CHECK(bad(with([](auto& r) { r.tiers = {"valves"}; })).find("valves") != std::string::npos);
    bad(with([](auto& r) { r.tiers.clear(); }));
    bad(with([](auto& r) { r.seeds.clear(); }));
    bad(with([](auto& r) { r.shape = "huge"; }));
    bad(with([](auto& r) { r.limits.steps = 0; }));
}

TEST_CASE("a faulty reference is the evaluator's failure, not the kernel's") {
    const ScratchFolder folder;
    const std::string silu = eval::load_problem("silu", "test").folder;
    folder.write("p/problem.yaml", read_file(silu + "/problem.yaml"));
    folder.write("p/baseline.py", read_file(silu + "/baseline.py"));
    folder.write("p/reference.py", "def forward(x):\n    return x.nothing\n");
    EvaluationRequest request = silu_request(read_file(silu + "/baseline.py"));
    request.problem = folder.path() + "/p";
    const EvaluationReply reply = evaluate(request);
    check_ends(reply, Outcome::kEvaluatorError, "reference_failed");
    CHECK(reply.tier == "timing");
    CHECK(reply.diagnostics[0].message.find("reference.py:2: AttributeError") != std::string::npos);
}

TEST_CASE("Trainium 2 is a target like any other") {
    const trainium::Machine machine = eval::load_machine("trn2");
    CHECK(machine.name == "trn2");
    CHECK(machine.core_version == 3);
    const std::string baseline = eval::load_problem("silu", "test").baseline_source;
    EvaluationRequest request = silu_request(baseline);
    const EvaluationReply first = evaluate(request);
    request.target = "trn2";
    const EvaluationReply reply = evaluate(request);
    INFO(to_json(reply));
    CHECK(reply.outcome == Outcome::kOk);
    CHECK(reply.target == "trn2");
    CHECK(reply.machine.find("trn2@") == 0);
    REQUIRE(reply.profile.has_value());
    CHECK(reply.profile->latency != first.profile->latency);
    CHECK(reply.profile->percent_of_peak.has_value());
    // The generation decides what the language refuses.
    const std::string asks = silu_kernel(
        "    assert nisa.get_nc_version() == nisa.nc_version.gen3\n"
        "    return y\n");
    request.source = "import neuronxcc.nki.isa as nisa\n" + asks;
    CHECK(evaluate(request).reason == "tensor_output_not_written_to");
    request.target = "trn1";
    CHECK(evaluate(request).reason != "tensor_output_not_written_to");
}

TEST_CASE("a machine description is read strictly") {
    const trainium::Machine machine = eval::load_machine("trn1");
    CHECK(machine.name == "trn1");
    CHECK(machine.partitions == 128);
    CHECK(machine.hash.size() == 12);

    const ScratchFolder folder;
    const std::string text = read_file(ACCELOPT_SOURCE_DIR "/configs/hardware/trn1.yaml");
    const auto load = [&](const std::string& changed) {
        return eval::load_machine(folder.write("m.yaml", changed));
    };
    CHECK(load(text).hash == machine.hash);
    CHECK_THROWS_WITH(load(text + "\nextra_key: 1\n"), Catch::Contains("extra_key"));
    const std::size_t at = text.find("tensor_ghz: 2.8");
    REQUIRE(at != std::string::npos);
    std::string missing = text, negative = text;
    missing.replace(at, 15, "");
    negative.replace(at, 15, "tensor_ghz: -2.8");
    CHECK_THROWS_WITH(load(missing), Catch::Contains("tensor_ghz"));
    CHECK_THROWS_WITH(load(negative), Catch::Contains("tensor_ghz"));
}

TEST_CASE("a latency below what physics allows is implausible") {
    // A machine whose memory is slower in the bound than in the simulation: an inconsistent
    // description, as a fault of the timing model would look.
    const ScratchFolder folder;
    std::string text = read_file(ACCELOPT_SOURCE_DIR "/configs/hardware/trn1.yaml");
    const std::string key = "peak_hbm_bytes_per_s: 440.2e9";
    const std::size_t at = text.find(key);
    REQUIRE(at != std::string::npos);
    text.replace(at, key.size(), "peak_hbm_bytes_per_s: 1.0e9");
    EvaluationRequest request = silu_request(eval::load_problem("silu", "test").baseline_source);
    request.target = folder.write("slow.yaml", text);
    const EvaluationReply reply = evaluate(request);
    check_ends(reply, Outcome::kImplausible, "below_bound");
    CHECK(reply.tier == "timing");
    CHECK(reply.profile.has_value());
}
