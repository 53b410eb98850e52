#include <catch2/catch.hpp>
#include <set>
#include <string>

#include "nki/syntax/parser.h"
#include "nki/syntax/printer.h"

using namespace accelopt::nki;

namespace {

std::string hash(const std::string& source) {
    auto result = parse(source);
    if (!result.ok()) FAIL(result.error().message << " in\n" << source);
    return normalised_hash(result.value());
}

const std::string kKernel =
    "import neuronxcc.nki.language as nl\n"
    "TILE = 128\n"
    "def scale(x, factor):\n"
    "    return x * factor\n"
    "@nki.jit\n"
    "def kernel(a, b):\n"
    "    out = nl.ndarray((TILE, 512), dtype=a.dtype, buffer=nl.shared_hbm)\n"
    "    for i in nl.affine_range(4):\n"
    "        tile = nl.load(a[i])\n"
    "        other = [k + i for k in range(3)]\n"
    "        nl.store(out[i], scale(tile, 2.0) - nl.load(b[i]))\n"
    "    return out\n";

}  // namespace

TEST_CASE("names, comments, layout and docstrings do not change the hash") {
    const std::string renamed =
        "'''A module.'''\n"
        "import neuronxcc.nki.language as nl  # the API\n"
        "\n"
        "SIZE = 128\n"
        "def times(left, right):\n"
        "  'Doc.'\n"
        "  return (left *\n"
        "          right)\n"
        "@nki.jit\n"
        "def optimised(p, q):\n"
        "  result = nl.ndarray((SIZE, 512), dtype=p.dtype, buffer=nl.shared_hbm)\n"
        "  for step in nl.affine_range(4):\n"
        "    piece = nl.load(p[step]); unused = [z + step for z in range(3)]\n"
        "    'note'\n"
        "    nl.store(result[step], times(piece, 2.0) - nl.load(q[step]))\n"
        "  return result\n";
    CHECK(hash(renamed) == hash(kKernel));
    CHECK(hash(kKernel).size() == 64);
}

TEST_CASE("any change of meaning changes the hash") {
    std::set<std::string> seen = {hash(kKernel)};
    const auto differs = [&](const std::string& from, const std::string& to) {
        std::string source = kKernel;
        const std::size_t at = source.find(from);
        REQUIRE(at != std::string::npos);
        source.replace(at, from.size(), to);
        INFO(source);
        CHECK(seen.insert(hash(source)).second);
    };
    differs("512", "513");
    differs("2.0", "2");
    differs("scale(tile, 2.0)", "scale(2.0, tile)");
    differs("scale(tile, 2.0) - nl.load(b[i])", "nl.load(b[i]) - scale(tile, 2.0)");
    differs("nl.load(b[i])", "nl.load(a[i])");
    differs("x * factor", "factor * x");
    differs("x * factor", "x + factor");
    differs("affine_range", "sequential_range");
    differs("a.dtype", "a.shape");
    differs("dtype=", "kind=");
    differs("shared_hbm", "sbuf");
    differs("k + i for k", "k + k for k");
    differs("return out", "return a");
    differs("a, b)", "b, a)");
    differs("(a, b)", "(a, b=1)");
    differs("@nki.jit\n", "");
    differs("language as nl", "isa as nl");
    differs("        other = [k + i for k in range(3)]\n", "");
    differs("range(3)", "TILE");
}

TEST_CASE("the entry's name is irrelevant, which function is the entry is not") {
    CHECK(hash("def kernel(a):\n    return a\n") ==
          hash("def optimized_kernel(b):\n    return b\n"));
    CHECK(hash("@jit\ndef f(a):\n    return g(a)\ndef g(a):\n    return a\n") ==
          hash("@jit\ndef g(a):\n    return f(a)\ndef f(a):\n    return a\n"));
    CHECK(hash("def kernel(a):\n    return 1\ndef other(a):\n    return 2\n") !=
          hash("def other(a):\n    return 1\ndef kernel(a):\n    return 2\n"));
    CHECK(hash("@jit\ndef kernel(a):\n    return 1\n@jit\ndef other(a):\n    return 2\n") !=
          hash("@jit\ndef other(a):\n    return 1\n@jit\ndef kernel(a):\n    return 2\n"));
}

TEST_CASE("parameters that a call names keep their meaning") {
    CHECK(hash("def h(a, b):\n    return a - b\ndef kernel(x):\n    return h(a=1, b=2)\n") !=
          hash("def h(b, a):\n    return b - a\ndef kernel(x):\n    return h(a=1, b=2)\n"));
    // Keywords of the API do not pin local names.
    CHECK(hash("def kernel(x):\n    shape = 1\n    return nl.f(shape=shape)\n") ==
          hash("def kernel(x):\n    size = 1\n    return nl.f(shape=size)\n"));
}

TEST_CASE("scopes are kept apart") {
    // The inner x is another variable in the first, the same in the second.
    CHECK(hash("def kernel(x):\n    def f(x):\n        return x\n    return f(1)\n") !=
          hash("def kernel(x):\n    def f(y):\n        return x\n    return f(1)\n"));
    CHECK(hash("def kernel(x):\n    return [x for x in x]\n") ==
          hash("def kernel(x):\n    return [y for y in x]\n"));
    CHECK(hash("def kernel(x):\n    return (lambda x: x)(1)\n") !=
          hash("def kernel(x):\n    return (lambda y: x)(1)\n"));
    // A free name is an API name: it is not renamed.
    CHECK(hash("def kernel(x):\n    return min(x, 1)\n") !=
          hash("def kernel(x):\n    return max(x, 1)\n"));
    CHECK(hash("def kernel(x):\n    if (n := x):\n        return n\n") ==
          hash("def kernel(a):\n    if (b := a):\n        return b\n"));
    CHECK(hash("def kernel(x):\n    with f() as g:\n        return g\n") ==
          hash("def kernel(x):\n    with f() as h:\n        return h\n"));
}
