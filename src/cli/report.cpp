#include "report/report.h"

#include <fmt/format.h>

#include <memory>

#include "cli/commands.h"
#include "core/text.h"
#include "report/versions.h"
#include "store/archive.h"
#include "store/journal.h"

namespace accelopt::cli {
namespace {

struct Options {
    std::vector<std::string> runs;
    std::string table = "summary";
    std::string format = "text";
    std::string run;
    bool mixed_versions = false;
};

ExitCode report(const Options& options) {
    std::vector<store::RunData> runs;
    for (const auto& directory : options.runs) runs.push_back(store::load_run(directory));
    if (!options.mixed_versions) report::require_one_version(runs);
    for (const auto& run : runs) {
        if (runs.size() > 1) fmt::print("# {}\n", run.directory);
        fmt::print("{}", report::render_table(run, options.table, options.format));
    }
    return ExitCode::kOk;
}

ExitCode recover(const Options& options) {
    (void)store::load_run(options.run);  // says so when the folder is no run
    const store::RunLock lock(options.run);
    const auto run = store::load_run(options.run);
    const int compression = 4;
    for (const auto& round : run.rounds) {
        store::write_round_file(options.run, round, compression);
    }
    store::write_run_file(run, compression);
    fmt::print("{}: {} units, {} rounds, {} tries rebuilt from the journals of {} launches\n",
               options.run, run.units.size(), run.rounds.size(), run.ledger.size(), run.launches);
    return ExitCode::kOk;
}

}  // namespace

void add_report(CLI::App& app, Action& action) {
    auto options = std::make_shared<Options>();
    auto* command = app.add_subcommand("report", "print tables of runs, finished or not");
    command->footer("Tables: " + join(report::table_names(), ", ") +
                    "\nExamples:\n"
                    "  accelopt report runs/quickstart-1\n"
                    "  accelopt report runs/quickstart-1 --table cost --format csv");
    command->add_option("runs", options->runs, "run directories")->required();
    command->add_option("--table", options->table, "which table")->capture_default_str();
    command->add_option("--format", options->format, "text, csv, md or latex")
        ->capture_default_str();
    command->add_flag("--mixed-versions", options->mixed_versions,
                      "allow evaluations of several versions of the program or machine");
    command->callback([options, &action] { action = [options] { return report(*options); }; });
}

void add_recover(CLI::App& app, Action& action) {
    auto options = std::make_shared<Options>();
    auto* command = app.add_subcommand("recover", "rebuild a run's HDF5 files from its journals");
    command->footer(
        "Example: accelopt recover runs/quickstart-1\n"
        "Journals are the truth; rounds/*.h5 and run.h5 can be rebuilt from them at any time,\n"
        "also after a kill in the middle of a write.");
    command->add_option("run", options->run, "run directory")->required();
    command->callback([options, &action] { action = [options] { return recover(*options); }; });
}

}  // namespace accelopt::cli
