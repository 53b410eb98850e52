#include <catch2/catch.hpp>

#include "agents/agents.h"

using namespace accelopt;
using namespace accelopt::agents;

namespace {

protocol::Experience parse(const std::string& reply) {
    protocol::Experience experience;
    experience.id = "kept";
    experience.title = "old";
    experience.text = "old";
    parse_summary(reply, experience);
    CHECK(experience.id == "kept");
    return experience;
}

}  // namespace

TEST_CASE("the first bold line or heading is the title and the rest the text") {
    const auto bold = parse("**Hoist the load**\nLoad once.\n\n```python\nx\n```\n");
    CHECK(bold.title == "Hoist the load");
    CHECK(bold.text == "Load once.\n\n```python\nx\n```");
    const auto heading = parse("Here you are.\n\n## Fuse the *chain*\nOne activation.\n");
    CHECK(heading.title == "Fuse the *chain*");
    CHECK(heading.text == "One activation.");
    CHECK(parse("### **Keep w in SBUF**\nIt fits.").title == "Keep w in SBUF");
    const auto inline_text = parse("**Widen the tile:** use 2048 columns.\nFewer DMAs.");
    CHECK(inline_text.title == "Widen the tile");
    CHECK(inline_text.text == "use 2048 columns.\nFewer DMAs.");
    const auto labelled = parse("**Title:** Keep w in SBUF\nIt fits.");
    CHECK(labelled.title == "Keep w in SBUF");
    CHECK(labelled.text == "It fits.");
}

TEST_CASE("a reply without a title has its first sentence as one") {
    const auto plain = parse("Load the tile once. Then reuse it.\nMore.");
    CHECK(plain.title == "Load the tile once");
    CHECK(plain.text == "Load the tile once. Then reuse it.\nMore.");
}

TEST_CASE("a title alone is its own text") {
    CHECK(parse("# Only a title").text == "Only a title");
}

TEST_CASE("nothing found gives an empty title") {
    for (const char* reply :
         {"", " \n", "No optimization found", "**No optimization found**",
          "No optimization found.\nThe kernels are the same.", "# No optimisation was found",
          "no clear optimization could be identified", "There is no meaningful difference.",
          "**None**", "Nothing found."}) {
        CAPTURE(reply);
        const auto experience = parse(reply);
        CHECK(experience.title.empty());
        CHECK(experience.text.empty());
    }
}

TEST_CASE("a title that begins with no is still a title") {
    CHECK(parse("**No-op copies removed**\nx").title == "No-op copies removed");
    CHECK(parse("**No spills with smaller tiles**\nx").title == "No spills with smaller tiles");
    CHECK(parse("**Nothing is reloaded**\nx").title == "Nothing is reloaded");
}

TEST_CASE("an endless title is cut between characters") {
    std::string wide;
    for (int i = 0; i < 200; ++i) wide += "\xC3\xA4";
    const auto experience = parse("**a" + wide + "**\nx");
    CHECK(experience.title.size() <= 160);
    CHECK(experience.title.size() % 2 == 1);
    CHECK(experience.text == "x");
}
