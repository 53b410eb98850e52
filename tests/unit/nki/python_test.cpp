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

}  // namespace accelopt::nki::test
