#include <catch2/catch.hpp>
#include <filesystem>
#include <sstream>

#include "core/text.h"
#include "trace_support.h"

namespace accelopt::nki::test {
namespace {

/// What a golden kernel declares in its first two lines.
struct Golden {
    std::string path;
    std::string source;
    std::string expected;
    std::vector<Argument> arguments;
};

std::string after(const std::string& line, const std::string& prefix) {
    REQUIRE(line.rfind(prefix, 0) == 0);
    return line.substr(prefix.size());
}

DType dtype_of(const std::string& name) {
    for (int k = 0; k <= static_cast<int>(DType::kBool); ++k)
        if (to_string(static_cast<DType>(k)) == name) return static_cast<DType>(k);
    FAIL("unknown dtype in a golden file: " << name);
    return DType::kFloat32;
}

Argument argument_of(const std::string& text) {
    const std::size_t bracket = text.find('[');
    if (bracket == std::string::npos) {
        if (text == "true" || text == "false") return text == "true";
        if (text.find_first_of(".e") == std::string::npos) return std::int64_t{std::stoll(text)};
        return std::stod(text);
    }
    TensorArgument argument;
    argument.dtype = dtype_of(text.substr(0, bracket));
    for (const std::string& n : split(text.substr(bracket + 1, text.size() - bracket - 2), ','))
        argument.shape.push_back(std::stoll(n));
    return argument;
}

Golden read_golden(const std::filesystem::path& path) {
    Golden golden;
    golden.path = path.filename().string();
    golden.source = read_file(path.string());
    std::istringstream lines(golden.source);
    std::string line;
    std::getline(lines, line);
    golden.expected = after(line, "# expect: ");
    std::getline(lines, line);
    std::istringstream words(after(line, "# args: "));
    for (std::string word; words >> word;) golden.arguments.push_back(argument_of(word));
    return golden;
}

std::vector<Golden> goldens(const std::string& folder) {
    std::vector<std::filesystem::path> paths;
    const std::string root = std::string(ACCELOPT_SOURCE_DIR) + "/tests/golden/nki/" + folder;
    for (const auto& entry : std::filesystem::directory_iterator(root))
        if (entry.path().extension() == ".py") paths.push_back(entry.path());
    std::sort(paths.begin(), paths.end());
    std::vector<Golden> all;
    for (const auto& path : paths) all.push_back(read_golden(path));
    return all;
}

std::string outcome_of(const Golden& golden) {
    TraceOptions options;
    options.limits.steps = 2'000'000;
    const auto result = trace_file(golden.source, golden.arguments, options);
    if (result) return "ok";
    const Finding& finding = result.error();
    CHECK_FALSE(finding.message.empty());
    CHECK(finding.message.find("internal") == std::string::npos);
    const std::string outcome = finding.outcome + "/" + finding.code;
    const bool located = golden.expected.find(" line ") != std::string::npos;
    return located ? outcome + " line " + std::to_string(finding.line) : outcome;
}

}  // namespace

TEST_CASE("every good golden kernel traces", "[nki][golden]") {
    const std::vector<Golden> all = goldens("good");
    REQUIRE(all.size() >= 12);
    for (const Golden& golden : all) {
        INFO(golden.path);
        CHECK(golden.expected == "ok");
        CHECK(outcome_of(golden) == "ok");
    }
}

TEST_CASE("every bad golden kernel gets its documented finding and line", "[nki][golden][N14]") {
    const std::vector<Golden> all = goldens("bad");
    REQUIRE(all.size() >= 35);
    for (const Golden& golden : all) {
        INFO(golden.path);
        CHECK(outcome_of(golden) == golden.expected);
    }
}

}  // namespace accelopt::nki::test
