#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/rng.h"
#include "core/text.h"
#include "eval/evaluator.h"
#include "eval/problem.h"
#include "nki/interpreter.h"
#include "nki/syntax/parser.h"
#include "protocol/evaluation.h"
#include "trainium/completion_order.h"

// Real kernels in program order and in the order in which the timing model completes them.

namespace accelopt::eval {
namespace {

nki::Program trace(const std::string& source, const std::vector<nki::Argument>& arguments,
                   const trainium::Machine& machine) {
    const auto module = nki::parse(source);
    REQUIRE(module.ok());
    nki::TraceOptions options;
    options.limits.partitions = machine.partitions;
    options.limits.sbuf_partition_bytes = machine.sbuf_partition_bytes;
    options.limits.psum_partition_bytes = machine.psum_partition_bytes;
    options.limits.psum_bank_bytes = machine.psum_bank_bytes;
    auto traced = nki::trace(*module, arguments, options);
    INFO((traced ? "" : traced.error().message));
    REQUIRE(traced.ok());
    return std::move(traced).value();
}

/// "agree", or what the hazard says.
std::string verdict(const nki::Program& program, const trainium::Machine& machine) {
    std::vector<std::vector<float>> values;
    RandomStream random(7);
    for (const nki::Tensor& tensor : program.tensors) {
        if (tensor.argument < 0) continue;
        const auto at = static_cast<std::size_t>(tensor.argument);
        if (values.size() <= at) values.resize(at + 1);
        values[at].resize(static_cast<std::size_t>(tensor.partitions * tensor.free_elements));
        for (float& value : values[at]) value = static_cast<float>(random.uniform() * 2 - 1);
    }
    std::vector<trainium::InputArray> inputs;
    for (const auto& array : values) {
        inputs.push_back({array.data(), static_cast<std::int64_t>(array.size() * sizeof(float))});
    }
    trainium::ExecutionLimits limits;
    limits.program_order = true;
    const auto expected = trainium::execute(program, inputs, limits);
    REQUIRE(expected.ok());
    const auto hazard = trainium::find_hazard(program, trainium::compile_kernel(program, machine),
                                              inputs, limits, *expected);
    return hazard ? hazard->code + ": " + hazard->message : "agree";
}

/// The float32 arguments of a golden kernel's second line, "# args: float32[128,512] 0.5".
std::optional<std::vector<nki::Argument>> golden_arguments(const std::string& source) {
    std::istringstream lines(source);
    std::string line;
    std::getline(lines, line);
    std::getline(lines, line);
    std::istringstream words(line.substr(std::string("# args:").size()));
    std::vector<nki::Argument> arguments;
    for (std::string word; words >> word;) {
        const std::size_t bracket = word.find('[');
        if (bracket == std::string::npos) {
            if (word.find_first_not_of("-.0123456789") != std::string::npos) return std::nullopt;
            if (word.find('.') == std::string::npos) {
                arguments.emplace_back(std::int64_t{std::stoll(word)});
            } else {
                arguments.emplace_back(std::stod(word));
            }
            continue;
        }
        if (word.substr(0, bracket) != "float32") return std::nullopt;
        nki::TensorArgument argument;
        for (const auto& n : split(word.substr(bracket + 1, word.size() - bracket - 2), ',')) {
            argument.shape.push_back(std::stoll(n));
        }
        arguments.emplace_back(std::move(argument));
    }
    return arguments;
}

}  // namespace

TEST_CASE("Both executions of every baseline agree", "[two_executions]") {
    const trainium::Machine machine = load_machine("trn1");
    for (const std::string& id : shipped_problems()) {
        const Problem problem = load_problem(id, "test");
        INFO(id);
        CHECK(verdict(trace(problem.baseline_source, problem.kernel_arguments(), machine),
                      machine) == "agree");
    }
}

TEST_CASE("Tier order runs both executions after the others", "[two_executions]") {
    Evaluator evaluator({});
    protocol::EvaluationRequest request;
    request.id = "order";
    request.problem = "silu";
    request.target = "trn1";
    request.shape = "test";
    request.secret = "test";
    request.seeds = {0};
    request.source = load_problem("silu", "test").baseline_source;
    request.tiers = {"legality", "timing", "values", "order"};
    const auto reply = evaluator.evaluate(request);
    CHECK(reply.outcome == protocol::Outcome::kOk);
    CHECK(reply.tier == "order");
    CHECK(reply.verified());
    const auto& parts = reply.cost.parts;
    CHECK(std::any_of(parts.begin(), parts.end(),
                      [](const auto& part) { return part.first == "order"; }));

    // Without a comparison of values nothing is verified.
    request.tiers = {"legality", "order"};
    const auto alone = evaluator.evaluate(request);
    CHECK(alone.outcome == protocol::Outcome::kOk);
    CHECK_FALSE(alone.verified());

    // The memory limit holds there too.
    request.limits.memory_bytes = 2'500'000;
    const auto tight = evaluator.evaluate(request);
    CHECK(tight.outcome == protocol::Outcome::kResourceLimit);
    CHECK(tight.reason == "memory");

    request.limits = {};
    request.seeds = {};
    CHECK(evaluator.evaluate(request).reason == "bad_request");
}

TEST_CASE("Both executions of the good golden kernels agree", "[two_executions]") {
    const trainium::Machine machine = load_machine("trn1");
    int checked = 0;
    const std::string root = std::string(ACCELOPT_SOURCE_DIR) + "/tests/golden/nki/good";
    for (const auto& entry : std::filesystem::directory_iterator(root)) {
        if (entry.path().extension() != ".py") continue;
        std::ostringstream text;
        text << std::ifstream(entry.path()).rdbuf();
        const auto arguments = golden_arguments(text.str());
        // Indices in input tensors need values of their own: api_differential_test covers those.
        if (!arguments) continue;
        INFO(entry.path().filename().string());
        CHECK(verdict(trace(text.str(), *arguments, machine), machine) == "agree");
        ++checked;
    }
    CHECK(checked >= 15);
}

}  // namespace accelopt::eval
