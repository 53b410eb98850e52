#include "nki/syntax/parser.h"

#include <catch2/catch.hpp>
#include <string>
#include <thread>
#include <vector>

#include "nki/syntax/ast.h"
#include "nki/syntax/printer.h"

using namespace accelopt::nki;

namespace {

Module parsed(const std::string& source) {
    auto result = parse(source);
    INFO(source.substr(0, 400));
    if (!result.ok()) INFO(result.error().message);
    REQUIRE(result.ok());
    return std::move(result).value();
}

SyntaxError refused(const std::string& source) {
    auto result = parse(source);
    INFO(source.substr(0, 200));
    REQUIRE_FALSE(result.ok());
    CHECK_FALSE(result.error().message.empty());
    CHECK(result.error().message.size() < 400);
    CHECK(result.error().snippet.size() < 400);
    CHECK(result.error().line >= 1);
    CHECK(result.error().column >= 1);
    return result.error();
}

std::string repeated(const std::string& text, int times) {
    std::string result;
    result.reserve(text.size() * static_cast<std::size_t>(times));
    for (int i = 0; i < times; ++i) result += text;
    return result;
}

const Expr& value_of(const Module& module) { return *module.body.at(0)->value; }

}  // namespace

TEST_CASE("a kernel becomes a tree with kinds, names and locations") {
    const Module module = parsed(
        "import neuronxcc.nki.language as nl\n"
        "\n"
        "@nki.jit\n"
        "def kernel(a, *, tile=128):\n"
        "    \"\"\"Doc.\"\"\"\n"
        "    for i in nl.affine_range(4):\n"
        "        a[i, :] += 2 * tile\n"
        "    return a\n");
    REQUIRE(module.body.size() == 2);
    const Stmt& import = *module.body[0];
    CHECK(import.kind == StmtKind::kImport);
    CHECK(import.names.at(0).name == "neuronxcc.nki.language");
    CHECK(import.names.at(0).alias == "nl");

    const Stmt& function = *module.body[1];
    CHECK(function.kind == StmtKind::kFunction);
    CHECK(function.text == "kernel");
    CHECK(function.location.line == 4);
    CHECK(function.location.column == 1);
    CHECK(function.decorators.size() == 1);
    REQUIRE(function.parameters.size() == 2);
    CHECK(function.parameters[0].kind == ParameterKind::kPositional);
    CHECK(function.parameters[1].kind == ParameterKind::kKeywordOnly);
    CHECK(std::get<std::int64_t>(function.parameters[1].default_value->constant) == 128);

    const Stmt& loop = *function.body.at(1);
    CHECK(loop.kind == StmtKind::kFor);
    CHECK(loop.location.column == 5);
    const Stmt& update = *loop.body.at(0);
    CHECK(update.kind == StmtKind::kAugAssign);
    CHECK(update.text == "+");
    CHECK(update.targets.at(0)->kind == ExprKind::kSubscript);
    CHECK(update.targets[0]->operands[1]->operands[1]->kind == ExprKind::kSlice);
    CHECK(update.value->location.line == 7);
    CHECK(update.value->location.column == 20);
    CHECK(update.value->location.end_column == 28);
}

TEST_CASE("every kind of literal keeps its type and value") {
    CHECK(std::get<std::int64_t>(value_of(parsed("x = 9223372036854775807")).constant) ==
          9223372036854775807);
    CHECK(std::get<double>(value_of(parsed("x = 1e-3")).constant) == 1e-3);
    CHECK(std::get<bool>(value_of(parsed("x = True")).constant));
    CHECK(std::holds_alternative<None>(value_of(parsed("x = None")).constant));
    CHECK(std::holds_alternative<Ellipsis>(value_of(parsed("x = ...")).constant));
    CHECK(std::get<std::string>(value_of(parsed("x = 'a\\0\\u00e9' 'b'")).constant) ==
          std::string("a\0\xc3\xa9"
                      "b",
                      5));
}

TEST_CASE("literals without a type of ours are marked and keep their text") {
    const Module big = parsed("x = 9223372036854775808");
    CHECK(value_of(big).kind == ExprKind::kUnsupported);
    CHECK(value_of(big).text == "big integer");
    CHECK(std::get<std::string>(value_of(big).constant) == "0x8000000000000000");
    CHECK(value_of(parsed("x = 0x" + std::string(50000, 'f'))).text == "big integer");
    CHECK(value_of(parsed("x = 2j")).text == "complex");
    CHECK(value_of(parsed("x = b'abc'")).text == "bytes");
    CHECK(value_of(parsed("x = '\\ud800'")).text == "string with a lone surrogate");
}

TEST_CASE("constructs outside the language are marked with Python's name") {
    const auto kind = [](const std::string& source) {
        const Module module = parsed(source);
        const Stmt& stmt = *module.body.at(0);
        return stmt.kind == StmtKind::kUnsupported          ? stmt.text
               : stmt.value->kind == ExprKind::kUnsupported ? stmt.value->text
                                                            : "supported";
    };
    CHECK(kind("class A:\n    pass\n") == "ClassDef");
    CHECK(kind("try:\n    pass\nexcept E:\n    pass\n") == "Try");
    CHECK(kind("raise E") == "Raise");
    CHECK(kind("global x") == "Global");
    CHECK(kind("del x") == "Delete");
    CHECK(kind("match x:\n    case 1: pass\n") == "Match");
    CHECK(kind("async def f():\n    pass\n") == "AsyncFunctionDef");
    CHECK(kind("(yield)") == "Yield");
}

TEST_CASE("parameters, comprehensions and f-strings are converted whole") {
    const Module module = parsed("f = lambda a, /, b=1, *c, d, e=2, **g: a");
    const auto& parameters = value_of(module).parameters;
    REQUIRE(parameters.size() == 6);
    CHECK(parameters[0].default_value == nullptr);
    CHECK(parameters[1].default_value != nullptr);
    CHECK(parameters[2].kind == ParameterKind::kVarArgs);
    CHECK(parameters[3].default_value == nullptr);
    CHECK(std::get<std::int64_t>(parameters[4].default_value->constant) == 2);
    CHECK(parameters[5].kind == ParameterKind::kKwArgs);

    const Module generator = parsed("x = {k: v for k, v in a if k if v for b in c}");
    CHECK(value_of(generator).text == "dict");
    CHECK(value_of(generator).operands.size() == 2);
    REQUIRE(value_of(generator).generators.size() == 2);
    CHECK(value_of(generator).generators[0].conditions.size() == 2);

    const Module text = parsed("x = f'{a!r:>4}b{c:{d}}'");
    const auto& parts = value_of(text).operands;
    REQUIRE(parts.size() == 3);
    CHECK(parts[0]->comparators.at(0) == "r");
    CHECK(parts[0]->text == ">4");
    CHECK(parts[2]->operands.at(1)->kind == ExprKind::kFormatted);
}

TEST_CASE("a syntax error carries message, line, column and the line's text") {
    const SyntaxError error = refused("x = 1\nif x\n    y = 2\n");
    CHECK(error.message == "expected ':'");
    CHECK(error.line == 2);
    CHECK(error.column == 5);
    CHECK(error.snippet == "if x");

    const SyntaxError indent = refused("def f():\nreturn 1\n");
    CHECK(indent.line == 2);
    CHECK(indent.message.find("indented block") != std::string::npos);

    const SyntaxError wide = refused("x = '\xc3\xa9\xc3\xa9' $ 1\n");
    CHECK(wide.line == 1);
    CHECK(wide.column == 12);  // in bytes, as in the tree
}

TEST_CASE("line ends and a byte order mark do not move locations") {
    for (const std::string source : {"a = 1\r\nb = 2\r\n", "a = 1\rb = 2\r",
                                     "\xef\xbb\xbf"
                                     "a = 1\nb = 2\n"}) {
        const Module module = parsed(source);
        REQUIRE(module.body.size() == 2);
        CHECK(module.body[1]->location.line == 2);
        CHECK(module.source == "a = 1\nb = 2\n");
    }
    CHECK(parsed("# -*- coding: latin-1 -*-\nx = '\xc3\xa9'\n").body.size() == 1);
    CHECK(parsed("").body.empty());
    CHECK(parsed("# only a comment").body.empty());
}

TEST_CASE("bytes that are not text are refused with their place") {
    SyntaxError error = refused(std::string("x = 1\ny = \0\n", 12));
    CHECK(error.message.find("NUL") != std::string::npos);
    CHECK(error.line == 2);
    CHECK(error.column == 5);
    for (const char* bad : {"\xff", "\xc0\x80", "\xe2\x82", "\xed\xa0\x80", "\xf4\x90\x80\x80",
                            "\x80", "\xf0\x80\x80\x80"}) {
        error = refused(std::string("x = 1\n#") + bad);
        CHECK(error.message.find("UTF-8") != std::string::npos);
        CHECK(error.line == 2);
        CHECK(error.column == 2);
    }
    CHECK(refused(std::string((4u << 20) + 1, '#')).message.find("limit") != std::string::npos);
    CHECK(parse(std::string(4u << 20, '#')).ok());
}

TEST_CASE("hostile nesting is refused, not a crash") {
    const int deep = 100000;
    refused(repeated("(", deep));
    refused(repeated("(", deep) + "1" + repeated(")", deep));
    refused(repeated("[", deep) + repeated("]", deep));
    refused(repeated("{", deep));
    refused(repeated("(", 150) + "1" + repeated(")", 150) + " $");
    refused("x = " + repeated("-", deep) + "1");
    refused("x = " + repeated("not ", deep) + "1");
    refused("x = a" + repeated(".b", deep));
    refused("x = a" + repeated("[0]", deep));
    refused("x = a" + repeated("()", deep));
    refused("x = 1" + repeated("+1", deep));
    refused("x = 1" + repeated("**1", deep));
    refused("x = " + repeated("lambda:", deep) + "1");
    refused("x = " + repeated("1 if 1 else ", deep) + "1");
    refused("if a:\n    pass\n" + repeated("elif a:\n    pass\n", deep));
    std::string blocks;
    for (int i = 0; i < 200; ++i)
        blocks += std::string(static_cast<std::size_t>(i), ' ') + "if a:\n";
    refused(blocks + std::string(200, ' ') + "pass\n");
    refused("x = f'{" + repeated("f\"{", 50) + "'");
}

TEST_CASE("the depth limit names the place and its boundary holds") {
    const auto chain = [](int attributes) { return "x = a" + repeated(".b", attributes) + "\n"; };
    CHECK(parse(chain(398)).ok());  // statement, attributes, name: 400 levels
    const SyntaxError error = refused("y = 1\n" + chain(399));
    CHECK(error.message.find("too many nested") != std::string::npos);
    CHECK(error.line == 2);
    // The deepest tree accepted can be copied, compared, printed, hashed and parsed again.
    const Module module = parsed(chain(398));
    const Module copy = clone(module);
    CHECK(equal(copy, module));
    CHECK(equal(parsed(print(copy)), module));
    CHECK(normalised_hash(copy) == normalised_hash(module));
}

TEST_CASE("long inputs without nesting are parsed") {
    CHECK(parsed("x = '" + std::string(1 << 20, 'a') + "'").body.size() == 1);
    CHECK(parsed("x = [" + repeated("1, ", 100000) + "]").body.size() == 1);
    CHECK(parsed(repeated("x = 1\n", 20000)).body.size() == 20000);
    refused(std::string(1 << 20, 'a') + " " + std::string(1 << 20, 'b'));
    refused("x = " + std::string(1 << 20, '9'));  // Python's limit on decimal digits
}

TEST_CASE("parsing runs from several threads at once") {
    std::vector<std::thread> threads;
    std::vector<int> good(4, 0);
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([t, &good] {
            for (int i = 0; i < 25; ++i) {
                const std::string source =
                    "x" + std::to_string(t) + " = f(" + std::to_string(i) + ")\n";
                auto result = parse(source);
                if (result.ok() && print(result.value()) == source)
                    ++good[static_cast<std::size_t>(t)];
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK(good == std::vector<int>(4, 25));
}

TEST_CASE("nothing of a source is executed") {
    CHECK(parse("import os\nos.abort()\nraise SystemExit(3)\nwhile True: pass\n").ok());
}
