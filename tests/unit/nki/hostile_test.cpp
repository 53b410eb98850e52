#include <catch2/catch.hpp>

#include "trace_support.h"

namespace accelopt::nki::test {
namespace {

std::string outcome(const std::string& source, const TraceOptions& options = {}) {
    const auto result = trace_file(source, {tensor({128, 512})}, options);
    return result ? "ok" : result.error().outcome + "/" + result.error().code;
}

TraceOptions steps(std::int64_t n) {
    TraceOptions options;
    options.limits.steps = n;
    return options;
}

}  // namespace

TEST_CASE("a kernel reaches no file, process, clock or interpreter", "[nki][hostile]") {
    for (const char* statement : {"import os",
                                  "import sys",
                                  "import subprocess as s",
                                  "from os import path",
                                  "import time",
                                  "import socket",
                                  "import ctypes",
                                  "import builtins",
                                  "from importlib import import_module",
                                  "import random",
                                  "import numpy.random as r; import os.path",
                                  "open('/etc/passwd')",
                                  "eval('1')",
                                  "exec('1')",
                                  "compile('1', '', 'eval')",
                                  "__import__('os')",
                                  "globals()",
                                  "locals()",
                                  "vars()",
                                  "input()",
                                  "breakpoint()",
                                  "dir()",
                                  "setattr(x, 'a', 1)",
                                  "__builtins__",
                                  "x.__class__",
                                  "(lambda: 0).__globals__",
                                  "nl.__dict__",
                                  "getattr(nl, '__' + 'loader__')",
                                  "f'{x.__doc__}'"}) {
        INFO(statement);
        const std::string code = verdict(statement);
        const bool refused =
            code == "rejected/forbidden_api" || code == "unsupported/python_feature";
        if (std::string(statement) == "__builtins__") {
            CHECK(verdict("return __builtins__()") == "rejected/forbidden_api");
        } else {
            CHECK(refused);
        }
    }
    CHECK(verdict("import os") == "rejected/forbidden_api");
    CHECK(verdict("return getattr(x, '__class__')") == "rejected/forbidden_api");
}

TEST_CASE("budgets stop endless kernels", "[nki][hostile]") {
    const std::string head = "import neuronxcc.nki.language as nl\ndef kernel(x):\n";
    CHECK(outcome(head + "    while True:\n        pass\n", steps(100'000)) ==
          "resource_limit/steps");
    CHECK(outcome(head + "    for i in range(10**18):\n        pass\n", steps(100'000)) ==
          "resource_limit/steps");
    CHECK(outcome(head + "    return sum(range(10**9))\n", steps(100'000)) ==
          "resource_limit/memory");
    CHECK(outcome(head + "    return [i for i in range(3) for j in range(10**6)]\n",
                  steps(100'000)) == "resource_limit/steps");
    CHECK(outcome("def f(n):\n    return f(n)\ndef kernel(x):\n    return f(1)\n") ==
          "resource_limit/recursion");
    CHECK(outcome("f = lambda n: f(n)\ndef kernel(x):\n    return f(1)\n") ==
          "resource_limit/recursion");
    CHECK(outcome("while True:\n    pass\n", steps(100'000)) == "resource_limit/steps");
}

TEST_CASE("operations are counted", "[nki][hostile]") {
    TraceOptions options;
    options.limits.operations = 10;
    CHECK(outcome("import neuronxcc.nki.language as nl\n"
                  "def kernel(x):\n"
                  "    for i in nl.static_range(20):\n"
                  "        t = nl.load(x)\n",
                  options) == "resource_limit/operations");
}

TEST_CASE("memory budgets hold before anything is allocated", "[nki][hostile]") {
    CHECK(verdict("return [0] * 10**12") == "resource_limit/memory");
    CHECK(verdict("return 'a' * 10**12") == "resource_limit/memory");
    CHECK(verdict("return 10**10**10") == "resource_limit/memory");
    CHECK(verdict("return 1 << 10**9") == "resource_limit/memory");
    CHECK(verdict("return list(range(10**12))") == "resource_limit/memory");
    CHECK(verdict("return np.zeros((10**6, 10**6))") == "resource_limit/memory");
    CHECK(verdict("return nl.ndarray((10**6, 10**6), dtype=nl.float32, buffer=nl.hbm)") ==
          "resource_limit/memory");
    CHECK(verdict("return nl.ndarray((10**15, nl.par_dim(128), 4), dtype=nl.float32)") ==
          "resource_limit/memory");
    CHECK(verdict("return nl.ndarray((10**18, 10**18), dtype=nl.float32, buffer=nl.hbm)") ==
          "unsupported/python_feature");
    CHECK(verdict("a = 'x'\nwhile True:\n    a = a + a") == "resource_limit/memory");
    CHECK(verdict("a = [1]\nwhile True:\n    a.append(a + a)") == "resource_limit/memory");
    CHECK(verdict("n = 0\nd = {}\nwhile True:\n    d[n] = 'x' * 100000\n    n += 1") ==
          "resource_limit/memory");
    CHECK(verdict("a = nl.arange(4)[:, None] < 2\nwhile True:\n    a = a & a") ==
          "resource_limit/memory");
}

TEST_CASE("deep and cyclic values neither overflow the stack nor leak", "[nki][hostile]") {
    CHECK(verdict("a = []\nfor i in range(200000):\n    a = [a]\nreturn x") ==
          "rejected/output_alias");
    CHECK(verdict("a = []\na.append(a)\nb = {}\nb['b'] = b\nf = lambda: f\nreturn x") ==
          "rejected/output_alias");
    CHECK(verdict("a = []\nfor i in range(2000):\n    a = [a]\nb = []\n"
                  "for i in range(2000):\n    b = [b]\nreturn a == b") ==
          "resource_limit/recursion");
    CHECK(verdict("a = []\na.append(a)\nassert False, a") == "rejected/assertion_failed");
    CHECK(verdict("t = ()\nfor i in range(100):\n    t = (t, t)\nreturn t == (t,)") ==
          "rejected/output_type");
}

TEST_CASE("index arithmetic does not wrap", "[nki][hostile]") {
    CHECK(verdict("return nl.load(x[nl.arange(128)[:, None] * 10**18, nl.arange(2)[None, :]])") ==
          "unsupported/python_feature");
    CHECK(verdict("return nl.load(x[10**18:10**18 + 5, 0:4])") ==
          "rejected/tensor_access_out_of_bound");
    CHECK(verdict("return nl.load(x[nl.ds(9223372036854775807, 2), 0:4])") ==
          "unsupported/python_feature");
    CHECK(verdict("return nl.arange(-9223372036854775807, 9223372036854775807)") ==
          "unsupported/python_feature");
}

TEST_CASE("module state cannot carry anything into a kernel's calls", "[nki][hostile]") {
    CHECK(outcome("LOG = {}\ndef kernel(x):\n    LOG['a'] = 1\n") == "unsupported/mutable_global");
    CHECK(outcome("LOG = [0]\ndef kernel(x):\n    LOG[0] = 1\n") == "unsupported/mutable_global");
    CHECK(outcome("LOG = [[0]]\ndef kernel(x):\n    LOG[0].append(1)\n") ==
          "unsupported/mutable_global");
    CHECK(outcome("LOG = [i for i in range(3)]\ndef kernel(x):\n    LOG += [1]\n") ==
          "rejected/undefined_name");
    CHECK(outcome("def kernel(x, log=[]):\n    log.append(1)\n    return x\n") ==
          "unsupported/mutable_global");
    CHECK(outcome("SIZES = [1, 2]\nSIZES.append(3)\ndef kernel(x):\n    assert SIZES[2] == 3\n"
                  "    return x\n") == "rejected/output_alias");
}

TEST_CASE("two traces of one kernel are identical", "[nki]") {
    const char* body =
        "y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)\n"
        "for k in nl.affine_range(4):\n"
        "    t = nl.load(x[:, k * 128:(k + 1) * 128])\n"
        "    nl.store(y[:, k * 128:(k + 1) * 128], nl.exp(t) * 2 + t)\n"
        "return y";
    const Program a = legal(body);
    const Program b = legal(body);
    REQUIRE(a.operations.size() == b.operations.size());
    CHECK(a.steps == b.steps);
    CHECK(a.tensors.size() == b.tensors.size());
    for (std::size_t k = 0; k < a.operations.size(); ++k) {
        CHECK(a.operations[k].dst == b.operations[k].dst);
        CHECK(a.operations[k].src == b.operations[k].src);
        CHECK(a.operations[k].line == b.operations[k].line);
    }
}

}  // namespace accelopt::nki::test
