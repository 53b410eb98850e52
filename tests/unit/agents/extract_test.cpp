#include <catch2/catch.hpp>

#include "agents/agents.h"

using namespace accelopt;
using namespace accelopt::agents;

namespace {

const std::string kKernel =
    "import neuronxcc.nki.language as nl\n\n\ndef kernel(x):\n    return nl.exp(x)\n";
const std::string kDecorated =
    "import neuronxcc.nki as nki\n\n\n@nki.jit\ndef silu_fast(x):\n    return x\n";

std::string in_fence(const std::string& code, const std::string& language = "python") {
    return "```" + language + "\n" + code + "```\n";
}

ExtractedKernel found(const std::string& reply) {
    const auto result = extract_kernel(reply);
    CAPTURE(reply);
    if (!result) FAIL(result.error());
    return *result;
}

std::string error(const std::string& reply) {
    const auto result = extract_kernel(reply);
    CAPTURE(reply);
    REQUIRE_FALSE(result.ok());
    return result.error();
}

}  // namespace

TEST_CASE("a reply that is a kernel is taken whole", "[N23]") {
    CHECK(found(kKernel).source == kKernel);
    CHECK(found(kDecorated).source == kDecorated);
    const std::string quoting =
        kKernel + "\nNOTE = '''\n```python\ndef kernel(x):\n    return None\n```\n'''\n";
    CHECK(found(quoting).source == quoting);
}

TEST_CASE("a kernel is found in the fence between prose") {
    const auto kernel = found("Sure! Here it is:\n\n" + in_fence(kKernel) + "\nIt's fast.\n");
    CHECK(kernel.source == kKernel);
    CHECK(kernel.normalised_hash.size() >= 16);
    CHECK(found("x\n" + in_fence(kDecorated, "")).source == kDecorated);
    CHECK(found("x\n" + in_fence(kDecorated, "py")).source == kDecorated);
}

TEST_CASE("of several fences the last that defines an entry function counts", "[N23]") {
    const std::string other = "def optimized_kernel(x):\n    return x + x\n";
    CHECK(found("First\n" + in_fence(kKernel) + "better:\n" + in_fence(other)).source == other);
    CHECK(found(in_fence(kKernel) + "run it:\n" + in_fence("print(kernel(1))\n")).source ==
          kKernel);
    CHECK(found(in_fence("pip install x\n", "bash") + in_fence(kKernel)).source == kKernel);
    CHECK(found(in_fence(kKernel) + in_fence("def kernel(x): return 0\n", "cpp")).source ==
          kKernel);
}

TEST_CASE("backticks inside strings of the kernel stay", "[N23]") {
    const std::string code =
        "def kernel(x):\n    \"\"\"Use\n```\nkernel(x)\n```\n    \"\"\"\n    s = '```'\n    return "
        "x\n";
    CHECK(found("Here:\n" + in_fence(code) + "done").source == code);
}

TEST_CASE("a kernel with a syntax error is extracted, so that the evaluator can say where") {
    const std::string code = "@nki.jit\ndef fast(x)\n    return x\n";
    const auto kernel = found("Here:\n" + in_fence(code));
    CHECK(kernel.source == code);
    CHECK(kernel.normalised_hash.empty());
    CHECK(found("x\n" + in_fence("def  kernel (x)\n  return\n")).normalised_hash.empty());
}

TEST_CASE("layout, comments and local names do not change the hash", "[N08]") {
    const std::string same =
        "import neuronxcc.nki.language as nl\n# faster\ndef kernel(x):\n\n        return "
        "nl.exp( x )\n";
    CHECK(found(kKernel).normalised_hash == found("y\n" + in_fence(same)).normalised_hash);
    CHECK(found(kKernel).normalised_hash != found(kDecorated).normalised_hash);
}

TEST_CASE("why nothing was found is said") {
    CHECK_THAT(error(""), Catch::Contains("empty"));
    CHECK_THAT(error("  \n"), Catch::Contains("empty"));
    CHECK_THAT(error("I would rather fuse the loops."), Catch::Contains("fenced block"));
    CHECK_THAT(error("x = 1\n"), Catch::Contains("fenced block"));
    CHECK_THAT(error("a\n```python\n" + kKernel),
               Catch::Contains("line 2") && Catch::Contains("never closed"));
    CHECK_THAT(error("a:\n" + in_fence("def helper(x):\n    return x\n")),
               Catch::Contains("optimized_kernel"));
    CHECK_THAT(error("a:\n" + in_fence("class kernel:\n    pass\n")),
               Catch::Contains("optimized_kernel"));
}

TEST_CASE("a nested or an undecorated helper is no entry function") {
    error("a:\n" + in_fence("def outer(x):\n    def kernel(y):\n        return y\n"));
    error("a:\n" + in_fence("@functools.cache\ndef fast(x):\n    return x\n"));
    CHECK(found("a:\n" + in_fence("@nki.jit(mode='x')\ndef fast(x):\n    return x\n"))
              .source.find("fast") != std::string::npos);
    found("a:\n" + in_fence("@neuronxcc.nki.jit\ndef fast(x):\n    return x\n"));
}

TEST_CASE("hostile replies end in an error, not in a crash") {
    error(std::string(200'000, '`'));
    error("```python\n" + std::string(100'000, '('));
    error(std::string("def kernel\0(x):", 15));
    std::string many;
    for (int i = 0; i < 2'000; ++i) many += "```\n";
    error(many);
}

TEST_CASE("an edit-style reply is applied to the parent kernel", "[N08]") {
    const std::string parent = "@nki.jit\ndef kernel(x):\n    return x + 1\n";
    const std::string reply =
        "Change one line:\n<<<<<<< SEARCH\n    return x + 1\n=======\n    return x + 2\n"
        ">>>>>>> REPLACE\n";
    const auto kernel = extract_kernel(reply, parent);
    REQUIRE(kernel.ok());
    CHECK(kernel->source == "@nki.jit\ndef kernel(x):\n    return x + 2\n");
    CHECK_FALSE(kernel->normalised_hash.empty());
    CHECK_FALSE(extract_kernel(reply, "@nki.jit\ndef kernel(x):\n    return x\n").ok());
    CHECK_FALSE(extract_kernel(reply).ok());
    const auto cut = extract_kernel(reply.substr(0, reply.find(">>>>>>>")), parent);
    REQUIRE_FALSE(cut.ok());
    CHECK(cut.error().find("cut off") != std::string::npos);
}
