#include "eval/plain_kernel.h"

#include <catch2/catch.hpp>

using namespace accelopt;
using eval::PlainKernelRequest;
using nki::DType;
using nki::LiteralArgument;
using nki::TensorArgument;
using protocol::Outcome;

namespace {

/// A kernel whose body sees x, y and t, x loaded.
std::string with_body(const std::string& parameters, const std::string& body) {
    return "import neuronxcc.nki as nki\n"
           "import neuronxcc.nki.language as nl\n"
           "@nki.jit\n"
           "def scale_rows(" +
           parameters +
           "):\n"
           "    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)\n"
           "    t = nl.load(x[0:128, 0:64])\n" +
           body + "    return y\n";
}

PlainKernelRequest request(const std::string& source, DType dtype = DType::kFloat32) {
    PlainKernelRequest made;
    made.source = source;
    made.names = {"x"};
    made.arguments = {TensorArgument{{128, 64}, dtype}};
    return made;
}

const char* const kStoreAll = "    nl.store(y[0:128, 0:64], value=t)\n";

}  // namespace

TEST_CASE("a kernel without a problem is profiled and run, but not verified") {
    const auto reply = evaluate_plain_kernel(request(with_body("x", kStoreAll)));
    REQUIRE(reply.outcome == Outcome::kOk);
    CHECK(reply.tier == "values");
    REQUIRE(reply.profile.has_value());
    CHECK(reply.profile->latency.value_or(0) > 0);
    CHECK(reply.profile->hbm_read_bytes == 128 * 64 * 4);
    CHECK_FALSE(reply.profile->lower_bound_ms.has_value());
    REQUIRE(reply.correctness.size() == 1);
    CHECK(reply.correctness[0].rule == "none");
    CHECK_FALSE(reply.correctness[0].rel_l2.has_value());
    REQUIRE(reply.diagnostics.size() == 1);
    CHECK(reply.diagnostics[0].code == "not_verified");
    CHECK(reply.diagnostics[0].severity == "note");
}

TEST_CASE("without values nothing is run") {
    auto asked = request(with_body("x", kStoreAll));
    asked.values = false;
    const auto reply = evaluate_plain_kernel(asked);
    CHECK(reply.outcome == Outcome::kOk);
    CHECK(reply.tier == "timing");
    CHECK(reply.correctness.empty());
}

TEST_CASE("inputs of every dtype can be run") {
    for (const DType dtype :
         {DType::kFloat32, DType::kBFloat16, DType::kFloat16, DType::kInt8, DType::kInt16,
          DType::kInt32, DType::kUInt8, DType::kUInt16, DType::kUInt32}) {
        const auto reply = evaluate_plain_kernel(request(with_body("x", kStoreAll), dtype));
        INFO(to_string(dtype) << ": " << to_json(reply));
        CHECK(reply.outcome == Outcome::kOk);
    }
}

TEST_CASE("literals of all kinds reach the kernel") {
    auto asked =
        request(with_body("x, flag, mode, tile, bias=0",
                          "    assert flag and mode == 'fast' and tile == (128, (64, 2.5))\n"
                          "    assert bias is None\n" +
                              std::string(kStoreAll)));
    asked.names = {"x", "flag", "mode", "tile", "bias"};
    LiteralArgument inner{std::vector<LiteralArgument>{{std::int64_t{64}}, {2.5}}};
    LiteralArgument tile{std::vector<LiteralArgument>{{std::int64_t{128}}, inner}};
    asked.arguments.emplace_back(true);
    asked.arguments.emplace_back(LiteralArgument{std::string("fast")});
    asked.arguments.emplace_back(tile);
    asked.arguments.emplace_back(LiteralArgument{});
    const auto reply = evaluate_plain_kernel(asked);
    INFO(to_json(reply));
    CHECK(reply.outcome == Outcome::kOk);
}

TEST_CASE("incomplete and non-finite outputs are found without a reference") {
    auto reply = evaluate_plain_kernel(
        request(with_body("x", "    nl.store(y[0:128, 0:32], value=t[0:128, 0:32])\n")));
    CHECK(reply.outcome == Outcome::kIncorrect);
    CHECK(reply.reason == "unwritten_output");
    reply = evaluate_plain_kernel(
        request(with_body("x", "    nl.store(y[0:128, 0:64], value=nl.log(t))\n")));
    CHECK(reply.outcome == Outcome::kIncorrect);
    CHECK(reply.reason == "nonfinite");
}

TEST_CASE("an input may not be returned, nor a tile, nor nothing") {
    const std::pair<const char*, const char*> cases[] = {
        {"    return x\n", "output_alias"},
        {"    return t\n", "output_type"},
        {"    return\n", "tensor_output_not_written_to"}};
    for (const auto& [body, reason] : cases) {
        const auto reply = evaluate_plain_kernel(request(with_body("x", body)));
        INFO(body << to_json(reply));
        CHECK(reply.outcome == Outcome::kRejected);
        CHECK(reply.reason == reason);
    }
}

TEST_CASE("arguments in another order than the parameters are pointed out") {
    auto asked = request(with_body("x, factor", kStoreAll));
    asked.names = {"factor", "x"};
    asked.arguments.insert(asked.arguments.begin(), 2.0);
    const auto reply = evaluate_plain_kernel(asked);
    CHECK(reply.outcome == Outcome::kEvaluatorError);
    CHECK(reply.reason == "bad_request");
    CHECK(reply.diagnostics.at(0).remedy.find("x, factor") != std::string::npos);
    // Free names are positions only.
    asked.names = {"a", "b"};
    std::swap(asked.arguments[0], asked.arguments[1]);
    CHECK(evaluate_plain_kernel(asked).outcome == Outcome::kOk);
}

TEST_CASE("a kernel that does not parse or trace gets its diagnostic with the line") {
    auto reply = evaluate_plain_kernel(request("def kernel(x:\n"));
    CHECK(reply.outcome == Outcome::kSyntaxError);
    CHECK(reply.diagnostics.at(0).line == 1);
    reply = evaluate_plain_kernel(request(with_body("x", "    nl.stroe(y, t)\n")));
    CHECK(reply.outcome == Outcome::kUnsupported);
    CHECK(reply.diagnostics.at(0).line == 7);
    auto missing = request(with_body("x", kStoreAll));
    missing.entry = "scale_row";
    reply = evaluate_plain_kernel(missing);
    CHECK(reply.diagnostics.at(0).message.find("scale_rows") != std::string::npos);
}

TEST_CASE("the same request gives the same values and another secret does not") {
    // log fails for negative inputs: how many there are tells the draws apart.
    const auto count = [](const std::string& secret) {
        auto asked = request(with_body("x", "    nl.store(y[0:128, 0:64], value=nl.log(t))\n"));
        asked.secret = secret;
        return evaluate_plain_kernel(asked).diagnostics.at(0).message;
    };
    CHECK(count("a") == count("a"));
    CHECK(count("a") != count("b"));
}
