#include "report/bench.h"

#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "cli/commands.h"
#include "core/text.h"
#include "eval/evaluator.h"
#include "eval/problem.h"

namespace accelopt::cli {
namespace {

struct Options {
    std::string target = "trn1";
    std::string problems;
    std::string shape = "full";
    std::string format = "text";
    bool no_values = false;
    bool json = false;
};

ExitCode bench(const Options& options) {
    const auto problems =
        options.problems.empty() ? eval::shipped_problems() : split(options.problems, ',');
    eval::Evaluator evaluator({});
    std::vector<protocol::EvaluationReply> replies;
    bool all_ok = true;
    for (const auto& id : problems) {
        const eval::Problem problem = eval::load_problem(id, options.shape);
        protocol::EvaluationRequest request;
        request.id = id;
        request.problem = id;
        request.target = options.target;
        request.source = problem.baseline_source;
        request.shape = options.shape;
        if (options.no_values) request.tiers = {"legality", "timing"};
        if (!options.json) std::fprintf(stderr, "evaluating %s ...\n", id.c_str());
        replies.push_back(evaluator.evaluate(request));
        all_ok = all_ok && replies.back().outcome == protocol::Outcome::kOk;
    }
    if (options.json) {
        std::string text = "{\"problems\": [";
        for (std::size_t i = 0; i < replies.size(); ++i) {
            text += (i ? ", " : "") + protocol::to_json(replies[i]);
        }
        fmt::print("{}]}}\n", text);
    } else {
        fmt::print("{}", report::render_bench(replies, options.format));
    }
    return all_ok ? ExitCode::kOk : ExitCode::kUnitsFailed;
}

}  // namespace

void add_bench(CLI::App& app, Action& action) {
    auto options = std::make_shared<Options>();
    auto* command =
        app.add_subcommand("bench", "evaluate the shipped baselines: predicted beside measured");
    command->footer(
        "Examples:\n"
        "  accelopt bench                        all problems, values checked on five seeds\n"
        "  accelopt bench --no-values            profiles only, a second or two\n"
        "  accelopt bench --problems silu,adamw --json\n"
        "The exit code is 4 when a baseline is not ok.");
    command->add_option("--target", options->target, "machine: configs/hardware/TARGET.yaml")
        ->capture_default_str();
    command->add_option("--problems", options->problems, "comma-separated problem ids (all)");
    command->add_option("--shape", options->shape, "full or test")
        ->check(CLI::IsMember({"full", "test"}))
        ->capture_default_str();
    command->add_flag("--no-values", options->no_values, "skip the values");
    command->add_option("--format", options->format, "text, csv, md or latex")
        ->capture_default_str();
    command->add_flag("--json", options->json, "print {\"problems\": [replies]}");
    command->callback([options, &action] { action = [options] { return bench(*options); }; });
}

}  // namespace accelopt::cli
