#include "cluster/run_context.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <thread>

#include "cluster/framing.h"
#include "config/resolved.h"
#include "core/error.h"
#include "core/hash.h"
#include "core/text.h"
#include "core/version.h"
#include "eval/reference/reference_definition.h"
#include "eval/suite.h"
#include "nki/syntax/parser.h"
#include "nki/syntax/printer.h"

namespace accelopt::cluster {

using protocol::LlmOutcome;

std::string RunContext::serialise() const {
    std::ostringstream header;
    header << launch << ' ' << ranks << ' ' << (coordinator_works ? 1 : 0) << ' ' << machine_hash;
    return frame(header.str(), frame(directory, config.resolved));
}

RunContext RunContext::parse(const std::string& payload) {
    RunContext context;
    const auto [header, rest] = unframe(payload);
    const auto [directory, resolved] = unframe(rest);
    std::istringstream in(header);
    int works = 0;
    in >> context.launch >> context.ranks >> works >> context.machine_hash;
    require(!in.fail(), "malformed start message");
    context.coordinator_works = works != 0;
    context.directory = directory;
    context.config = config::parse_resolved_config(resolved, directory + "/resolved.yaml");
    return context;
}

std::string RunContext::secret() const {
    if (config.secret_env) {
        const char* value = std::getenv(config.secret_env->c_str());
        if (!value || !*value) {
            throw Error(ErrorSource::kConfig, "secret_env",
                        "run.secret_env: the environment variable " + *config.secret_env +
                            " is not set on this rank");
        }
        return sha256_hex("accelopt-run-secret/" + std::string(value));
    }
    return sha256_hex("accelopt-run-seed/" + std::to_string(config.seed));
}

std::string RunContext::evaluation_key(const std::string& problem,
                                       const std::string& definition_sha256,
                                       const std::string& source) const {
    return sha256_hex("evaluation/" + problem + "/" + definition_sha256 + "/" + config.shape + "/" +
                      config.target + "/" + machine_hash + "/" + config.verify_rule + "/" +
                      std::to_string(config.verify_seeds.size()) +
                      (config.verify_published_seeds ? " published" : "") +
                      (config.verify_tiers == config::RunConfig().verify_tiers
                           ? ""
                           : " " + join(config.verify_tiers, " ")) +
                      (config.verify_stress ? " stress" : "") +
                      (config.verify_order ? " order" : "") + "/" + sha256_hex(secret()) + "/" +
                      std::string(kVersion) + "/" + sha256_hex(source))
        .substr(0, 32);
}

void RunContext::place(llm::ModelOptions& options) const {
    options.run_id = sha256_hex(directory).substr(0, 8);
    if (options.folder == "auto") options.folder = directory + "/batch/" + options.key;
}

std::string RunContext::why_ended(LlmOutcome outcome) const {
    if (outcome == LlmOutcome::kBudget) return "budget exhausted";
    if (outcome == LlmOutcome::kQuotaExhausted) {
        return "a model's service says that its quota is used up";
    }
    if (outcome == LlmOutcome::kAuth) {
        return "a model's service refuses the key, or cannot be trusted (accelopt doctor says "
               "more)";
    }
    std::vector<std::string> folders;
    for (const auto& [key, model] : config.models) {
        if (model.provider != "batch") continue;
        llm::ModelOptions options;
        options.key = key;
        options.folder = model.folder;
        place(options);
        folders.push_back("answer " + options.folder + "/requests/*.jsonl into " + options.folder +
                          "/answers");
    }
    return "waiting for batch answers: " + join(folders, "; ");
}

std::string RunContext::cache_directory() const {
    if (config.evaluator_cache) return *config.evaluator_cache;
    const char* temporary = std::getenv("TMPDIR");
    return std::string(temporary && *temporary ? temporary : "/tmp") + "/accelopt-cache-" +
           std::to_string(getuid());
}

std::optional<ExitCode> ends_run(LlmOutcome outcome) {
    switch (outcome) {
        case LlmOutcome::kCancelled:  // a question of a batch, without an answer so far
            return ExitCode::kInterrupted;
        case LlmOutcome::kBudget:
        case LlmOutcome::kQuotaExhausted:
            return ExitCode::kBudget;
        case LlmOutcome::kAuth:
            return ExitCode::kUsage;
        case LlmOutcome::kOk:
        case LlmOutcome::kTruncatedStream:
        case LlmOutcome::kLength:
        case LlmOutcome::kReasoningExhausted:
        case LlmOutcome::kRefused:
        case LlmOutcome::kFiltered:
        case LlmOutcome::kMalformed:
        case LlmOutcome::kEmpty:
        case LlmOutcome::kRateLimited:
        case LlmOutcome::kOverloaded:
        case LlmOutcome::kServerError:
        case LlmOutcome::kContextOverflow:
        case LlmOutcome::kTimeout:
            return std::nullopt;
    }
    return std::nullopt;
}

BudgetLimits budget_limits(const config::RunConfig& config) {
    BudgetLimits limits;
    limits.usd = config.budget_usd;
    limits.calls = config.budget_calls;
    limits.problem_usd = config.budget_problem_usd;
    for (const auto& [key, model] : config.models) {
        if (model.budget_usd) limits.model_usd[key] = *model.budget_usd;
    }
    return limits;
}

search::CampaignOptions campaign_options(const config::RunConfig& config) {
    search::CampaignOptions o;
    o.strategy = config.search.strategy;
    o.variant = config.search.variant;
    o.beam = config.search.beam;
    o.plans = config.search.plans;
    o.samples = config.search.samples;
    o.rounds = config.search.rounds;
    o.elitist = config.search.elitist;
    o.tie = config.search.tie;
    o.memory_scope = config.memory.scope;
    o.top_k = config.memory.top_k;
    o.capacity = config.memory.capacity;
    o.positive_threshold = config.memory.positive_threshold;
    o.negative_threshold = config.memory.negative_threshold;
    o.seed = config.seed;
    return o;
}

std::string starting_kernel(const config::RunConfig& config, const std::string& problem) {
    if (!config.suite) return eval::load_problem(problem, config.shape).baseline_path;
    return eval::find_problem(eval::load_suite(*config.suite), problem).kernel_path;
}

void choose_suite_problems(config::RunConfig& config) {
    if (!config.suite) return;
    config.suite = std::filesystem::absolute(*config.suite).lexically_normal().string();
    const eval::Suite suite = eval::load_suite(*config.suite);
    if (config.problems.empty()) {
        for (const eval::SuiteProblem& problem : suite.problems)
            if (config.problems.empty() || config.problems.back() != problem.name)
                config.problems.push_back(problem.name);
    }
    for (const auto& id : config.problems) {
        const std::string& kernel = eval::find_problem(suite, id).kernel_path;
        if (!std::filesystem::is_regular_file(kernel))
            throw Error(ErrorSource::kUser, "suite", kernel + ": the suite has no such kernel");
    }
    config.resolved = config::write_resolved(config);
}

std::vector<search::ProblemStart> problem_starts(const config::RunConfig& config) {
    std::vector<search::ProblemStart> starts;
    for (const auto& id : config.problems) {
        const std::string path = starting_kernel(config, id);
        const std::string source = read_file(path);
        auto module = nki::parse(source);
        if (!module.ok()) {
            throw Error(
                ErrorSource::kConfig, "baseline",
                path + ":" + std::to_string(module.error().line) + ": " + module.error().message);
        }
        starts.push_back({id, source, nki::normalised_hash(*module)});
    }
    return starts;
}

int automatic_slots(int workers_on_node) {
    const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
    return std::max(1, cores / std::max(1, workers_on_node));
}

agents::ProblemFacts problem_facts(const eval::Problem& problem) {
    agents::ProblemFacts facts;
    facts.id = problem.id;
    facts.title = problem.title;
    auto definition = eval::reference_definition(read_file(problem.reference_path));
    if (!definition) {
        throw Error(ErrorSource::kConfig, "reference",
                    problem.reference_path + ": " + definition.error());
    }
    facts.reference_source = std::move(*definition);
    for (const auto& input : problem.inputs) {
        if (input.tensor) facts.input_shapes.push_back(input.kernel_shape);
    }
    return facts;
}

}  // namespace accelopt::cluster
