#include <catch2/catch.hpp>

#include "trace_support.h"

namespace accelopt::nki::test {

TEST_CASE("integer and float arithmetic follow Python", "[nki][python]") {
    CHECK(evaluates_to("7 // 2", "3") == "ok");
    CHECK(evaluates_to("-7 // 2", "-4") == "ok");
    CHECK(evaluates_to("7 // -2", "-4") == "ok");
    CHECK(evaluates_to("-7 % 3", "2") == "ok");
    CHECK(evaluates_to("7 % -3", "-2") == "ok");
    CHECK(evaluates_to("-7.5 % 2", "0.5") == "ok");
    CHECK(evaluates_to("7.5 // 2", "3.0") == "ok");
    CHECK(evaluates_to("7 / 2", "3.5") == "ok");
    CHECK(evaluates_to("2 ** 10", "1024") == "ok");
    CHECK(evaluates_to("2 ** -1", "0.5") == "ok");
    CHECK(evaluates_to("(-2) ** 3", "-8") == "ok");
    CHECK(evaluates_to("-2 ** 2", "-4") == "ok");
    CHECK(evaluates_to("1 << 10 | 3", "1027") == "ok");
    CHECK(evaluates_to("-9 >> 1", "-5") == "ok");
    CHECK(evaluates_to("~5", "-6") == "ok");
    CHECK(evaluates_to("True + True", "2") == "ok");
    CHECK(evaluates_to("divmod(-7, 2)", "(-4, 1)") == "ok");
    CHECK(evaluates_to("round(2.5)", "2") == "ok");
    CHECK(evaluates_to("int(-3.7)", "-3") == "ok");
    CHECK(evaluates_to("abs(-3)", "3") == "ok");
}

TEST_CASE("comparisons chain and boolean operators return operands", "[nki][python]") {
    CHECK(evaluates_to("1 < 2 < 3", "True") == "ok");
    CHECK(evaluates_to("1 < 3 < 2", "False") == "ok");
    CHECK(evaluates_to("0 or 5", "5") == "ok");
    CHECK(evaluates_to("0 and 1 // 0", "0") == "ok");
    CHECK(evaluates_to("3 if 1 > 2 else 4", "4") == "ok");
    CHECK(evaluates_to("(1, 2) < (1, 3)", "True") == "ok");
    CHECK(evaluates_to("2 in [1, 2]", "True") == "ok");
    CHECK(evaluates_to("'a' not in 'bc'", "True") == "ok");
    CHECK(evaluates_to("None is None", "True") == "ok");
}

TEST_CASE("sequences, slices and comprehensions follow Python", "[nki][python]") {
    CHECK(evaluates_to("[1, 2, 3, 4][1:-1]", "[2, 3]") == "ok");
    CHECK(evaluates_to("[1, 2, 3, 4][::-1]", "[4, 3, 2, 1]") == "ok");
    CHECK(evaluates_to("(1, 2) + (3,)", "(1, 2, 3)") == "ok");
    CHECK(evaluates_to("[0] * 3", "[0, 0, 0]") == "ok");
    CHECK(evaluates_to("'tile' + str(3)", "'tile3'") == "ok");
    CHECK(evaluates_to("f'{3}-{2.5}'", "'3-2.5'") == "ok");
    CHECK(evaluates_to("[i * j for i in range(3) for j in range(i) if j]", "[2]") == "ok");
    CHECK(evaluates_to("{k: v for k, v in zip('ab', (1, 2))}['b']", "2") == "ok");
    CHECK(evaluates_to("sum(i for i in range(5))", "10") == "ok");
    CHECK(evaluates_to("list(map(lambda v: v + 1, [1, 2]))", "[2, 3]") == "ok");
    CHECK(evaluates_to("list(filter(None, [0, 1, 2]))", "[1, 2]") == "ok");
    CHECK(evaluates_to("sorted([3, 1, 2], key=lambda v: -v)", "[3, 2, 1]") == "ok");
    CHECK(evaluates_to("max([1, 5, 2])", "5") == "ok");
    CHECK(evaluates_to("min(4, 2.5)", "2.5") == "ok");
    CHECK(evaluates_to("list(enumerate('ab'))[1][0]", "1") == "ok");
    CHECK(evaluates_to("len(range(3, 20, 5))", "4") == "ok");
    CHECK(evaluates_to("list(range(5, 0, -2))", "[5, 3, 1]") == "ok");
    CHECK(evaluates_to("any([0, 1]) and all([1, 1])", "True") == "ok");
    CHECK(evaluates_to("isinstance(3, (str, int))", "True") == "ok");
}

TEST_CASE("numpy and math constants are what they are in Python", "[nki][python]") {
    CHECK(evaluates_to("math.ceil(7 / 2)", "4") == "ok");
    CHECK(evaluates_to("math.floor(-0.5)", "-1") == "ok");
    CHECK(evaluates_to("math.sqrt(16)", "4.0") == "ok");
    CHECK(evaluates_to("math.prod([2, 3, 4])", "24") == "ok");
    CHECK(evaluates_to("np.prod((2, 3))", "6") == "ok");
    CHECK(evaluates_to("np.dtype(np.float32).type(0.1)", "0.10000000149011612") == "ok");
    CHECK(evaluates_to("np.uint8(300)", "44") == "ok");
    CHECK(evaluates_to("np.int8(200)", "-56") == "ok");
    CHECK(evaluates_to("nl.tile_size.pmax", "128") == "ok");
    CHECK(evaluates_to("np.float32 == nl.float32", "True") == "ok");
    CHECK(evaluates_to("x.shape[0] * x.ndim", "256") == "ok");
    CHECK(evaluates_to("nl.load(x[:, 3]).shape", "(128, 1)") == "ok");
    CHECK(evaluates_to("nl.load(x).dtype == np.float32", "True") == "ok");
}

namespace {

/// Runs statements that end with the variable `result`.
std::string after(const std::string& statements, const std::string& expected) {
    const auto outcome =
        trace_body(statements + "\nassert result == " + expected + ", result\nreturn x");
    if (!outcome && outcome.error().code == "output_alias") return "ok";
    return outcome ? "no error" : outcome.error().code + ": " + outcome.error().message;
}

}  // namespace

TEST_CASE("statements follow Python", "[nki][python]") {
    CHECK(after("a, (b, *c), d = 1, (2, 3, 4), 5\nresult = [a, b, c, d]", "[1, 2, [3, 4], 5]") ==
          "ok");
    CHECK(after("result = 0\nfor i in range(10):\n    if i == 2:\n        continue\n"
                "    if i == 5:\n        break\n    result += i\nelse:\n    result = -1",
                "8") == "ok");
    CHECK(after("result = 0\nfor i in range(3):\n    result += i\nelse:\n    result += 10", "13") ==
          "ok");
    CHECK(after("result = 1\nwhile result < 100:\n    result *= 3", "243") == "ok");
    CHECK(after("def f(a, b=2, *rest, c, d=4, **more):\n    return [a, b, rest, c, d, more]\n"
                "result = f(1, c=3, e=5)",
                "[1, 2, (), 3, 4, {'e': 5}]") == "ok");
    CHECK(after("def make(n):\n    def add(m):\n        return n + m\n    return add\n"
                "result = make(3)(4)",
                "7") == "ok");
    CHECK(after("def f(n):\n    return 1 if n <= 1 else n * f(n - 1)\nresult = f(10)", "3628800") ==
          "ok");
    CHECK(after("items = [1]\nalias = items\nalias.append(2)\nresult = items", "[1, 2]") == "ok");
    CHECK(after("table = {}\ntable['a'] = 1\ntable['a'] += 4\nresult = table['a']", "5") == "ok");
    CHECK(after("if (n := 3) > 2:\n    result = n", "3") == "ok");
    CHECK(after("result = i = 4\ntotal: int = 3\nresult += total", "7") == "ok");
    CHECK(after("import math as m\nfrom math import pi\nresult = m.floor(pi)", "3") == "ok");
    CHECK(after("total = 0\nfor i, (a, b) in enumerate(zip([1, 2], [3, 4])):\n"
                "    total += i * a * b\nresult = total",
                "8") == "ok");
    CHECK(after("fs = [lambda: n for n in range(3)]\nresult = fs[0]()", "2") == "ok");
}

TEST_CASE("errors of a Python program are rejections with their kind", "[nki][python]") {
    CHECK(verdict("return missing") == "rejected/undefined_name");
    CHECK(verdict("later = later + 1") == "rejected/undefined_name");
    CHECK(verdict("return 1 + 'a'") == "rejected/type_error");
    CHECK(verdict("return [1][5]") == "rejected/value_error");
    CHECK(verdict("return 1 // 0") == "rejected/value_error");
    CHECK(verdict("return 1.0 % 0") == "rejected/value_error");
    CHECK(verdict("a, b = 1, 2, 3") == "rejected/value_error");
    CHECK(verdict("assert False, 'no'") == "rejected/assertion_failed");
    CHECK(verdict("return (lambda a: a)()") == "rejected/type_error");
    CHECK(verdict("return (lambda a: a)(1, 2)") == "rejected/type_error");
    CHECK(verdict("return (3)(4)") == "rejected/type_error");
    CHECK(verdict("return {[1]: 2}") == "rejected/type_error");
    CHECK(verdict("return {1: 2}[3]") == "rejected/value_error");
    CHECK(verdict("return math.sqrt(-1)") == "rejected/value_error");
}

TEST_CASE("the message of an assertion is kept", "[nki][python]") {
    const auto result = trace_body("n = 5\nassert n % 2 == 0, f'n is {n}'\nreturn x");
    REQUIRE_FALSE(result);
    CHECK(result.error().message == "assertion failed: n is 5");
    CHECK(result.error().line == kBodyLine + 1);
}

TEST_CASE("what Python has and kernels do not is unsupported at its line", "[nki][python]") {
    for (const char* body :
         {"n = 1\ntry:\n    pass\nexcept Exception:\n    pass", "n = 1\nraise ValueError('x')",
          "n = 1\nclass A:\n    pass", "n = 1\ndel n", "n = 1\nyield n",
          "n = 1\nwith open_scope():\n    pass"}) {
        INFO(body);
        const auto result = trace_body(body);
        REQUIRE_FALSE(result);
        CHECK(result.error().line == kBodyLine + 1);
        if (std::string(body).find("with") == std::string::npos)
            CHECK(result.error().code == "python_feature");
    }
    CHECK(verdict("return 2 ** 63") == "resource_limit/memory");
    CHECK(verdict("return 9223372036854775807 + 1") == "unsupported/python_feature");
}

TEST_CASE("numpy arrays are computed with at trace time", "[nki][python]") {
    const auto gives = [](const std::string& expression, const std::string& expected) {
        CHECK(evaluates_to(expression, expected) == "ok");
    };
    gives("((np.arange(4, dtype=np.int32) * 7) // 4)[3]", "5");
    gives("(np.arange(1, 5) * 7 + 4 - 1)[0]", "10");
    gives("int((np.arange(4) - 10).max())", "-7");
    gives("(np.arange(4) % 3).sum()", "3");
    gives("(10 - np.arange(4))[1]", "9");
    gives("(np.arange(4) / 2)[1]", "0.5");
    gives("(np.array([[1, 2], [3, 4]]) * np.array([10, 100]))[1, 1]", "400");
    gives("(np.array([[1, 2], [3, 4]]) + np.array([[10], [20]]))[1][0]", "23");
    gives("np.arange(6)[-1]", "5");
    gives("len(np.arange(6) + 1)", "6");
    gives("sum([int(k) for k in np.arange(4) * 2])", "12");
    gives("(np.zeros((2, 3)) + 1).size", "6");
    gives("np.max(np.arange(5) * 3)", "12");
    const auto refused = [](const std::string& expression) {
        return verdict("a = np.arange(4)\nb = " + expression + "\nreturn x");
    };
    CHECK(refused("a + np.arange(3)") == "rejected/shape_mismatch");
    CHECK(refused("a // 0") == "rejected/value_error");
    CHECK(refused("a[4]") == "rejected/value_error");
    CHECK(refused("a[0, 0]") == "rejected/value_error");
    CHECK(refused("a[0:2]") == "unsupported/python_feature");
    CHECK(refused("a + 'x'") == "rejected/type_error");
    CHECK(refused("np.full((2,), 1e300, dtype=np.int32) + 1") == "rejected/value_error");
    CHECK(verdict("a = np.arange(4)\na += 1\nreturn x") == "unsupported/python_feature");
}

TEST_CASE("a table of offsets is read at every loop variable", "[nki][python]") {
    // No loop may be repeated with the offsets of its first iterations.
    const Program program = legal(
        "y = nl.ndarray((128, 6), dtype=x.dtype, buffer=nl.shared_hbm)\n"
        "t = nl.load(x)\n"
        "places = (np.arange(6) * np.arange(6)) % 6\n"
        "for i in nl.sequential_range(6):\n"
        "    nl.store(y[:, places[i]:places[i] + 1], t[:, i:i + 1])\n"
        "return y");
    std::string offsets;
    for (const Operation& operation : program.operations)
        if (operation.opcode == Opcode::kStore) offsets += std::to_string(operation.dst.offset);
    CHECK(offsets == "014341");
}

TEST_CASE("instructions take the name that the samples give them", "[nki][python]") {
    const std::string store = "nl.store(y, u)\nreturn y";
    const std::string head =
        "y = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)\nt = nl.load(x)\n";
    CHECK(verdict(head + "u = nisa.activation(nl.exp, t, name='exp6')\n" + store) == "ok");
    CHECK(verdict(head + "u = nisa.activation(nl.exp, t, **{'name': 'exp6'})\n" + store) == "ok");
    CHECK(verdict(head + "u = nisa.activation(nl.exp, t, nmae='exp6')\n" + store) ==
          "rejected/type_error");
    CHECK(verdict(head + "for i in nl.affine_range(2, name='a'):\n    pass\nu = t\n" + store) ==
          "rejected/type_error");
}

}  // namespace accelopt::nki::test
