#include <catch2/catch.hpp>

#include "trace_support.h"

namespace accelopt::nki::test {
namespace {

/// A file with functions that return one of two outputs; `name` tells which ran.
std::string ran(const std::string& source, std::optional<std::string> entry = std::nullopt,
                std::vector<Argument> arguments = {tensor({128, 512})}) {
    TraceOptions options;
    options.entry = std::move(entry);
    const std::string head =
        "import neuronxcc.nki as nki\nimport neuronxcc.nki.language as nl\n"
        "def run(x, n):\n"
        "    y = nl.ndarray((128, n), dtype=x.dtype, buffer=nl.hbm)\n"
        "    nl.store(y, 0.0)\n    return y\n";
    const auto result = trace_file(head + source, arguments, options);
    if (!result) return result.error().code;
    return std::to_string(result->tensors[result->outputs[0]].shape[1]);
}

}  // namespace

TEST_CASE("the entry is the decorated function, else a usual name", "[nki][entry]") {
    CHECK(
        ran("@nki.jit\ndef a(x):\n    return run(x, 1)\ndef kernel(x):\n    return run(x, 2)\n") ==
        "1");
    CHECK(ran("def helper(x):\n    return run(x, 1)\ndef kernel(x):\n    return run(x, 2)\n") ==
          "2");
    CHECK(ran("def optimized_kernel(x):\n    return run(x, 3)\n") == "3");
    CHECK(ran("def optimized_kernel(x):\n    return run(x, 3)\ndef kernel(x):\n    return run(x, "
              "2)\n") == "2");
    CHECK(ran("@nki.jit\ndef a(x):\n    return run(x, 1)\n@nki.jit\ndef kernel(x):\n"
              "    return run(x, 2)\n@nki.jit\ndef b(x):\n    return run(x, 3)\n") == "2");
    CHECK(ran("@nki.jit\ndef a(x):\n    return run(x, 1)\n@nki.jit\ndef b(x):\n    return run(x, "
              "3)\n") == "3");
    CHECK(ran("def a(x):\n    return run(x, 1)\ndef kernel(x):\n    return run(x, 2)\n", "a") ==
          "1");
    CHECK(ran("def other(x):\n    return run(x, 1)\n") == "undefined_name");
    CHECK(ran("def kernel(x):\n    return run(x, 1)\n", "kernl") == "undefined_name");
}

TEST_CASE("decorators of NKI are accepted, others are not", "[nki][entry]") {
    for (const char* decorator : {"@nki.jit", "@nki.trace", "@nki.benchmark(warmup=2, iters=3)",
                                  "@nki.jit(mode='jax')", "@nki.baremetal\n@nki.jit"}) {
        INFO(decorator);
        CHECK(ran(std::string(decorator) + "\ndef a(x):\n    return run(x, 5)\n") == "5");
    }
    CHECK(ran("def wrap(f):\n    return f\n@wrap\ndef kernel(x):\n    return run(x, 1)\n") ==
          "python_feature");
}

TEST_CASE("arguments bind to parameters", "[nki][entry]") {
    const std::string kernel =
        "def kernel(x, n, scale=2.0, *, flag=False):\n"
        "    assert isinstance(n, int) and scale == 2.0 and not flag\n"
        "    return run(x, n)\n";
    CHECK(ran(kernel, std::nullopt, {tensor({128, 512}), std::int64_t{7}}) == "7");
    CHECK(ran(kernel, std::nullopt, {tensor({128, 512}), std::int64_t{7}, 3.0}) ==
          "assertion_failed");
    CHECK(ran(kernel, std::nullopt, {tensor({128, 512})}) == "type_error");
    CHECK(ran(kernel, std::nullopt, {tensor({128, 512}), std::int64_t{7}, 2.0, true}) ==
          "type_error");
    CHECK(ran("def kernel(x: nt.mutable_tensor):\n    return x\n") ==
          "tensor_output_not_written_to");
}

TEST_CASE("a tensor argument keeps its dtype, shape and position", "[nki][entry]") {
    const auto result = trace_file(
        "import neuronxcc.nki.language as nl\n"
        "def kernel(a, n, b):\n"
        "    assert a.dtype == nl.bfloat16 and b.shape == (4, 5)\n"
        "    y = nl.ndarray((4, 5), dtype=a.dtype, buffer=nl.shared_hbm)\n"
        "    nl.store(y, nl.load(b))\n    return y\n",
        {tensor({2, 3}, DType::kBFloat16), 1.5, tensor({4, 5})}, {});
    REQUIRE(result);
    CHECK(result->tensors[0].name == "a");
    CHECK(result->tensors[0].argument == 0);
    CHECK(result->tensors[1].name == "b");
    CHECK(result->tensors[1].argument == 1);
}

TEST_CASE("module code runs once, without operations", "[nki][entry]") {
    CHECK(
        ran("SIZE = 2 * 4\nTABLE = {'n': SIZE + 1}\ndef kernel(x):\n    return run(x, TABLE['n'])\n"
            "if __name__ == '__main__':\n    kernel(None)\n") == "9");
    CHECK(ran("T = nl.ndarray((4, 4))\ndef kernel(x):\n    return run(x, 1)\n") ==
          "nki_api_outside_of_nki_kernel");
    CHECK(ran("class A:\n    pass\ndef kernel(x):\n    return run(x, 1)\n") == "python_feature");
    // Code that never runs does not matter.
    CHECK(ran("def unused():\n    import os\n    class A:\n        pass\ndef kernel(x):\n"
              "    return run(x, 1)\n") == "1");
}

TEST_CASE("imports of known modules work in every form", "[nki][entry]") {
    CHECK(ran("import numpy as np, math\nfrom neuronxcc.nki.language import par_dim, arange as ar\n"
              "from neuronxcc import nki as again\nimport neuronxcc.nki.typing\nfrom typing import "
              "Any\n"
              "def kernel(x):\n    from neuronxcc.nki import isa\n    import neuronxcc\n"
              "    assert again.language.tile_size.pmax == neuronxcc.nki.language.tile_size.pmax\n"
              "    assert isa.tensor_copy is not None and ar(4) is not None\n"
              "    return run(x, math.floor(np.prod((2, 3))))\n") == "6");
    CHECK(ran("import torch, os\ndef kernel(x):\n    return run(x, 1)\n") == "1");
    CHECK(ran("import torch\ndef kernel(x):\n    return run(x, torch.pi)\n") == "python_feature");
    CHECK(ran("from os import getpid\ndef kernel(x):\n    return run(x, getpid())\n") ==
          "forbidden_api");
    CHECK(ran("from numpy import *\ndef kernel(x):\n    return run(x, 1)\n") == "python_feature");
}

}  // namespace accelopt::nki::test
