#include "eval/suite.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/text.h"

namespace accelopt::eval {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

[[noreturn]] void fail(const std::string& file, const std::string& what,
                       const std::string& remedy) {
    throw Error(ErrorSource::kUser, "suite", file + ": " + what + "; " + remedy);
}

constexpr const char* kRemedy =
    "--suite takes a checkout of NKIBench: a folder with summary.json, kernels/ and reference/";

fs::path find_summary(const std::string& path) {
    const fs::path given(path);
    if (given.filename() == "summary.json" && fs::is_regular_file(given)) return given;
    for (const fs::path& candidate : {given / "summary.json", given / "NKIBench/summary.json"}) {
        if (fs::is_regular_file(candidate)) return candidate;
    }
    fail(path, fs::exists(given) ? "there is no summary.json" : "there is no such folder", kRemedy);
}

Json parse(const fs::path& file) {
    try {
        return Json::parse(read_file(file.string()));
    } catch (const Json::parse_error& error) {
        fail(file.string(), "not JSON: " + std::string(error.what()), kRemedy);
    }
}

/// The member `key` of an object, or an error that says where it is missing.
const Json& member(const Json& object, const std::string& key, const fs::path& file,
                   const std::string& where) {
    if (!object.is_object() || !object.contains(key)) {
        fail(file.string(), where + " has no \"" + key + "\"",
             "each problem has cases, each case values and impls, each impl task and kernel");
    }
    return object[key];
}

std::string path_member(const Json& impl, const std::string& key, const fs::path& file,
                        const std::string& where) {
    const Json& value = member(impl, key, file, where);
    if (!value.is_string()) {
        fail(file.string(), where + ": \"" + key + "\" is no path", "name a file of the checkout");
    }
    return (file.parent_path() / value.get<std::string>()).lexically_normal().string();
}

std::vector<std::pair<std::string, std::int64_t>> values_of(const Json& entry) {
    std::vector<std::pair<std::string, std::int64_t>> values;
    if (!entry.is_object() || !entry.contains("values") || !entry["values"].is_object()) return {};
    for (const auto& [name, value] : entry["values"].items()) {
        if (value.is_number_integer()) values.emplace_back(name, value.get<std::int64_t>());
    }
    return values;
}

void read_problem(const std::string& name, const Json& problem, const fs::path& file,
                  std::vector<SuiteProblem>& out) {
    const std::size_t first = out.size();
    const Json& cases = member(problem, "cases", file, "problem '" + name + "'");
    if (!cases.is_object())
        fail(file.string(), "the cases of '" + name + "' are no object", kRemedy);
    for (const auto& [label, entry] : cases.items()) {
        const std::string where = "case '" + label + "' of '" + name + "'";
        const Json& impls = member(entry, "impls", file, where);
        if (!impls.is_array()) fail(file.string(), where + ": impls is no list", kRemedy);
        for (std::size_t i = 0; i < impls.size(); ++i) {
            SuiteProblem made;
            made.name = name;
            made.id = name + ":" + label + ":" + std::to_string(i);
            made.values = values_of(entry);
            made.reference_path = path_member(impls[i], "task", file, where);
            made.kernel_path = path_member(impls[i], "kernel", file, where);
            out.push_back(std::move(made));
        }
    }
    if (out.size() == first + 1) out.back().id = name;
}

}  // namespace

Suite load_suite(const std::string& path) {
    const fs::path file = find_summary(path);
    const Json summary = parse(file);
    if (!summary.is_object()) fail(file.string(), "the top level is no object", kRemedy);
    Suite suite;
    suite.folder = file.parent_path().string();
    for (const auto& [name, problem] : summary.items()) {
        read_problem(name, problem, file, suite.problems);
    }
    if (suite.problems.empty()) fail(file.string(), "it names no problem", kRemedy);
    std::sort(suite.problems.begin(), suite.problems.end(),
              [](const SuiteProblem& a, const SuiteProblem& b) { return a.id < b.id; });
    return suite;
}

const SuiteProblem& find_problem(const Suite& suite, const std::string& id) {
    std::vector<std::string> known;
    for (const SuiteProblem& problem : suite.problems) {
        if (problem.id == id) return problem;
        known.push_back(problem.id);
    }
    const std::string near = nearest_word(id, known);
    throw Error(ErrorSource::kUser, "unknown_problem",
                "the suite has no problem '" + id + "'" +
                    (near.empty() ? "" : "; did you mean '" + near + "'?") +
                    " (known: " + join(known, ", ") + ")");
}

}  // namespace accelopt::eval
