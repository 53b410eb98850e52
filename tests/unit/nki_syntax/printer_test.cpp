#include "nki/syntax/printer.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "core/text.h"
#include "nki/syntax/parser.h"

using namespace accelopt::nki;

namespace {

Module parsed(const std::string& source) {
    auto result = parse(source);
    INFO(source);
    if (!result.ok()) {
        FAIL(result.error().message << " at " << result.error().line << ":" << result.error().column
                                    << " in\n"
                                    << source);
    }
    return std::move(result).value();
}

void check_round_trip(const std::string& source) {
    INFO(source);
    const Module module = parsed(source);
    const std::string printed = print(module);
    INFO(printed);
    const Module again = parsed(printed);
    CHECK(equal(again, module));
    CHECK(print(again) == printed);
    CHECK(normalised_hash(again) == normalised_hash(module));
}

std::string reprinted(const std::string& source) { return print(parsed(source)); }

/// Sources that are already printed as they stand.
const std::vector<std::string> kCanonical = {
    "x = 1\n",
    "x = a + b * c - d\n",
    "x = (a + b) * c\n",
    "x = a - (b - c)\n",
    "x = a - b - c\n",
    "x = a / (b / c) // d % e @ f\n",
    "x = -a ** -b\n",
    "x = (-a) ** b ** c\n",
    "x = (a ** b) ** c\n",
    "x = ~a & b | c ^ d << e >> 2\n",
    "x = (a | b) & c\n",
    "x = not a and b or c and (d or e)\n",
    "x = not (a and b)\n",
    "x = a < b <= c != d is not e in f not in g\n",
    "x = (a < b) == (c < d)\n",
    "x = (not a) == b\n",
    "x = a if b else c if d else e\n",
    "x = (a if b else c) if (d if e else f) else g\n",
    "x = (lambda: 1)()\n",
    "x = lambda a, *b, c=1, **d: a + 1\n",
    "x = lambda *, a: a\n",
    "x = (lambda: a) if b else lambda: c\n",
    "x, y = a, b\n",
    "x, = a,\n",
    "x, *y = (a, (b, c), ())\n",
    "x = y = (a := 1)\n",
    "[x, y] = a\n",
    "x[1:2, ::3, :, 4:, ..., None] = y[a, b][0]\n",
    "x = y[(a, b), c]\n",
    "x = y[()]\n",
    "x = y[1:2,]\n",
    "x = y[*a, b]\n",
    "x: int = 3\n",
    "x.y: int\n",
    "x += a, b\n",
    "x **= 2\n",
    "x = f(a, *b, c=1, **d)\n",
    "x = f(a for a in b)\n",
    "x = f((a for a in b), c)\n",
    "x = [a for a, b in c if d if not e for f in g]\n",
    "x = {a for a in (lambda: b)}\n",
    "x = {a: b for a, in c}\n",
    "x = {a: b, **c, \"d\": [1, 2], \"e\": {1}}\n",
    "x = {}\n",
    "x = (a, b)[0]\n",
    "x = (1).real\n",
    "x = (1.5).real\n",
    "x = \"a\".join(b)\n",
    "x = 1.0 + 1e+16 + 1e-07 + 0.1 + 1e999\n",
    "x = \"a\\\"b'c\\\\d\\n\\t\\x00\\x1b\"\n",
    "x = f\"a{b}c{{d}}\"\n",
    "x = f\"{a!r:>{b}.3f}{c:04d}\"\n",
    "x = f\"{a['b']}\"\n",
    "x = f\"{ {1: 2}}{(lambda: 1)}\"\n",
    "x = f\"{a}\\n\"\n",
    "return_value = (yield)\n",
    "x = (await_ := 3)\n",
    "def f():\n    return\n",
    "def f(a: int, b=1, *c: str, d: float = 2.0, **e) -> g:\n    return a, b\n",
    "@nki.jit\n@other(mode=1)\ndef f():\n    pass\n",
    "for i, (j, k) in a, b:\n    break\nelse:\n    continue_ = 1\n",
    "while not a:\n    continue\nelse:\n    pass\n",
    "if a:\n    pass\nelif b:\n    pass\nelse:\n    if c:\n        pass\n    x = 1\n",
    "with a as b, c(d) as (e, f), g:\n    pass\n",
    "with ((a, b)):\n    pass\n",
    "assert a, \"message\"\n",
    "assert (a, b)\n",
    "import a.b as c, d\n",
    "from ..a.b import c as d, e\n",
    "from . import *\n",
    "\"\"\"Doc\nstring.\n\"\"\"\n",
    "\"doc\"\n",
    "x = (9223372036854775808)\n",
    "class A(B):\n    def f(self):\n        pass\n\n    x = 1\n",
    "def f():\n    global x, y\n    try:\n        x = 1\n    except E:\n        pass\n",
    "def f():\n    return [*a, *b], {*c}\n",
};

/// Sources whose printed form differs in layout only.
const std::vector<std::string> kOther = {
    "x = ( a\n  + b )\n",
    "if a: x = 1; y = 2\n",
    "x = '\\u00e9' \"\"\"b\"\"\" 'c\\r\\f\\x7f'\n",
    "x = f'''{a[\"b\"]}{c['d']}'''\n",
    "x = f'{a}' 'b{}' f\"{c['d']}\"\n",
    "x = f'{f\"{a}\"}'\n",
    "x = f'''{f\"{a['b']}\"}'''\n",
    "x = f'{a=}'\n",
    "x = f'{a:{b}{c}}'\n",
    "x = f\"{a!s}{b!a}\"\n",
    "x = f''\n",
    "x = f'{{}}'\n",
    "x = f'{\"it\"}\\\\'\n",
    "x = f'''{\"\"\"\n\"\"\"}'''\n",
    "x = f'{a if b else c}{(d, e)}{-1}{[f for f in g]}'\n",
    "x = 0x10 + 0b11 + 1_000 + 1e3\n",
    "x = 1j + b'a'[0] + 123456789012345678901234567890 ** 2\n",
    "x = '\\ud800'\n",
    "def f(a, /, b): pass\n",
    "async def f():\n  await g()\n",
    "class A:\n  '''doc\n  more'''\n  def f(self):\n    return 1\n",
    "@decorator\nclass A:\n\n  x = 1\n",
    "with (open(a) as b, c): pass\n",
    "with (a.b).c: pass\n",
    "def f():\n  '''one\n\n  \"two\" \\\\ three\"\"\"\"'''\n  return 1\n",
    "match x:\n  case [1, *_]:\n    y = 1\n",

    "x = a[b, c:d, (e, f)](g)(*h)[i].j\n",
    "x = (a, b) + (c,) * 2\n",
    "x = a < (b < c)\n",
    "x = - - + ~ not_\n",
    "for x in (yield_ for y in z): pass\n",
    "for x in *a, b: pass\n",
    "x = {**{'a': 1}, **(b or c)}\n",
    "f(*(a or b), **(c if d else e))\n",
    "x = [(y := f(z)), y]\n",
    "while (x := f()): pass\n",
    "x = lambda: (yield)\n",
    "x = a if (b := c) else d\n",
    "x = not_ if not a else (not b)\n",
    "print(f'{x:%Y-%m-%d}')\n",
    "\xce\xb1 = '\xe2\x82\xac'\n",
};

}  // namespace

TEST_CASE("printed sources parse to the same tree") {
    for (const std::string& source : kCanonical) check_round_trip(source);
    for (const std::string& source : kOther) {
        check_round_trip(source);
    }
    check_round_trip("async def f():\n    x = [i async for i in y]\n");
}

TEST_CASE("parentheses are minimal and the layout is canonical") {
    for (const std::string& source : kCanonical) {
        if (source.find("9223372036854775808") != std::string::npos) continue;  // printed in hex
        if (source.find("(a, (b, c), ())") != std::string::npos) continue;      // opened
        CHECK(reprinted(source) == source);
    }
    CHECK(reprinted("x, *y = (a, (b, c), ())\n") == "x, *y = a, (b, c), ()\n");
    CHECK(reprinted("x = 9223372036854775808\n") == "x = (0x8000000000000000)\n");
    CHECK(reprinted("if a: x = 1; y = 2 # note\n") == "if a:\n    x = 1\n    y = 2\n");
    CHECK(reprinted("import a\ndef f(): pass\ndef g(): pass\nx = 1\n") ==
          "import a\n\n\ndef f():\n    pass\n\n\ndef g():\n    pass\n\n\nx = 1\n");
}

TEST_CASE("statements and expressions print on their own") {
    const Module module = parsed("for i in a:\n    b[i] = 1\n");
    CHECK(print(*module.body[0], 1) == "    for i in a:\n        b[i] = 1\n");
    CHECK(print(*module.body[0]->body[0]->targets[0]) == "b[i]");
}

TEST_CASE("trees that a rewrite may build print as valid source") {
    Module module = parsed("x = a ** b\n");
    Expr& power = *module.body[0]->value;
    power.operands[0] = std::make_unique<Expr>();
    power.operands[0]->constant = std::int64_t{-2};
    power.operands[1] = std::make_unique<Expr>();
    power.operands[1]->constant = -0.5;
    CHECK(print(module) == "x = (-2) ** -0.5\n");
    Module empty = parsed("for i in a:\n    pass\n");
    empty.body[0]->body.clear();
    CHECK(print(empty) == "for i in a:\n    pass\n");
}

TEST_CASE("the shipped baselines survive a round trip") {
    const std::filesystem::path root = std::filesystem::path(ACCELOPT_SOURCE_DIR) / "nkibench";
    if (!std::filesystem::exists(root)) return;
    for (const auto& entry : std::filesystem::directory_iterator(root)) {
        const auto kernel = entry.path() / "baseline.py";
        if (std::filesystem::exists(kernel)) check_round_trip(accelopt::read_file(kernel.string()));
    }
}
