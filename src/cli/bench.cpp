#include "report/bench.h"

#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "cli/commands.h"
#include "core/text.h"
#include "eval/evaluator.h"
#include "eval/problem.h"
#include "eval/suite_evaluator.h"
#include "report/peak_mean.h"

namespace accelopt::cli {
namespace {

using protocol::EvaluationReply;

struct Options {
    std::string target = "trn1";
    std::string problems;
    std::string suite;
    std::string seeds = "published";
    std::string rule;  ///< "": conditioned for our problems, published for a suite
    std::string shape = "full";
    std::string format = "text";
    bool no_values = false;
    bool json = false;

    /// The table shows figures only: the rest is not looked for.
    int profile_rows() const { return json ? protocol::kProfileRows : 0; }
};

void show_progress(const Options& options, const std::string& id) {
    if (!options.json) std::fprintf(stderr, "evaluating %s ...\n", id.c_str());
}

std::vector<EvaluationReply> run_shipped(const Options& options) {
    const auto problems =
        options.problems.empty() ? eval::shipped_problems() : split(options.problems, ',');
    eval::Evaluator evaluator({});
    std::vector<EvaluationReply> replies;
    for (const auto& id : problems) {
        const eval::Problem problem = eval::load_problem(id, options.shape);
        protocol::EvaluationRequest request;
        request.id = id;
        request.problem = id;
        request.target = options.target;
        request.source = problem.baseline_source;
        request.shape = options.shape;
        request.profile_rows = options.profile_rows();
        if (!options.rule.empty()) request.rule = options.rule;
        request.tiers.push_back("order");
        if (options.no_values) request.tiers = {"legality", "timing"};
        show_progress(options, id);
        replies.push_back(evaluator.evaluate(request));
    }
    return replies;
}

std::vector<EvaluationReply> run_suite(const Options& options) {
    const eval::Suite suite = eval::load_suite(options.suite);
    std::vector<const eval::SuiteProblem*> chosen;
    if (options.problems.empty()) {
        for (const auto& problem : suite.problems) chosen.push_back(&problem);
    } else {
        for (const auto& id : split(options.problems, ',')) {
            chosen.push_back(&eval::find_problem(suite, id));
        }
    }
    eval::SuiteEvaluator evaluator(options.target);
    std::vector<EvaluationReply> replies;
    for (const eval::SuiteProblem* problem : chosen) {
        eval::SuiteRequest request;
        request.id = problem->id;
        request.values = !options.no_values;
        request.profile_rows = options.profile_rows();
        if (!options.rule.empty()) request.rule = options.rule;
        request.seeds =
            options.seeds == "own" ? eval::SuiteSeeds::kOwn : eval::SuiteSeeds::kPublished;
        show_progress(options, problem->id);
        replies.push_back(evaluator.evaluate_baseline(*problem, request));
    }
    return replies;
}

std::string verdict_of(const EvaluationReply& reply) {
    std::string text = reply.problem + ": " + std::string(to_string(reply.outcome));
    return reply.reason.empty() ? text : text + "/" + reply.reason;
}

void print(const std::vector<EvaluationReply>& replies, const Options& options) {
    if (options.json) {
        std::string text = "{\"problems\": [";
        for (std::size_t i = 0; i < replies.size(); ++i) {
            text += (i ? ", " : "") + protocol::to_json(replies[i]);
        }
        fmt::print("{}]}}\n", text);
        return;
    }
    fmt::print("{}", report::render_bench(replies, options.format));
    if (options.format == "text") fmt::print("{}", report::peak_mean_line(replies));
    std::fflush(stdout);
    for (const auto& reply : replies) {
        if (reply.outcome == protocol::Outcome::kOk) continue;
        std::fprintf(stderr, "%s\n", verdict_of(reply).c_str());
        for (const auto& diagnostic : reply.diagnostics) {
            std::fprintf(stderr, "%s", render(diagnostic, reply.problem).c_str());
        }
    }
    if (!options.suite.empty() && !options.no_values && options.rule != "conditioned") {
        std::fprintf(stderr,
                     "values by the suite's rule (L2 norm per output), weaker than the bound of "
                     "our own problems (--rule conditioned)\n");
    }
}

ExitCode bench(const Options& options) {
    const auto replies = options.suite.empty() ? run_shipped(options) : run_suite(options);
    print(replies, options);
    for (const auto& reply : replies) {
        if (reply.outcome != protocol::Outcome::kOk) return ExitCode::kUnitsFailed;
    }
    return ExitCode::kOk;
}

}  // namespace

void add_bench(CLI::App& app, Action& action) {
    auto options = std::make_shared<Options>();
    auto* command =
        app.add_subcommand("bench", "evaluate the shipped baselines: predicted beside measured");
    command->footer(
        "Examples:\n"
        "  accelopt bench                        all problems, values checked on five seeds\n"
        "  accelopt bench --no-values            profiles only, a few seconds\n"
        "  accelopt bench --problems silu,adamw --json\n"
        "  accelopt bench --suite NKIBench       the kernels of a checkout of NKIBench, in its\n"
        "                                        published layout, with its own references\n"
        "  accelopt bench --suite NKIBench --rule conditioned\n"
        "                                        the same kernels by our rule, on our inputs and\n"
        "                                        stress sets\n"
        "The exit code is 4 when a baseline is not ok.");
    command->add_option("--target", options->target, "machine: configs/hardware/TARGET.yaml")
        ->capture_default_str();
    command->add_option("--problems", options->problems, "comma-separated problem ids (all)");
    auto* suite = command->add_option("--suite", options->suite,
                                      "checkout with summary.json, kernels/ and reference/");
    command
        ->add_option("--seeds", options->seeds,
                     "with --suite: published (0, 21, 42, 63, 84) or own (derived)")
        ->check(CLI::IsMember({"published", "own"}))
        ->capture_default_str()
        ->needs(suite);
    command
        ->add_option("--rule", options->rule,
                     "conditioned (every element; our default) or published (L2 norm; of suites)")
        ->check(CLI::IsMember({"conditioned", "published"}));
    command->add_option("--shape", options->shape, "full or test")
        ->check(CLI::IsMember({"full", "test"}))
        ->capture_default_str()
        ->excludes(suite);
    command->add_flag("--no-values", options->no_values, "skip the values");
    command->add_option("--format", options->format, "text, csv, md or latex")
        ->capture_default_str();
    command->add_flag("--json", options->json, "print {\"problems\": [replies]}");
    command->callback([options, &action] { action = [options] { return bench(*options); }; });
}

}  // namespace accelopt::cli
