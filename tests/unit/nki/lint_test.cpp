#include "nki/lint.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <set>
#include <sstream>

#include "core/text.h"
#include "nki/syntax/parser.h"
#include "trace_support.h"

namespace accelopt::nki::test {
namespace {

const std::string kHead =
    "import neuronxcc.nki as nki\n"
    "import neuronxcc.nki.isa as nisa\n"
    "import neuronxcc.nki.language as nl\n"
    "import numpy as np\n"
    "\n";

std::vector<LintFinding> linted(const std::string& source) {
    const auto module = parse(source);
    REQUIRE(module.ok());
    return lint(*module);
}

/// "severity code line", one finding per line.
std::string verdicts(const std::string& source) {
    std::string text;
    for (const LintFinding& found : linted(source)) {
        CHECK_FALSE(found.finding.message.empty());
        text += found.severity + " " + found.finding.code + " " +
                std::to_string(found.finding.line) + "\n";
    }
    return text;
}

std::string kernel(const std::string& body) {
    return kHead + "@nki.jit\ndef kernel(x):\n" + body + "    return x\n";
}

std::optional<Finding> rule(const std::string& source) {
    const auto module = parse(source);
    REQUIRE(module.ok());
    return check_rules(*module);
}

}  // namespace

TEST_CASE("an honest kernel has nothing to be said about it", "[nki][lint][N04]") {
    CHECK(verdicts(kernel("    # try: reference(x) except: pass  import os\n"
                          "    if x.shape[0] > 4:\n"
                          "        pass\n"
                          "    rel_tol = 1e-5  # no BLAS, no forward()\n"
                          "    t = nl.load(x[0:128, 0:512], dtype=nl.float32)\n"
                          "    s = 'import os; open(\"reference.py\")'\n")) == "");
    const std::string root = std::string(ACCELOPT_SOURCE_DIR);
    for (const char* folder : {"/tests/golden/nki/good", "/nkibench"})
        for (const auto& entry : std::filesystem::recursive_directory_iterator(root + folder)) {
            if (entry.path().extension() != ".py" || entry.path().stem() == "reference" ||
                entry.path().stem() == "references")
                continue;
            INFO(entry.path());
            for (const LintFinding& found : linted(read_file(entry.path().string()))) {
                INFO(found.finding.code << " " << found.finding.message);
                CHECK(found.severity != "error");
            }
        }
}

TEST_CASE("unknown names and functions get the nearest one", "[nki][lint][N15]") {
    const auto found =
        linted(kernel("    t = nl.lod(x[0:128, 0:512])\n"
                      "    u = nisa.tensor_reduse(nl.add, data=t, axis=[1])\n"
                      "    v = nl.exp(tt)\n"
                      "    nl.store(x, valeu=v)\n"));
    REQUIRE(found.size() == 4);
    CHECK(found[0].finding.code == "unknown_api");
    CHECK(found[0].finding.message.find("'load'") != std::string::npos);
    CHECK(found[0].finding.line == 8);
    CHECK(found[0].finding.column == 9);
    CHECK(found[1].finding.message.find("'tensor_reduce'") != std::string::npos);
    CHECK(found[2].finding.code == "undefined_name");
    CHECK(found[3].finding.message.find("'value'") != std::string::npos);
}

TEST_CASE("what no kernel reaches is warned about only", "[nki][lint]") {
    CHECK(verdicts(kHead + "def helper(t):\n"
                           "    return nl.exp(t)\n"
                           "def unused(t):\n"
                           "    return nl.exq(t)\n"
                           "@nki.jit\n"
                           "def kernel(x):\n"
                           "    t = helper(nl.load(x))\n"
                           "    return x\n") == "warning unused_code 8\nwarning unknown_api 9\n");
}

TEST_CASE("block dimensions are warned about as compilers do", "[nki][lint]") {
    const auto made = [](const std::string& call) {
        return verdicts(kHead + "@nki.jit\ndef kernel(x):\n    t = nl." + call +
                        "\n    return t\n");
    };
    const std::string warning = "warning leading_dimension_of_tensor_must_be_partition 8\n";
    CHECK(made("ndarray((4, nl.par_dim(128), 512))") == warning);
    CHECK(made("zeros(shape=(2, 4, nl.par_dim(128), 512), dtype=np.float32, buffer=nl.psum)") ==
          warning);
    CHECK(made("ndarray((nl.par_dim(128), 4, 512))") == "");
    CHECK(made("ndarray((4, 128, 512), buffer=nl.sbuf)") == "");
    CHECK(made("ndarray((4, nl.par_dim(128), 512), buffer=nl.shared_hbm)") == "");
    CHECK(made("ndarray((4, nl.par_dim(128), 512), np.float32, buffer=nl.hbm)") == "");
}

TEST_CASE("rules on the syntax tree have an id and a line", "[nki][lint][N04][X08][X17][X19]") {
    CHECK(rule(kernel("    import os\n"))->code == "forbidden_api");
    CHECK_FALSE(rule("import os\nif True:\n    from time import time\n"));  // not used yet
    CHECK(rule(kernel("    if x.shape[0] == 1:\n        from time import time\n"))->line == 9);
    for (const char* line :
         {"import reference", "from reference import forward", "from . import reference",
          "import nkibench.silu.reference as r", "from silu_numpy_0 import forward"}) {
        INFO(line);
        const auto finding = rule(kHead + line + "\n");
        REQUIRE(finding);
        CHECK(finding->outcome == "rejected");
        CHECK(finding->code == "reference_copy");
        CHECK(finding->line == 6);
    }
    CHECK_FALSE(rule(kHead + "preference = 1\nforward = 2\n"));
}

TEST_CASE("recorded answers exceed the budget of literals, tables do not", "[nki][lint][X09]") {
    const auto table = [](int numbers) {
        std::string text = kHead + "TABLE = [\n";
        for (int k = 0; k < numbers; ++k) text += "    0.25,\n";
        return text + "]\n";
    };
    CHECK_FALSE(rule(table(2'000)));
    const auto finding = rule(table(2'100));
    REQUIRE(finding);
    CHECK(finding->outcome + "/" + finding->code == "rejected/literal_budget");
    CHECK(finding->limit == kLiteralBudgetBytes);
    CHECK(finding->line == 7 + 2'048);
    CHECK(rule(kHead + "S = '" + std::string(1'000'000, 'x') + "'\n")->code == "literal_budget");
    CHECK_FALSE(rule("\"\"\"" + std::string(100'000, 'd') + "\"\"\"\n"));
}

TEST_CASE("module-level containers are constants", "[nki][lint][N03]") {
    const std::string source = kHead +
                               "CACHE = {}\n"
                               "@nki.jit\n"
                               "def kernel(x):\n"
                               "    CACHE[x.shape] = 1\n"
                               "    return x\n";
    const auto result = trace_file(source, {tensor({128, 512})});
    REQUIRE_FALSE(result.ok());
    CHECK(result.error().outcome + "/" + result.error().code == "unsupported/mutable_global");
    CHECK(result.error().line == 9);
    CHECK(verdicts(kernel("    global COUNT\n")) == "error mutable_global 8\n");
}

TEST_CASE("twenty bad kernels get twenty codes, each with its line and none internal",
          "[nki][lint][N14]") {
    const std::string root = std::string(ACCELOPT_SOURCE_DIR) + "/tests/golden/nki/bad";
    std::set<std::string> codes;
    for (const auto& entry : std::filesystem::directory_iterator(root)) {
        if (entry.path().extension() != ".py") continue;
        const std::string source = read_file(entry.path().string());
        const std::string expected = source.substr(0, source.find('\n'));
        const std::size_t at = expected.find(" line ");
        if (at == std::string::npos) continue;
        const std::string code =
            expected.substr(expected.find('/') + 1, at - expected.find('/') - 1);
        codes.insert(code);
        CHECK(code != "internal");
    }
    // That each kernel gets its code and line is what golden_test.cpp checks.
    CHECK(codes.size() >= 20);
}

TEST_CASE("a finding stands at its argument, however many lines the call has", "[nki][lint][N14]") {
    const auto result = trace_file(kernel("    t = nl.load(x[0:128, 0:512])\n"
                                          "    u = nisa.activation(\n"
                                          "        op=nl.exp,\n"
                                          "        data=t,\n"
                                          "        scale=\"two\")\n"),
                                   {tensor({128, 512})});
    REQUIRE_FALSE(result.ok());
    CHECK(result.error().operation == "nisa.activation");
    CHECK(result.error().line == 12);
    CHECK(result.error().column == 15);
    const auto call = trace_file(kernel("    t = nl.load(\n"
                                        "        x[0:256, 0:512])\n"),
                                 {tensor({256, 512})});
    REQUIRE_FALSE(call.ok());
    CHECK(call.error().line == 8);
    CHECK(call.error().column == 9);
}

}  // namespace accelopt::nki::test
