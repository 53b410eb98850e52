#include "report/diff.h"

#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "core/rng.h"
#include "core/text.h"

using accelopt::RandomStream;
using accelopt::report::unified_diff;

namespace {

std::vector<std::string> lines_of(const std::string& text) {
    std::vector<std::string> lines;
    std::size_t start = 0;
    while (start < text.size()) {
        const auto end = text.find('\n', start);
        const auto next = end == std::string::npos ? text.size() : end + 1;
        lines.push_back(text.substr(start, next - start));
        start = next;
    }
    return lines;
}

/// Applies a unified diff, checking every line number and every kept or removed line.
std::string patched(const std::string& before, const std::string& diff) {
    const auto source = lines_of(before);
    const auto script = lines_of(diff);
    std::string result;
    std::size_t at = 0;
    std::size_t result_lines = 0;
    for (std::size_t i = 2; i < script.size(); ++i) {
        std::string line = script[i];
        if (line[0] == '\\') continue;
        if (line[0] == '@') {
            long from = 0, from_count = 1, to = 0, to_count = 1;
            if (std::sscanf(line.c_str(), "@@ -%ld,%ld", &from, &from_count) < 2) from_count = 1;
            const std::string plus = line.substr(line.find('+'));
            if (std::sscanf(plus.c_str(), "+%ld,%ld", &to, &to_count) < 2) to_count = 1;
            const auto start = static_cast<std::size_t>(from_count == 0 ? from : from - 1);
            REQUIRE(start >= at);
            for (; at < start; ++at, ++result_lines) result += source.at(at);
            REQUIRE(result_lines == static_cast<std::size_t>(to_count == 0 ? to : to - 1));
            continue;
        }
        std::string content = line.substr(1);
        if (i + 1 < script.size() && script[i + 1][0] == '\\') content.pop_back();
        if (line[0] != '+') REQUIRE(source.at(at++) == content);
        if (line[0] != '-') {
            result += content;
            ++result_lines;
        }
    }
    for (; at < source.size(); ++at) result += source[at];
    return result;
}

std::string random_text(RandomStream& random) {
    std::string text;
    const auto lines = random.below(30);
    for (std::uint64_t i = 0; i < lines; ++i) {
        text += "line " + std::to_string(random.below(6)) + "\n";
    }
    if (!text.empty() && random.below(4) == 0) text.pop_back();
    return text;
}

int changed_lines(const std::string& diff) {
    int count = 0;
    const auto script = lines_of(diff);
    for (std::size_t i = 2; i < script.size(); ++i) {
        count += script[i][0] == '+' || script[i][0] == '-' ? 1 : 0;
    }
    return count;
}

/// Edit distance without substitution, by the plain table.
int shortest_script(const std::string& before, const std::string& after) {
    const auto a = lines_of(before);
    const auto b = lines_of(after);
    std::vector<std::vector<int>> common(a.size() + 1, std::vector<int>(b.size() + 1, 0));
    for (std::size_t i = 1; i <= a.size(); ++i) {
        for (std::size_t j = 1; j <= b.size(); ++j) {
            common[i][j] = a[i - 1] == b[j - 1] ? common[i - 1][j - 1] + 1
                                                : std::max(common[i - 1][j], common[i][j - 1]);
        }
    }
    return static_cast<int>(a.size() + b.size()) - 2 * common[a.size()][b.size()];
}

}  // namespace

TEST_CASE("Equal texts have no diff") {
    CHECK(unified_diff("a\nb\n", "a\nb\n", "x", "y").empty());
    CHECK(unified_diff("", "", "x", "y").empty());
}

TEST_CASE("A changed line stands between three lines of context") {
    const std::string before = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
    const std::string after = "1\n2\n3\n4\nfive\n6\n7\n8\n9\n";
    CHECK(unified_diff(before, after, "a.py", "b.py") ==
          "--- a.py\n+++ b.py\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n");
}

TEST_CASE("Changes share a hunk while their contexts touch, and part beyond that") {
    std::string before;
    for (int i = 1; i <= 20; ++i) before += std::to_string(i) + "\n";
    const auto with_changes = [&](int first, int second) {
        std::string text;
        for (int i = 1; i <= 20; ++i) {
            text += i == first || i == second ? "changed\n" : std::to_string(i) + "\n";
        }
        return text;
    };
    const auto hunks = [&](int first, int second) {
        const auto lines = lines_of(unified_diff(before, with_changes(first, second), "a", "b"));
        return std::count_if(lines.begin(), lines.end(), [](const auto& l) { return l[0] == '@'; });
    };
    CHECK(hunks(5, 12) == 1);  // six unchanged lines between
    CHECK(hunks(5, 13) == 2);  // seven
}

TEST_CASE("Empty sides and missing last newlines follow the format of diff -u") {
    CHECK(unified_diff("", "a\n", "x", "y") == "--- x\n+++ y\n@@ -0,0 +1 @@\n+a\n");
    CHECK(unified_diff("a\n", "", "x", "y") == "--- x\n+++ y\n@@ -1 +0,0 @@\n-a\n");
    CHECK(unified_diff("a", "a\n", "x", "y") ==
          "--- x\n+++ y\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n");
}

TEST_CASE("Applying the diff of random texts gives the second, by a shortest script") {
    RandomStream random(42);
    for (int round = 0; round < 500; ++round) {
        const std::string before = random_text(random);
        const std::string after = random_text(random);
        const std::string diff = unified_diff(before, after, "a", "b");
        REQUIRE(patched(before, diff) == after);
        REQUIRE(changed_lines(diff) == shortest_script(before, after));
    }
}

TEST_CASE("The diff is what diff -u prints for a kernel's change") {
    const auto folder =
        std::filesystem::temp_directory_path() / ("accelopt-diff-" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder);
    std::string before;
    for (int i = 0; i < 60; ++i) before += "statement_" + std::to_string(i) + " = " + "load()\n";
    std::string after = before;
    after.replace(after.find("statement_7 "), 12, "renamed ");
    after.erase(after.find("statement_30"),
                after.find("statement_33") - after.find("statement_30"));
    after += "return statement_59\n";
    std::ofstream(folder / "a") << before;
    std::ofstream(folder / "b") << after;
    const std::string command = "cd " + folder.string() + " && diff -u a b | tail -n +3 > expected";
    REQUIRE(std::system(command.c_str()) == 0);
    const std::string expected = accelopt::read_file((folder / "expected").string());
    REQUIRE(!expected.empty());
    CHECK(unified_diff(before, after, "a", "b") == "--- a\n+++ b\n" + expected);
    std::filesystem::remove_all(folder);
}

TEST_CASE("Texts without anything in common are replaced without a long search") {
    std::string before;
    std::string after;
    for (int i = 0; i < 20'000; ++i) {
        before += "b" + std::to_string(i) + "\n";
        after += "a" + std::to_string(i) + "\n";
    }
    CHECK(patched(before, unified_diff(before, after, "a", "b")) == after);
}
