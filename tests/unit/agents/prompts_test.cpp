#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "agents/agents.h"
#include "core/error.h"
#include "core/text.h"

using namespace accelopt;
using namespace accelopt::agents;
namespace fs = std::filesystem;

namespace {

/// A copy of the shipped templates that a test may spoil.
class TemplateFolder {
  public:
    TemplateFolder() {
        fs::remove_all(path_);
        fs::copy(std::string(ACCELOPT_SOURCE_DIR) + "/configs/prompts", path_,
                 fs::copy_options::recursive);
    }
    ~TemplateFolder() { fs::remove_all(path_); }

    std::string read(const std::string& name) const { return read_file(path_ + "/" + name); }
    void write(const std::string& name, const std::string& text) const {
        std::ofstream(path_ + "/" + name) << text;
    }
    void replace(const std::string& name, const std::string& from, const std::string& to) const {
        std::string text = read(name);
        const auto at = text.find(from);
        REQUIRE(at != std::string::npos);
        write(name, text.replace(at, from.size(), to));
    }
    void remove(const std::string& name) const { fs::remove(path_ + "/" + name); }
    /// The message of the error at load, "" when there is none.
    std::string error() const {
        try {
            Prompts prompts(path_);
        } catch (const Error& error) {
            CHECK(error.source() == ErrorSource::kConfig);
            return error.what();
        }
        return "";
    }

  private:
    std::string path_ = std::string(ACCELOPT_BINARY_DIR) + "/prompts_test";
};

}  // namespace

TEST_CASE("the shipped templates load") {
    TemplateFolder folder;
    CHECK(folder.error().empty());
}

TEST_CASE("an unknown placeholder is told with file, line and the likely name") {
    TemplateFolder folder;
    folder.write("executor.user.md", "one\ntwo {{kernal}}\n" + folder.read("executor.user.md"));
    CHECK_THAT(folder.error(), Catch::Contains("executor.user.md:2: ") &&
                                   Catch::Contains("{{kernal}}") &&
                                   Catch::Contains("did you mean {{kernel}}"));
}

TEST_CASE("a placeholder of another role is unknown") {
    TemplateFolder folder;
    folder.write("planner.user.md", folder.read("planner.user.md") + "{{plan}}");
    CHECK_THAT(folder.error(), Catch::Contains("planner.user.md:") && Catch::Contains("{{plan}}"));
}

TEST_CASE("a placeholder that no template of its role uses is told with file and line") {
    TemplateFolder folder;
    folder.replace("summarizer.user.md", "{{fast_kernel}}", "the fast one");
    CHECK_THAT(folder.error(),
               Catch::Contains("summarizer.user.md:") && Catch::Contains("{{fast_kernel}}"));
}

TEST_CASE("the list of functions may be left out, or be names alone") {
    TemplateFolder folder;
    folder.replace("planner.system.md", "{{api}}", "(as you know them)");
    folder.replace("executor.system.md", "{{api}}", "{{api_entries}}");
    CHECK(folder.error().empty());
    folder.write("summarizer.user.md", folder.read("summarizer.user.md") + "{{api}}\n");
    CHECK_THAT(folder.error(),
               Catch::Contains("summarizer.user.md:") && Catch::Contains("{{api}}"));
}

TEST_CASE("a placeholder may move between the two templates of its role") {
    TemplateFolder folder;
    folder.replace("planner.system.md", "{{experiences}}", "(see below)");
    folder.write("planner.user.md", folder.read("planner.user.md") + "{{experiences}}\n");
    CHECK(folder.error().empty());
}

TEST_CASE("a misspelt pair of braces is told with file and line") {
    TemplateFolder folder;
    for (const char* text : {"{{ plan }}", "{{Plan}}", "{{plan}", "{{", "{{}}"}) {
        CAPTURE(text);
        folder.write("executor.system.md", std::string("first\n") + text);
        CHECK_THAT(folder.error(), Catch::Contains("executor.system.md:2: "));
    }
}

TEST_CASE("a missing template is told with its path") {
    TemplateFolder folder;
    folder.remove("planner.system.md");
    CHECK_THAT(folder.error(), Catch::Contains("planner.system.md"));
}

TEST_CASE("a placeholder in the shared rules is unknown") {
    TemplateFolder folder;
    folder.write("nki.rules.md", "a\nb\n{{kernel}}\n");
    CHECK_THAT(folder.error(), Catch::Contains("nki.rules.md:3: "));
}

TEST_CASE("values replace placeholders once and are not expanded") {
    TemplateFolder folder;
    folder.write("summarizer.user.md", "{{speedup}}{{problem}}-{{slow_kernel}}-{{fast_kernel}}.");
    folder.write("summarizer.system.md", "no placeholder");
    const Prompts prompts(std::string(ACCELOPT_BINARY_DIR) + "/prompts_test");
    CHECK(prompts.fill("summarizer.user", {{"speedup", "{{problem}}"},
                                           {"problem", "P"},
                                           {"slow_kernel", ""},
                                           {"fast_kernel", "F"}}) == "{{problem}}P--F.");
}
