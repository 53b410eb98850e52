#include <fmt/format.h>

#include <memory>

#include "cli/commands.h"
#include "cli/kernel_arguments.h"
#include "cli/terminal_style.h"
#include "cli/trace_option.h"
#include "core/error.h"
#include "core/text.h"
#include "eval/evaluator.h"
#include "eval/plain_kernel.h"
#include "eval/problem.h"
#include "eval/suite_evaluator.h"
#include "report/profile_view.h"

namespace accelopt::cli {
namespace {

struct Options {
    std::string kernel;
    std::string problem;
    std::string suite;
    std::string target = "trn1";
    std::string shape = "full";
    KernelArgumentOptions arguments;
    TraceOption trace;
    eval::KernelObserver observer;  ///< of the trace
    std::optional<int> width;
    bool no_values = false;
    bool json = false;
    bool full = false;

    int profile_rows() const { return full ? -1 : protocol::kProfileRows; }
};

[[noreturn]] void fail_usage(const std::string& message) {
    throw Error(ErrorSource::kUser, "usage", message);
}

protocol::EvaluationReply profile_problem(const Options& options) {
    (void)eval::load_problem(options.problem, options.shape);  // a clear error before the work
    protocol::EvaluationRequest request;
    request.id = "profile";
    request.problem = options.problem;
    request.target = options.target;
    request.source = read_file(options.kernel);
    request.shape = options.shape;
    request.entry = options.arguments.entry();
    request.profile_rows = options.profile_rows();
    if (options.no_values) request.tiers = {"legality", "timing"};
    eval::EvaluatorOptions evaluator_options;
    evaluator_options.observer = options.observer;
    eval::Evaluator evaluator(evaluator_options);
    return evaluator.evaluate(request);
}

protocol::EvaluationReply profile_suite(const Options& options) {
    const eval::Suite suite = eval::load_suite(options.suite);
    const eval::SuiteProblem& problem = eval::find_problem(suite, options.problem);
    eval::SuiteRequest request;
    request.id = "profile";
    request.source = read_file(options.kernel);
    request.entry = options.arguments.entry();
    request.values = !options.no_values;
    request.profile_rows = options.profile_rows();
    request.observer = options.observer;
    return eval::SuiteEvaluator(options.target).evaluate(problem, request);
}

protocol::EvaluationReply profile_plain(const Options& options) {
    eval::PlainKernelRequest request;
    request.id = "profile";
    request.source = read_file(options.kernel);
    request.entry = options.arguments.entry();
    request.target = options.target;
    request.grid = options.arguments.grid();
    request.values = !options.no_values;
    request.profile_rows = options.profile_rows();
    request.observer = options.observer;
    for (auto& argument : options.arguments.arguments()) {
        request.names.push_back(std::move(argument.name));
        request.arguments.push_back(std::move(argument.value));
    }
    return eval::evaluate_plain_kernel(request);
}

protocol::EvaluationReply evaluate(const Options& options) {
    if (!options.problem.empty()) {
        if (options.arguments.given()) {
            fail_usage(
                "--input and --kwarg are for kernels without a problem; a problem declares "
                "its arguments itself");
        }
        return options.suite.empty() ? profile_problem(options) : profile_suite(options);
    }
    if (!options.suite.empty()) fail_usage("--suite needs --problem, one of the suite's problems");
    if (!options.arguments.given()) {
        fail_usage(
            "say what to run the kernel on: --problem ID, or its arguments by "
            "--input 'x=float32[128,512]' and --kwarg eps=1e-5");
    }
    return profile_plain(options);
}

std::string view(const protocol::EvaluationReply& reply, const Options& options) {
    report::ProfileViewOptions view_options;
    view_options.kernel_name = options.kernel;
    view_options.source = read_file(options.kernel);
    view_options.style = terminal_style(options.width);
    return report::profile_view(reply, view_options);
}

ExitCode profile(Options& options) {
    options.observer = options.trace.observer(options.kernel);
    const auto reply = evaluate(options);
    if (options.json) {
        fmt::print("{}\n", protocol::to_json(reply));
    } else {
        fmt::print("{}", view(reply, options));
    }
    std::fflush(stdout);
    fmt::print(stderr, "{}", options.trace.report());
    if (reply.outcome == protocol::Outcome::kOk) return ExitCode::kOk;
    const bool ours =
        reply.outcome == protocol::Outcome::kEvaluatorError && reply.reason != "bad_request";
    return ours ? ExitCode::kUnitsFailed : ExitCode::kUsage;
}

}  // namespace

void add_profile(CLI::App& app, Action& action) {
    auto options = std::make_shared<Options>();
    auto* command = app.add_subcommand("profile", "check, run and profile one kernel");
    command->footer(
        "A kernel of a problem:\n"
        "  accelopt profile nkibench/silu/baseline.py --problem silu\n"
        "  accelopt profile my_kernel.py --problem adamw --no-values --json\n"
        "  accelopt profile my_kernel.py --problem adamw --no-values --trace adamw.json\n"
        "  accelopt profile my_kernel.py --suite NKIBench --problem matmul    a checkout's "
        "problem\n"
        "\n" +
        KernelArgumentOptions::help() +
        "\n"
        "  accelopt profile my_kernel.py --entry scale_rows --input 'x=float32[256,512]' \\\n"
        "      --kwarg factor=2.5\n"
        "Its inputs are seeded random numbers; without a reference the values are checked for "
        "NaN,\n"
        "infinities and missing stores only, which the report says.\n"
        "\n"
        "The exit code is 0 when the kernel is ok, 2 when it is not.");
    command->add_option("kernel", options->kernel, "kernel file (NKI)")->required();
    command->add_option("--problem", options->problem, "problem id or folder");
    command->add_option("--suite", options->suite,
                        "checkout with summary.json, kernels/ and reference/");
    options->arguments.add_to(*command);
    command->add_option("--target", options->target, "machine")->capture_default_str();
    command->add_option("--shape", options->shape, "full or test")
        ->check(CLI::IsMember({"full", "test"}))
        ->capture_default_str();
    command->add_flag("--no-values", options->no_values, "legality and timing only");
    command->add_flag("--full", options->full, "all lines, parts of the path and tensors");
    command->add_option("--width", options->width, "columns (default: the terminal's, or 100)")
        ->check(CLI::Range(40, 1000));
    options->trace.add_to(*command);
    command->add_flag("--json", options->json, "print the evaluator's reply");
    command->callback([options, &action] { action = [options] { return profile(*options); }; });
}

}  // namespace accelopt::cli
