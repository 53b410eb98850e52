#include <fmt/format.h>

#include <memory>

#include "cli/commands.h"
#include "core/text.h"
#include "eval/evaluator.h"
#include "eval/problem.h"
#include "report/profile_view.h"

namespace accelopt::cli {
namespace {

struct Options {
    std::string kernel;
    std::string problem;
    std::string target = "trn1";
    std::string shape = "full";
    std::string entry;
    bool no_values = false;
    bool json = false;
};

ExitCode profile(const Options& options) {
    (void)eval::load_problem(options.problem, options.shape);  // a clear error before the work
    protocol::EvaluationRequest request;
    request.id = "profile";
    request.problem = options.problem;
    request.target = options.target;
    request.source = read_file(options.kernel);
    request.shape = options.shape;
    if (!options.entry.empty()) request.entry = options.entry;
    if (options.no_values) request.tiers = {"legality", "timing"};
    eval::Evaluator evaluator({});
    const auto reply = evaluator.evaluate(request);
    if (options.json) {
        fmt::print("{}\n", protocol::to_json(reply));
    } else {
        fmt::print("{}", report::profile_view(reply, options.kernel));
    }
    if (reply.outcome == protocol::Outcome::kEvaluatorError) return ExitCode::kUnitsFailed;
    return reply.outcome == protocol::Outcome::kOk ? ExitCode::kOk : ExitCode::kUsage;
}

}  // namespace

void add_profile(CLI::App& app, Action& action) {
    auto options = std::make_shared<Options>();
    auto* command = app.add_subcommand("profile", "check, run and profile one kernel");
    command->footer(
        "Examples:\n"
        "  accelopt profile nkibench/silu/baseline.py --problem silu\n"
        "  accelopt profile my_kernel.py --problem adamw --no-values --json\n"
        "The exit code is 0 when the kernel is ok, 2 when it is not.");
    command->add_option("kernel", options->kernel, "kernel file (NKI)")->required();
    command->add_option("--problem", options->problem, "problem id or folder")->required();
    command->add_option("--target", options->target, "machine")->capture_default_str();
    command->add_option("--shape", options->shape, "full or test")
        ->check(CLI::IsMember({"full", "test"}))
        ->capture_default_str();
    command->add_option("--entry", options->entry, "kernel function (found by rule)");
    command->add_flag("--no-values", options->no_values, "legality and timing only");
    command->add_flag("--json", options->json, "print the evaluator's reply");
    command->callback([options, &action] { action = [options] { return profile(*options); }; });
}

}  // namespace accelopt::cli
