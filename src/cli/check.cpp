#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/kernel_arguments.h"
#include "core/text.h"
#include "eval/evaluator.h"
#include "eval/kernel_checks.h"
#include "eval/problem.h"
#include "nki/interpreter.h"
#include "nki/lint.h"
#include "nki/syntax/parser.h"
#include "protocol/evaluation.h"
#include "trainium/execute.h"

namespace accelopt::cli {
namespace {

struct Options {
    std::string kernel;
    std::string problem;
    std::string target = "trn1";
    std::string shape = "full";
    KernelArgumentOptions arguments;
    bool json = false;
    bool list_api = false;
};

/// What a check came to.
struct Report {
    std::string outcome = "ok";  ///< of the first error, as an evaluation would report it
    std::string reason;
    bool traced = false;  ///< shapes were known
    std::int64_t operations = 0;
    std::vector<protocol::Diagnostic> diagnostics;

    void add(const nki::Finding& finding, const std::string& severity, const std::string& source) {
        // The text's own findings come first; a trace stops at one of them again.
        for (const protocol::Diagnostic& known : diagnostics)
            if (known.line == finding.line && known.code == finding.code &&
                known.severity == severity)
                return;
        protocol::Diagnostic diagnostic = eval::to_diagnostic(finding, source);
        diagnostic.severity = severity;
        diagnostics.push_back(std::move(diagnostic));
        if (severity != "error" || outcome != "ok") return;
        outcome = finding.outcome;
        reason = finding.code;
    }
    std::int64_t count(const char* severity) const {
        return std::count_if(diagnostics.begin(), diagnostics.end(),
                             [&](const auto& d) { return d.severity == severity; });
    }
};

/// Traces the kernel and checks what needs no values: capacity, lifetimes, uninitialised reads and,
/// when there is a problem, the outputs.
void check_shapes(const Options& options, const nki::Module& module, const std::string& source,
                  Report& report) {
    const trainium::Machine machine = eval::load_machine(options.target);
    nki::TraceOptions trace;
    trace.entry = options.arguments.entry();
    trace.limits.partitions = machine.partitions;
    trace.limits.sbuf_partition_bytes = machine.sbuf_partition_bytes;
    trace.limits.psum_partition_bytes = machine.psum_partition_bytes;
    trace.limits.psum_bank_bytes = machine.psum_bank_bytes;
    std::optional<eval::Problem> problem;
    std::vector<nki::Argument> arguments;
    if (!options.problem.empty()) {
        problem = eval::load_problem(options.problem, options.shape);
        arguments = problem->kernel_arguments();
    } else {
        for (auto& argument : options.arguments.arguments())
            arguments.push_back(std::move(argument.value));
    }
    report.traced = true;
    const auto program = nki::trace(module, arguments, trace);
    if (!program) return report.add(program.error(), "error", source);
    report.operations = static_cast<std::int64_t>(program->operations.size());
    auto finding = trainium::check_legality(*program, machine);
    if (!finding && problem) finding = eval::check_outputs(*program, *problem);
    if (finding) report.add(*finding, "error", source);
}

void note_precision_ban(const std::string& source, Report& report) {
    auto banned = eval::find_precision_ban(source);
    if (!banned) return;
    banned->message = "the text 'float16' (also in bfloat16) is banned under verify.rule published";
    banned->remedy = "nothing to do under rule conditioned, which bounds the error instead";
    report.add(*banned, "note", source);
}

Report check_source(const Options& options, const std::string& source) {
    Report report;
    const auto module = nki::parse(source);
    if (!module) {
        nki::Finding finding;
        finding.outcome = finding.code = "syntax_error";
        finding.message = module.error().message;
        finding.line = module.error().line;
        finding.column = module.error().column;
        report.add(finding, "error", source);
        return report;
    }
    for (const nki::LintFinding& found : nki::lint(*module))
        report.add(found.finding, found.severity, source);
    note_precision_ban(source, report);
    if (!options.problem.empty() || options.arguments.given())
        check_shapes(options, *module, source, report);
    std::stable_sort(report.diagnostics.begin(), report.diagnostics.end(),
                     [](const auto& a, const auto& b) { return a.line < b.line; });
    return report;
}

void print_json(const Options& options, const Report& report) {
    nlohmann::json diagnostics = nlohmann::json::array();
    for (const protocol::Diagnostic& diagnostic : report.diagnostics)
        diagnostics.push_back(nlohmann::json::parse(protocol::to_json(diagnostic)));
    const nlohmann::json json = {
        {"schema", protocol::kSchemaVersion},
        {"kernel", options.kernel},
        {"outcome", report.outcome},
        {"reason", report.reason.empty() ? nlohmann::json(nullptr) : nlohmann::json(report.reason)},
        {"shapes_checked", report.traced},
        {"operations", report.operations},
        {"diagnostics", diagnostics}};
    fmt::print("{}\n", json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

void print_text(const Options& options, const Report& report) {
    for (const protocol::Diagnostic& diagnostic : report.diagnostics)
        fmt::print("{}", protocol::render(diagnostic, options.kernel));
    const std::int64_t errors = report.count("error");
    const std::int64_t warnings = report.count("warning");
    fmt::print("{}: {}", options.kernel, errors == 0 ? "ok" : report.outcome);
    if (!report.reason.empty() && report.reason != report.outcome) fmt::print("/{}", report.reason);
    fmt::print(", {} error{}, {} warning{}", errors, errors == 1 ? "" : "s", warnings,
               warnings == 1 ? "" : "s");
    if (report.operations > 0) fmt::print(", {} operations", report.operations);
    fmt::print("\n");
    if (!report.traced && errors == 0)
        fmt::print(
            "Only the text was checked. Shapes, memories and capacity need --problem or "
            "--input.\n");
}

ExitCode list_api() {
    for (const std::string& name : nki::api_entries()) fmt::print("{}\n", name);
    return ExitCode::kOk;
}

ExitCode check(const Options& options) {
    if (options.list_api) return list_api();
    if (options.kernel.empty())
        throw Error(ErrorSource::kUser, "usage", "check needs a kernel file (or --list-api)");
    if (!options.problem.empty() && options.arguments.given())
        throw Error(ErrorSource::kUser, "usage",
                    "--input and --kwarg are for kernels without a problem; a problem declares its "
                    "arguments itself");
    const Report report = check_source(options, read_file(options.kernel));
    if (options.json) {
        print_json(options, report);
    } else {
        print_text(options, report);
    }
    return report.count("error") == 0 ? ExitCode::kOk : ExitCode::kUsage;
}

}  // namespace

void add_check(CLI::App& app, Action& action) {
    auto options = std::make_shared<Options>();
    auto* command = app.add_subcommand(
        "check", "lint one kernel: is it legal? (runs no values, needs seconds)");
    command->footer(
        "The text alone: syntax, names, unknown functions and keywords (with the nearest name),\n"
        "Python that NKI does not have, forbidden imports, oversized literals, unused functions:\n"
        "  accelopt check my_kernel.py\n"
        "With shapes, everything that needs no values: indices and bounds, partitions, memories,\n"
        "dependencies between iterations, capacity of SBUF and PSUM, uninitialised reads, "
        "outputs:\n"
        "  accelopt check my_kernel.py --problem silu\n"
        "  accelopt check my_kernel.py --entry scale_rows --input 'x=float32[256,512]' \\\n"
        "      --kwarg factor=2.5\n"
        "\n" +
        KernelArgumentOptions::help() +
        "\n"
        "Every finding has a code, a place, what it is about and what to do instead:\n"
        "  my_kernel.py:12:13: error[num_partition_exceed_arch_limit]: number of partitions 256 "
        "...\n"
        "      tile = nl.load(x[0:256, 0:512])\n"
        "             ^~~~~~~~~~~~~~~~~~~~~~~\n"
        "      operation: nl.load [256, 512], limit 128\n"
        "      remedy: split the partition dimension into tiles of at most 128\n"
        "--json prints one line: the outcome and reason that an evaluation would store, and the\n"
        "diagnostics as records. A trace stops at its first error; the text is checked whole.\n"
        "\n"
        "The exit code is 0 when there is no error (warnings and notes are none), 2 when there "
        "is.");
    command->add_option("kernel", options->kernel, "kernel file (NKI)");
    command->add_option("--problem", options->problem, "problem id or folder: its shapes");
    options->arguments.add_to(*command);
    command->add_option("--target", options->target, "machine")->capture_default_str();
    command->add_option("--shape", options->shape, "full or test")
        ->check(CLI::IsMember({"full", "test"}))
        ->capture_default_str();
    command->add_flag("--json", options->json, "print one JSON line");
    command->add_flag("--list-api", options->list_api,
                      "print all functions of NKI that exist here");
    command->callback([options, &action] { action = [options] { return check(*options); }; });
}

}  // namespace accelopt::cli
