#include "agents/edits.h"

#include <catch2/catch.hpp>

using namespace accelopt::agents;

namespace {

std::string block(const std::string& search, const std::string& replace) {
    return "<<<<<<< SEARCH\n" + search + "=======\n" + replace + ">>>>>>> REPLACE\n";
}

const std::string kSource = "import a\n\ndef kernel(x):\n    y = x + 1\n    return y\n";

std::string edited(const std::string& reply) {
    auto result = apply_edits(kSource, find_edits(reply));
    return result.ok() ? *result : "error: " + result.error();
}

}  // namespace

TEST_CASE("edits are applied in order, within fences and prose", "[N23]") {
    const std::string reply = "Two edits.\n```python\n" +
                              block("    y = x + 1\n", "    y = x + 2\n    y = y * 3\n") +
                              "```\nand\n" + block("    y = y * 3\r\n", "") + "done\n";
    CHECK(find_edits(reply).size() == 2);
    CHECK(edited(reply) == "import a\n\ndef kernel(x):\n    y = x + 2\n    return y\n");
}

TEST_CASE("an edit that does not fit is an error that says which", "[N08]") {
    CHECK(edited("\n" + block("    y = x - 1\n", "z\n")) ==
          "error: the lines that the edit in line 2 searches for stand in the kernel 0 times, not "
          "once");
    CHECK(edited(block("y\n", "z\n")).find("0 times") != std::string::npos);  // whole lines only
    CHECK(edited(block("\n", "z\n")) == "error: the edit in line 1 searches for nothing");
    const auto twice = apply_edits("a\nb\na\n", find_edits(block("a\n", "c\n")));
    CHECK(twice.error().find("2 times") != std::string::npos);
}

TEST_CASE("what is no complete block is none", "[N23]") {
    CHECK(find_edits("<<<<<<< SEARCH\na\n=======\nb\n").empty());
    CHECK(has_open_edit("<<<<<<< SEARCH\na\n=======\nb\n"));
    CHECK_FALSE(has_open_edit(block("a\n", "b\n")));
    CHECK(find_edits("=======\n>>>>>>> REPLACE\n").empty());
    CHECK(find_edits("text <<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n").empty());
    // A line of equal signs in the new text is text.
    const auto edits = find_edits(block("a\n", "b\n=======\nc\n"));
    REQUIRE(edits.size() == 1);
    CHECK(edits[0].replace == "b\n=======\nc\n");
}
