#include "agents/fence.h"

#include <catch2/catch.hpp>

using namespace accelopt::agents;

TEST_CASE("fences are found in order with language, line and text") {
    const auto fences = find_fences("a\n```Python title=x\none\ntwo\n```\nb\n~~~\nthree\n~~~~\n");
    REQUIRE(fences.size() == 2);
    CHECK(fences[0].language == "python");
    CHECK(fences[0].line == 2);
    CHECK(fences[0].text == "one\ntwo\n");
    CHECK(fences[0].closed);
    CHECK(fences[1].language.empty());
    CHECK(fences[1].text == "three\n");
}

TEST_CASE("a longer fence holds a shorter one, and inline code is no fence") {
    const auto fences = find_fences("````\n```\nx\n```\n````\n```not``` a fence\n");
    REQUIRE(fences.size() == 1);
    CHECK(fences[0].text == "```\nx\n```\n");
}

TEST_CASE("a fence inside a triple-quoted string closes nothing", "[N23]") {
    for (const char* quote : {"\"\"\"", "'''"}) {
        const std::string code = std::string("def f():\n    ") + quote + "Doc 'it\n```\nx\n```\n" +
                                 "    " + quote + "\n    return '#', \"'''\"  # don't\n";
        const auto fences = find_fences("```python\n" + code + "```\nrest\n");
        REQUIRE(fences.size() == 1);
        CHECK(fences[0].text == code);
        CHECK(fences[0].closed);
    }
}

TEST_CASE("a string that never ends does not swallow the fence") {
    const auto fences = find_fences("```python\nx = \"\"\"open\n```\nprose\n");
    REQUIRE(fences.size() == 1);
    CHECK(fences[0].closed);
    CHECK(fences[0].text == "x = \"\"\"open\n");
}

TEST_CASE("a fence that is never closed says so", "[N23]") {
    const auto fences = find_fences("```\na\n```\n\n```python\nx = 1\n");
    REQUIRE(fences.size() == 2);
    CHECK(fences[0].closed);
    CHECK_FALSE(fences[1].closed);
    CHECK(fences[1].line == 5);
}

TEST_CASE("the indentation of a fence in a list is taken off, carriage returns too") {
    const auto fences =
        find_fences("1. do\r\n   ```py\r\n   def f():\r\n       pass\r\n   ```\r\n");
    REQUIRE(fences.size() == 1);
    CHECK(fences[0].text == "def f():\n    pass\n");
}

TEST_CASE("a text is fenced by more backticks than it holds") {
    CHECK(fenced("x\n", "python") == "```python\nx\n```");
    CHECK(fenced("a ```` b", "") == "`````\na ```` b\n`````");
    CHECK(find_fences(fenced("```\ny\n```", "")).at(0).text == "```\ny\n```\n");
}
