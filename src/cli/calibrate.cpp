#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <thread>

#include "cli/calibrate_view.h"
#include "cli/commands.h"
#include "cli/kernel_arguments.h"
#include "core/error.h"
#include "core/text.h"
#include "eval/calibration_input.h"
#include "eval/evaluator.h"
#include "eval/suite.h"
#include "trainium/refit.h"

namespace accelopt::cli {
namespace {

namespace tr = trainium;
namespace fs = std::filesystem;

struct Options {
    std::string measured;
    std::string suite;
    std::string kernels;
    std::string target = "trn1";
    std::string only;
    std::string write;
    int max_evaluations = 300;
    int threads = 0;
    bool predict = false;
    bool refit = false;
    bool ablate = false;
    bool leave_one_out = false;
    bool json = false;
};

void say(const std::string& text) { std::fprintf(stderr, "%s ...\n", text.c_str()); }

[[noreturn]] void fail(const std::string& message) {
    throw Error(ErrorSource::kUser, "calibrate", message);
}

/// Where the kernels of the measured names are.
class Kernels {
  public:
    Kernels(const Options& options, const tr::Machine& machine) : machine_(machine) {
        if (!options.suite.empty()) suite_ = eval::load_suite(options.suite);
        if (!options.kernels.empty()) micro_ = eval::read_micro_manifest(options.kernels);
        table_folder_ = fs::path(options.measured).parent_path();
    }

    const std::vector<eval::MicroKernel>& micro() const { return micro_; }

    Result<tr::Stream, std::string> lower(const eval::MeasuredKernel& row,
                                          const std::string& table) const {
        if (!row.file.empty())
            return lower_file((table_folder_ / row.file).string(), row.entry, row.inputs);
        if (const eval::MicroKernel* kernel = find_micro(row.name)) return lower(*kernel);
        if (const eval::SuiteProblem* problem = find_suite(row.name))
            return eval::lower_suite_kernel(*problem, machine_);
        fail(unknown(row, table));
    }

    Result<tr::Stream, std::string> lower(const eval::MicroKernel& kernel) const {
        return lower_file(kernel.path, kernel.entry, kernel.inputs);
    }

  private:
    Result<tr::Stream, std::string> lower_file(const std::string& path, const std::string& entry,
                                               const std::string& inputs) const {
        eval::KernelUnderTest kernel;
        kernel.source = read_file(path);
        if (!entry.empty()) kernel.entry = entry;
        for (auto& argument : parse_argument_list(inputs)) {
            kernel.names.push_back(std::move(argument.name));
            kernel.arguments.push_back(std::move(argument.value));
        }
        return eval::lower_kernel(kernel, machine_);
    }

    const eval::MicroKernel* find_micro(const std::string& name) const {
        const auto found = std::find_if(micro_.begin(), micro_.end(),
                                        [&](const auto& kernel) { return kernel.name == name; });
        return found == micro_.end() ? nullptr : &*found;
    }

    const eval::SuiteProblem* find_suite(const std::string& name) const {
        const auto found = std::find_if(suite_.problems.begin(), suite_.problems.end(),
                                        [&](const auto& problem) { return problem.id == name; });
        return found == suite_.problems.end() ? nullptr : &*found;
    }

    std::string unknown(const eval::MeasuredKernel& row, const std::string& table) const {
        std::vector<std::string> known;
        for (const auto& problem : suite_.problems) known.push_back(problem.id);
        for (const auto& kernel : micro_) known.push_back(kernel.name);
        const std::string near = nearest_word(row.name, known);
        return fmt::format(
            "{}:{}: no kernel is called '{}'{}; give --suite or --kernels with it, or name its "
            "file, "
            "entry and inputs in columns of the table",
            table, row.line, row.name, near.empty() ? "" : " (is '" + near + "' meant?)");
    }

    const tr::Machine& machine_;
    eval::Suite suite_;
    std::vector<eval::MicroKernel> micro_;
    fs::path table_folder_;
};

bool is_chosen(const Options& options, const std::string& name) {
    if (options.only.empty()) return true;
    const auto chosen = split(options.only, ',');
    return std::find(chosen.begin(), chosen.end(), name) != chosen.end();
}

std::vector<tr::CalibrationCase> read_cases(const Options& options, const tr::Machine& machine,
                                            CalibrationReport& report) {
    const auto rows = eval::read_measured_kernels(options.measured);
    const Kernels kernels(options, machine);
    std::vector<tr::CalibrationCase> cases;
    for (const eval::MeasuredKernel& row : rows) {
        if (!is_chosen(options, row.name)) continue;
        say("tracing " + row.name);
        auto stream = kernels.lower(row, options.measured);
        if (stream) {
            cases.push_back({row.name, std::move(*stream), row.profile});
        } else {
            report.skipped.push_back({row.name, stream.error()});
        }
    }
    if (cases.empty()) {
        fail(options.measured + ": no kernel to compare" +
             (report.skipped.empty() ? ": --problems chooses none of its rows"
                                     : "; the first: " + report.skipped.front().name + ": " +
                                           report.skipped.front().reason));
    }
    return cases;
}

int threads_of(const Options& options) {
    if (options.threads > 0) return options.threads;
    return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

std::string number_text(const tr::MachineField& field, double value) {
    return is_integer(field) ? fmt::format("{:.0f}", value) : fmt::format("{:.6g}", value);
}

/// What a refit means for the description file.
void describe_changes(const std::string& text, const Options& options, std::size_t kernels,
                      RefitReport& refit) {
    const auto constants = eval::described_constants(text);
    for (const tr::FitChange& change : refit.result.changes) {
        if (change.after == change.before) continue;
        const auto found = std::find_if(constants.begin(), constants.end(),
                                        [&](const auto& c) { return c.key == change.key; });
        refit.before.push_back(*found);
        refit.changes.push_back(
            {change.key, number_text(*tr::find_field(change.key), change.after),
             fmt::format("fit: accelopt calibrate, {} kernels of {} (was {})", kernels,
                         fs::path(options.measured).filename().string(), found->value)});
    }
}

void refit(const Options& options, const tr::Machine& machine, const tr::CalibrationSet& set,
           CalibrationReport& report) {
    const std::string text = read_file(eval::machine_file(options.target));
    std::vector<std::string> keys;
    for (const auto& constant : eval::described_constants(text))
        if (constant.is_fit()) keys.push_back(constant.key);
    if (keys.empty()) {
        fail(eval::machine_file(options.target) +
             ": no constant is marked '# source: fit: ...', so there is nothing to refit");
    }
    for (const std::string& key : keys) {
        if (get_field(machine, *tr::find_field(key)) == 0)
            std::fprintf(stderr, "%s is 0 and stays: a refit moves constants by factors\n",
                         key.c_str());
    }
    tr::RefitOptions search;
    search.max_evaluations = options.max_evaluations;
    tr::Refitter refitter(set, machine, tr::fit_constants(machine, keys), search);
    if (options.refit) {
        RefitReport made;
        made.result = refitter.fit([](const std::string& s) { say("refit: " + s); });
        made.errors = set.errors(made.result.machine);
        describe_changes(text, options, set.size(), made);
        if (!options.write.empty())
            write_file_atomically(options.write, eval::with_changes(text, made.changes));
        report.refit = std::move(made);
    }
    if (options.leave_one_out) report.left_out = refitter.leave_one_out(say);
}

ExitCode predict(const Options& options, const tr::Machine& machine) {
    if (options.kernels.empty()) fail("--predict needs --kernels, a folder with a manifest.csv");
    const Kernels kernels(options, machine);
    std::vector<tr::CalibrationCase> cases;
    for (const eval::MicroKernel& kernel : kernels.micro()) {
        if (!is_chosen(options, kernel.name)) continue;
        auto stream = kernels.lower(kernel);
        if (!stream)
            fail(fmt::format("{}:{}: {}: {}", (fs::path(options.kernels) / "manifest.csv").string(),
                             kernel.line, kernel.name, stream.error()));
        protocol::Profile unmeasured;
        unmeasured.latency = 1;  // nothing is compared
        cases.push_back({kernel.name, std::move(*stream), unmeasured});
    }
    const tr::CalibrationSet set(std::move(cases), threads_of(options));
    fmt::print("# predicted by accelopt calibrate --predict, machine {}@{}\n{}", machine.name,
               machine.hash, prediction_csv(set.errors(machine)));
    return ExitCode::kOk;
}

ExitCode calibrate(const Options& options) {
    const tr::Machine machine = eval::load_machine(options.target);
    if (options.predict) return predict(options, machine);
    if (options.measured.empty()) fail("--measured is needed: a table of measured profiles");
    if (!options.write.empty() && !options.refit) fail("--write needs --refit");
    CalibrationReport report;
    report.measured = options.measured;
    report.machine = machine.name + "@" + machine.hash;
    const tr::CalibrationSet set(read_cases(options, machine, report), threads_of(options));
    say("predicting " + std::to_string(set.size()) + " kernels");
    report.errors = set.errors(machine);
    if (options.ablate) report.ablations = set.ablate(machine, say);
    if (options.refit || options.leave_one_out) refit(options, machine, set, report);
    fmt::print("{}", options.json ? calibration_json(report) + "\n" : calibration_text(report));
    return report.skipped.empty() ? ExitCode::kOk : ExitCode::kUnitsFailed;
}

void add_options(CLI::App& command, Options& options) {
    command.add_option("--measured", options.measured,
                       "table (CSV) of measured profiles: a name, latency_ms, counters");
    command.add_option("--suite", options.suite, "checkout of NKIBench with the measured kernels");
    command.add_option("--kernels", options.kernels,
                       "folder with a manifest.csv of kernels, such as nkibench/micro");
    command
        .add_option("--target", options.target, "machine: configs/hardware/TARGET.yaml, or a file")
        ->capture_default_str();
    command.add_option("--problems", options.only, "comma-separated rows of the table (all)");
    command.add_flag("--ablate", options.ablate, "repeat without each mechanism");
    command.add_flag("--refit", options.refit, "refit the constants that are marked as fits");
    command.add_option("--write", options.write, "with --refit: the new description file");
    command.add_flag("--leave-one-out", options.leave_one_out,
                     "predict each kernel with constants refitted to the others");
    command
        .add_option("--max-evaluations", options.max_evaluations,
                    "where a refit stops: predictions of all kernels")
        ->check(CLI::Range(1, 1000000))
        ->capture_default_str();
    command.add_option("--threads", options.threads, "of the predictions (all cores)")
        ->check(CLI::Range(1, 1024));
    command.add_flag("--predict", options.predict,
                     "with --kernels: print what the model predicts, as a table");
    command.add_flag("--json", options.json, "print one JSON object");
}

}  // namespace

void add_calibrate(CLI::App& app, Action& action) {
    auto options = std::make_shared<Options>();
    auto* command =
        app.add_subcommand("calibrate", "compare the model with measurements, and refit it");
    command->footer(
        "Examples:\n"
        "  accelopt calibrate --measured nkibench/measured/trn1_baseline.csv --suite NKIBench\n"
        "                                        error per kernel, beside the rooflines\n"
        "  ... --ablate                          what each mechanism of the model is worth\n"
        "  ... --refit --write mine.yaml         refit; use it by --target mine.yaml\n"
        "  ... --leave-one-out                   how well unseen kernels are predicted\n"
        "  accelopt calibrate --kernels nkibench/micro --predict\n"
        "                                        what a laboratory would measure\n"
        "A refit moves only constants whose source in the description is a fit, within a factor "
        "of\n"
        "four, pulled towards their present value. The exit code is 4 when a kernel of the table\n"
        "could not be traced.");
    add_options(*command, *options);
    command->callback([options, &action] { action = [options] { return calibrate(*options); }; });
}

}  // namespace accelopt::cli
