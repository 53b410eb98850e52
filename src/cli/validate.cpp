#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "core/text.h"
#include "eval/evaluator.h"
#include "eval/problem.h"

namespace accelopt::cli {
namespace {

struct Options {
    std::vector<std::string> problems;
    std::string shape = "full";
    std::string target = "trn1";
    std::string cache;
    bool json = false;
};

/// What is known about one problem.
struct Validation {
    std::string problem;
    std::string fault;  ///< a sentence that names the problem, or ""
    bool external = false;
    eval::TaskReport task;
    protocol::EvaluationReply baseline;
};

std::string figure(const std::optional<double>& value) {
    return value ? fmt::format("{:.3g}", *value) : "n/a";
}

void progress(const std::string& text) { std::fprintf(stderr, "%s\n", text.c_str()); }

std::string baseline_fault(const protocol::EvaluationReply& reply) {
    if (reply.verified()) return "";
    std::string text = "its baseline is " + std::string(to_string(reply.outcome));
    if (!reply.reason.empty()) text += "/" + reply.reason;
    if (!reply.tier.empty()) text += " in tier " + reply.tier;
    if (!reply.diagnostics.empty()) text += ": " + reply.diagnostics[0].message;
    return text;
}

Validation validate_one(eval::Evaluator& evaluator, const std::string& id, const Options& options) {
    Validation result;
    result.problem = id;
    const eval::Problem problem = eval::load_problem(id, options.shape);
    progress(id + ": references and trivial answers at the test shape");
    result.task = evaluator.check_task(id);
    if (!result.task.ok()) {
        const char* code = result.task.fault.empty() ? "task/insensitive" : "reference_failed";
        result.fault = fmt::format("{}: problem {}: {}", code, id, result.task.complaint());
        return result;
    }
    progress(id + ": baseline through every tier at the " + options.shape + " shape");
    protocol::EvaluationRequest request;
    request.id = id;
    request.problem = id;
    request.target = options.target;
    request.shape = options.shape;
    request.source = problem.baseline_source;
    request.secret = "validate";
    request.tiers.push_back("order");
    result.baseline = evaluator.evaluate(request);
    const std::string fault = baseline_fault(result.baseline);
    if (!fault.empty()) result.fault = "problem " + id + ": " + fault;
    return result;
}

void print(const Validation& result) {
    const auto& task = result.task;
    fmt::print("{}  rule {}, {} {:g}, {} input sets\n", result.problem, task.rule,
               task.rule == "conditioned" ? "c =" : "tolerance", task.constant, task.sets.size());
    for (const auto& answer : task.answers) {
        const char* state = answer.honest ? (answer.as_it_should ? "passes" : "FAILS")
                                          : (answer.as_it_should ? "fails" : "PASSES");
        fmt::print("  {:<28} {:<7} {:>10} on {}\n", answer.name, state, figure(answer.error),
                   answer.set);
    }
    const auto& reply = result.baseline;
    if (!reply.machine.empty()) {
        double worst = 0;
        std::string where = "nominal";
        for (const auto& row : reply.correctness) {
            const double error =
                row.max_conditioned ? *row.max_conditioned : row.rel_l2.value_or(0);
            if (error > worst) {
                worst = error;
                where = row.input;
            }
        }
        fmt::print("  {:<28} {:<7} {:>10.3g} on {}\n", "baseline",
                   reply.verified() ? "passes" : "FAILS", worst, where);
    }
    if (!result.fault.empty()) fmt::print("  error: {}\n", result.fault);
}

nlohmann::json to_json(const Validation& result) {
    nlohmann::json answers = nlohmann::json::array();
    for (const auto& answer : result.task.answers) {
        nlohmann::json error = nullptr;
        if (answer.error && *answer.error < 1e300) error = *answer.error;
        answers.push_back({{"answer", answer.name},
                           {"honest", answer.honest},
                           {"as_it_should", answer.as_it_should},
                           {"input", answer.set},
                           {"error", error}});
    }
    nlohmann::json baseline = nullptr;
    if (!result.baseline.machine.empty()) {
        baseline = nlohmann::json::parse(protocol::to_json(result.baseline));
    }
    return {
        {"problem", result.problem},
        {"ok", result.fault.empty()},
        {"error", result.fault.empty() ? nlohmann::json(nullptr) : nlohmann::json(result.fault)},
        {"rule", result.task.rule},
        {"constant", result.task.constant},
        {"inputs", result.task.sets},
        {"answers", answers},
        {"baseline", baseline}};
}

ExitCode validate(const Options& options) {
    const auto problems = options.problems.empty() ? eval::shipped_problems() : options.problems;
    for (const auto& id : problems) {
        (void)eval::load_problem(id, options.shape);  // a clear error before the work
    }
    eval::EvaluatorOptions evaluator_options;
    evaluator_options.cache_directory = options.cache;
    eval::Evaluator evaluator(evaluator_options);
    nlohmann::json all = nlohmann::json::array();
    int faults = 0;
    for (const auto& id : problems) {
        const Validation result = validate_one(evaluator, id, options);
        faults += result.fault.empty() ? 0 : 1;
        if (options.json) {
            all.push_back(to_json(result));
        } else {
            print(result);
            std::fflush(stdout);
        }
    }
    if (options.json) fmt::print("{}\n", nlohmann::json{{"problems", all}}.dump());
    if (faults > 0)
        progress(fmt::format("accelopt: {} of {} problems are not fit for use", faults,
                             problems.size()));
    return faults > 0 ? ExitCode::kUnitsFailed : ExitCode::kOk;
}

}  // namespace

void add_validate(CLI::App& app, Action& action) {
    auto options = std::make_shared<Options>();
    auto* command = app.add_subcommand(
        "validate", "problems: references run, trivial answers fail, baselines pass");
    command->footer(
        "Examples:\n"
        "  accelopt validate                     all shipped problems\n"
        "  accelopt validate my/problem --shape test\n"
        "For each problem: the float32 reference must pass every input set; zeros, the mean, "
        "copies\n"
        "of inputs, inputs rounded to bfloat16 and the formula without each minor term must fail "
        "on\n"
        "one; the baseline must pass every tier. The figures are errors in units of the rule.\n"
        "The exit code is 4 when a problem is not fit for use, 2 when it cannot be read.");
    command->add_option("problems", options->problems, "problem ids or folders (all shipped)");
    command->add_option("--shape", options->shape, "shape of the baseline's run: full or test")
        ->check(CLI::IsMember({"full", "test"}))
        ->capture_default_str();
    command->add_option("--target", options->target, "machine")->capture_default_str();
    command->add_option("--cache", options->cache, "folder that keeps references between runs");
    command->add_flag("--json", options->json, "print {\"problems\": [...]}");
    command->callback([options, &action] { action = [options] { return validate(*options); }; });
}

}  // namespace accelopt::cli
