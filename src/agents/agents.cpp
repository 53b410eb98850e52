#include "agents/agents.h"

#include <fmt/format.h>

#include <utility>

#include "agents/fence.h"
#include "agents/profile_analysis.h"
#include "agents/profile_lines.h"
#include "core/error.h"
#include "core/rng.h"
#include "core/text.h"
#include "nki/interpreter.h"

namespace accelopt::agents {
namespace {

using protocol::Role;

/// "nl: add, exp, ...", one line per module.
std::string api_names() {
    std::vector<std::pair<std::string, std::vector<std::string>>> modules;
    for (const auto& entry : nki::api_entries()) {
        const auto dot = entry.rfind('.');
        const std::string module = dot == std::string::npos ? "" : entry.substr(0, dot);
        const std::string name = dot == std::string::npos ? entry : entry.substr(dot + 1);
        if (modules.empty() || modules.back().first != module) modules.push_back({module, {}});
        modules.back().second.push_back(name);
    }
    std::vector<std::string> lines;
    for (const auto& [module, names] : modules) {
        lines.push_back((module.empty() ? "builtins" : module) + ": " + join(names, ", "));
    }
    return join(lines, "\n");
}

std::string shape_list(const std::vector<std::vector<std::int64_t>>& shapes) {
    std::vector<std::string> items;
    for (const auto& shape : shapes) items.push_back(fmt::format("({})", fmt::join(shape, ", ")));
    return items.empty() ? "(no tensor arguments)" : join(items, ", ");
}

std::string experience_list(const std::vector<protocol::Experience>& experiences) {
    std::string list;
    int number = 0;
    for (const auto& item : experiences) {
        if (item.title.empty()) continue;
        if (!list.empty()) list += "\n\n";
        const char* kind = item.positive ? "a rewrite that made a kernel faster"
                                         : "a rewrite that made a kernel slower, undone";
        list += fmt::format("### {}. {} ({:.2f}x; {})\n{}", ++number, item.title, item.speedup,
                            kind, item.text);
    }
    return list.empty() ? "(none so far)" : list;
}

std::string problem_line(const ProblemFacts& problem) {
    return problem.title.empty() ? problem.id : problem.id + ": " + problem.title;
}

/// A seed that depends on every coordinate of the call and on nothing else.
std::uint64_t call_seed(std::uint64_t seed, const protocol::Unit& unit, Role role, int sample) {
    return RandomStream::keyed(
               seed, fmt::format("{}/round={}/candidate={}/plan={}/order={}/sample={}/{}",
                                 unit.problem, unit.round, unit.candidate.id, unit.plan,
                                 // A summary has no candidate: its place in its step tells it.
                                 unit.kind == protocol::UnitKind::kSummarize ? unit.order : 0,
                                 sample, protocol::to_string(role)))
        .next_u64();
}

const std::string& model_of(const std::map<std::string, std::string>& models, Role role) {
    const auto at = models.find(std::string(protocol::to_string(role)));
    if (at == models.end()) {
        throw Error(ErrorSource::kConfig, "agents",
                    "the configuration's agents name no model for the role " +
                        std::string(protocol::to_string(role)));
    }
    return at->second;
}

}  // namespace

Agents::Agents(Prompts prompts, std::map<std::string, std::string> models, std::uint64_t seed,
               std::map<std::string, ContextLimit> limits)
    : prompts_(std::move(prompts)),
      models_(std::move(models)),
      seed_(seed),
      limits_(std::move(limits)) {}

bool Agents::fits(const llm::Request& request) const {
    const auto limit = limits_.find(request.model);
    if (limit == limits_.end() || limit->second.context_tokens == 0) return true;
    return llm::estimate_tokens(request.messages) + limit->second.max_tokens <=
           limit->second.context_tokens;
}

llm::Request Agents::planner(const protocol::Unit& unit, const ProblemFacts& problem) const {
    const std::string profile_key = fmt::format("{}/round={}/candidate={}/profile", unit.problem,
                                                unit.round, unit.candidate.id);
    std::string profile = "(not profiled)";
    if (unit.candidate.profile) {
        profile =
            shuffled_profile(*unit.candidate.profile, RandomStream::keyed(seed_, profile_key));
    }
    std::string analysis;
    if (unit.candidate.profile) {
        analysis = profile_analysis(*unit.candidate.profile, unit.candidate.source);
        if (!analysis.empty()) analysis.pop_back();  // the template ends the line
    }
    std::map<std::string, std::string> values = {
        {"analysis", analysis.empty() ? "(none)" : analysis},
        {"api", nki::api_list()},
        {"api_entries", api_names()},
        {"experiences", experience_list(unit.experiences)},
        {"input_shapes", shape_list(problem.input_shapes)},
        {"kernel", fenced(unit.candidate.source, "python")},
        {"nki_rules", prompts_.text("nki.rules")},
        {"problem", problem_line(problem)},
        {"profile", profile},
        {"reference", fenced(problem.reference_source, "python")}};
    llm::Request request;
    request.unit_id = unit.id;
    request.problem = unit.problem;
    request.role = Role::kPlanner;
    request.model = model_of(models_, Role::kPlanner);
    std::vector<protocol::Experience> shown = unit.experiences;
    for (;;) {
        request.messages = {{"system", prompts_.fill("planner.system", values)},
                            {"user", prompts_.fill("planner.user", values)}};
        if (shown.empty() || fits(request)) break;
        request.trimmed.push_back("experience " + shown.back().id);
        shown.pop_back();
        values["experiences"] = experience_list(shown);
    }
    request.context.source = unit.candidate.source;
    request.context.profile = unit.candidate.profile;
    request.context.experiences = std::move(shown);
    request.context.input_shapes = problem.input_shapes;
    request.context.seed = call_seed(seed_, unit, Role::kPlanner, 0);
    return request;
}

llm::Request Agents::executor(const protocol::Unit& unit, const ProblemFacts& problem,
                              const std::string& plan, int sample) const {
    const std::map<std::string, std::string> values = {
        {"api", nki::api_list()},
        {"api_entries", api_names()},
        {"input_shapes", shape_list(problem.input_shapes)},
        {"kernel", fenced(unit.candidate.source, "python")},
        {"nki_rules", prompts_.text("nki.rules")},
        {"plan", plan},
        {"problem", problem_line(problem)},
        {"reference", fenced(problem.reference_source, "python")}};
    llm::Request request;
    request.unit_id = unit.id;
    request.problem = unit.problem;
    request.role = Role::kExecutor;
    request.sample = sample;
    request.model = model_of(models_, Role::kExecutor);
    request.messages = {{"system", prompts_.fill("executor.system", values)},
                        {"user", prompts_.fill("executor.user", values)}};
    request.context.source = unit.candidate.source;
    request.context.profile = unit.candidate.profile;
    request.context.plan = plan;
    request.context.input_shapes = problem.input_shapes;
    request.context.seed = call_seed(seed_, unit, Role::kExecutor, sample);
    return request;
}

llm::Request Agents::fixer(const protocol::Unit& unit, const ProblemFacts& problem,
                           const std::string& source, const std::string& diagnostics, int sample,
                           int attempt) const {
    // Calls of one role are told apart by their sample number.
    static constexpr int kAttempts = 1000;
    const int number = sample * kAttempts + attempt;
    const std::map<std::string, std::string> values = {
        {"api", nki::api_list()},
        {"api_entries", api_names()},
        {"diagnostics", fenced(diagnostics, "")},
        {"input_shapes", shape_list(problem.input_shapes)},
        {"kernel", fenced(source, "python")},
        {"nki_rules", prompts_.text("nki.rules")},
        {"problem", problem_line(problem)},
        {"reference", fenced(problem.reference_source, "python")}};
    llm::Request request;
    request.unit_id = unit.id;
    request.problem = unit.problem;
    request.role = Role::kFixer;
    request.sample = number;
    request.model = model_of(models_, Role::kFixer);
    request.messages = {{"system", prompts_.fill("fixer.system", values)},
                        {"user", prompts_.fill("fixer.user", values)}};
    request.context.source = source;
    request.context.input_shapes = problem.input_shapes;
    request.context.seed = call_seed(seed_, unit, Role::kFixer, number);
    return request;
}

llm::Request Agents::summarizer(const protocol::Unit& unit, const ProblemFacts& problem) const {
    const protocol::Experience& pair = unit.experience;
    const std::map<std::string, std::string> values = {
        {"fast_kernel", fenced(pair.fast_source, "python")},
        {"problem", problem_line(problem)},
        {"slow_kernel", fenced(pair.slow_source, "python")},
        {"speedup", fmt::format("{:.3f}", pair.speedup)}};
    llm::Request request;
    request.unit_id = unit.id;
    request.problem = unit.problem;
    request.role = Role::kSummarizer;
    request.model = model_of(models_, Role::kSummarizer);
    request.messages = {{"system", prompts_.fill("summarizer.system", values)},
                        {"user", prompts_.fill("summarizer.user", values)}};
    request.context.pair = pair;
    request.context.input_shapes = problem.input_shapes;
    request.context.seed = call_seed(seed_, unit, Role::kSummarizer, 0);
    return request;
}

}  // namespace accelopt::agents
