#include "cluster/run.h"

#include <fmt/format.h>

#include <cstdio>
#include <map>
#include <memory>

#include "cli/commands.h"
#include "cli/wiring.h"
#include "cluster/run_context.h"
#include "config/run_config.h"
#include "core/text.h"
#include "eval/problem.h"
#include "report/report.h"
#include "store/archive.h"

namespace accelopt::cli {
namespace {

struct Options {
    cluster::RunRequest request;
    bool dry_run = false;
};

/// Says what a run would do, and spends nothing.
ExitCode describe_run(const cluster::RunRequest& request) {
    const auto config = cluster::load_checked(request);
    const auto& s = config.search;
    const int per_problem = s.plans + (s.rounds - 1) * s.beam * s.plans;
    fmt::print("run directory  {}\n",
               cluster::planned_directory(config.name, config.directory, request.resume));
    fmt::print("problems       {} ({} shapes) on {}\n", join(config.problems, ", "), config.shape,
               config.target);
    if (config.suite) fmt::print("kernels of     {}\n", *config.suite);
    fmt::print("verified by    rule {}, {}{}{}\n", config.verify_rule,
               join(config.verify_tiers, ", "), config.verify_stress ? ", stress" : "",
               config.verify_order ? ", order" : "");
    fmt::print("search         {} ({}), beam {}, plans {}, samples {}, rounds {}\n", s.strategy,
               s.variant, s.beam, s.plans, s.samples, s.rounds);
    for (const auto& [role, model] : config.agents) {
        const auto& m = config.models.at(model);
        fmt::print("{:<14} {} ({}{}{})\n", role, model, m.provider, m.url.empty() ? "" : " at ",
                   m.url);
    }
    fmt::print("at most        {} planner calls, {} executor calls and as many evaluations\n",
               per_problem * static_cast<int>(config.problems.size()),
               per_problem * s.samples * static_cast<int>(config.problems.size()));
    return ExitCode::kOk;
}

/// Writes best/PROBLEM.py and .diff for every winner and prints the summary table.
void publish(const std::string& directory) {
    const store::RunData run = store::load_run(directory);
    const auto config =
        config::parse_resolved_config(run.resolved_config, directory + "/resolved.yaml");
    std::map<std::string, std::string> baselines;
    for (const auto& id : config.problems) {
        baselines[id] = read_file(cluster::starting_kernel(config, id));
    }
    for (const auto& best : report::best_files(run, baselines)) {
        const std::string stem = directory + "/best/" + best.problem;
        write_file_atomically(stem + ".py", best.source);
        write_file_atomically(stem + ".diff", best.diff);
    }
    fmt::print("{}", report::render_table(run, "summary", "text"));
    fmt::print("winners and their diffs: {}/best/   tables: accelopt report {}\n", directory,
               directory);
}

ExitCode run(const Options& options) {
    if (options.dry_run) return describe_run(options.request);
    std::unique_ptr<cluster::Transport> mpi;
    std::unique_ptr<cluster::LocalWorld> local;
    if (cluster::launched_by_mpi()) {
        mpi = cluster::make_mpi_transport();
    } else {
        local = std::make_unique<cluster::LocalWorld>(1);
    }
    cluster::Transport& transport = mpi ? *mpi : local->endpoint(0);
    const auto outcome = cluster::run_campaign(options.request, make_worker_host(), transport);
    if (transport.rank() != 0) return outcome.code;
    if (outcome.directory.empty()) {
        std::fprintf(stderr, "accelopt: %s\n", outcome.reason.c_str());
        return outcome.code;
    }
    if (outcome.code == ExitCode::kInterrupted || outcome.code == ExitCode::kBudget) {
        std::fprintf(stderr, "accelopt: %s; continue with: accelopt run %s --resume\n",
                     outcome.reason.c_str(), options.request.config_path.c_str());
    }
    if (outcome.code != ExitCode::kInterrupted) publish(outcome.directory);
    if (outcome.code == ExitCode::kUsage || outcome.code == ExitCode::kUnitsFailed ||
        outcome.code == ExitCode::kInternal) {
        std::fprintf(stderr, "accelopt: %s\n", outcome.reason.c_str());
    }
    return outcome.code;
}

}  // namespace

void add_run(CLI::App& app, Action& action) {
    auto options = std::make_shared<Options>();
    auto* command = app.add_subcommand("run", "run a search from a configuration file");
    command->footer(
        "Examples:\n"
        "  accelopt run configs/quickstart.yaml              one process, all cores\n"
        "  mpirun -n 3 accelopt run configs/quickstart.yaml  a coordinator and two workers\n"
        "  accelopt run configs/quickstart.yaml --set search.rounds=8 --set run.seed=2\n"
        "  accelopt run configs/quickstart.yaml --resume     continue the newest such run\n"
        "  accelopt run configs/batch.yaml --wait            poll for the answers of a batch "
        "model\n"
        "As root, or with more ranks than cores, mpirun needs OMPI_ALLOW_RUN_AS_ROOT=1,\n"
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 and OMPI_MCA_rmaps_base_oversubscribe=1.\n"
        "A killed run loses nothing that was journalled: --resume on any number of ranks.");
    command->add_option("config", options->request.config_path, "configuration file (YAML)")
        ->required();
    command->add_option("--set", options->request.overrides,
                        "override one key, e.g. --set search.beam=4 (repeatable)");
    command->add_flag("--resume", options->request.resume, "continue an interrupted run");
    command->add_flag("--wait", options->request.wait,
                      "wait for the answers of batch models instead of ending with code 6");
    command->add_flag("--dry-run", options->dry_run, "say what would be done and stop");
    command->add_flag("--fail-fast", options->request.fail_fast,
                      "stop at the first unit that fails for reasons of infrastructure");
    command->callback([options, &action] { action = [options] { return run(*options); }; });
}

}  // namespace accelopt::cli
