#include "cluster/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>

#include "cluster/call_journal.h"
#include "cluster/coordinator.h"
#include "cluster/progress_display.h"
#include "cluster/run_context.h"
#include "cluster/signals.h"
#include "config/run_config.h"
#include "core/clock.h"
#include "core/data_path.h"
#include "core/text.h"
#include "eval/evaluator.h"
#include "llm/batch.h"
#include "llm/model_options.h"
#include "llm/pricing.h"
#include "llm/retry.h"
#include "store/archive.h"
#include "store/journal.h"

namespace accelopt::cluster {

namespace fs = std::filesystem;

namespace {

/// Sleeps a little longer each time nothing happens; never blocks in MPI (facts/cluster.md 1).
class Backoff {
  public:
    void idle(Clock& clock) {
        clock.sleep(delay_s_);
        delay_s_ = std::min(delay_s_ * 1.5, 0.005);
    }
    void busy() { delay_s_ = 0.0002; }

  private:
    double delay_s_ = 0.0002;
};

int run_number(const fs::path& path, const std::string& name) {
    const std::string file = path.filename().string();
    if (file.rfind(name + "-", 0) != 0) return 0;
    const std::string digits = file.substr(name.size() + 1);
    if (digits.empty() || digits.size() > 8 ||
        !std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; })) {
        return 0;
    }
    return std::stoi(digits);
}

int newest_run(const std::string& name) {
    int newest = 0;
    std::error_code ignored;
    for (const auto& entry : fs::directory_iterator("runs", ignored)) {
        newest = std::max(newest, run_number(entry.path(), name));
    }
    return newest;
}

/// Creates a directory that nobody else has; numbers of `auto` names are never reused.
std::string create_directory(const config::RunConfig& config) {
    if (config.directory != "auto") {
        const fs::path parent = fs::path(config.directory).parent_path();
        if (!parent.empty()) fs::create_directories(parent);
        if (!fs::create_directory(config.directory)) {
            throw Error(ErrorSource::kUser, "exists",
                        config.directory +
                            " exists already: add --resume to continue that run, or "
                            "choose another run.directory");
        }
        return config.directory;
    }
    fs::create_directories("runs");
    for (int number = newest_run(config.name) + 1;; ++number) {
        const std::string path = "runs/" + config.name + "-" + std::to_string(number);
        if (fs::create_directory(path)) return path;
    }
}

/// Differences between the run's stored configuration and the one given now that would change
/// results. Budgets and the placement of work may change between launches.
void check_same_experiment(const config::RunConfig& stored, const config::RunConfig& now,
                           const std::string& directory) {
    config::RunConfig probe = now;
    probe.directory = stored.directory;
    probe.path = stored.path;
    const auto experiment = [](const config::RunConfig& c) {
        std::string text = fmt::format(
            "run.name={}\nrun.seed={}\nproblems={}\nshape={}\ntarget={}\nsearch={}/{}/{}/{}/{}/{}/"
            "{}{}\n"
            "memory={}/{}/{}/{}/{}\nverify={}/{}{}{}{}\n",
            c.name, c.seed, join(c.problems, ","), c.shape, c.target, c.search.strategy,
            c.search.variant, c.search.beam, c.search.plans, c.search.samples, c.search.rounds,
            c.search.elitist, c.search.tie == "none" ? "" : "/tie=" + c.search.tie, c.memory.scope,
            c.memory.top_k, c.memory.capacity, c.memory.positive_threshold,
            c.memory.negative_threshold, c.verify_rule, c.verify_seeds.size(),
            c.verify_published_seeds ? " published" : "", c.verify_stress ? " stress" : "",
            c.verify_order ? " order" : "");
        for (const auto& [role, model] : c.agents) text += "agents." + role + "=" + model + "\n";
        if (c.agents.contains("fixer")) {
            text += fmt::format("agents.fixer.attempts={}\n", c.fixer_attempts);
        }
        for (const auto& [key, m] : c.models) {
            text += fmt::format("models.{}={}/{}/{}/{}/{}\n", key, m.provider, m.name,
                                m.temperature, m.max_tokens, m.reasoning.value_or(""));
        }
        return text;
    };
    const auto before = split(experiment(stored), '\n');
    const auto after = split(experiment(probe), '\n');
    for (std::size_t i = 0; i < std::max(before.size(), after.size()); ++i) {
        const std::string old_line = i < before.size() ? before[i] : "(absent)";
        const std::string new_line = i < after.size() ? after[i] : "(absent)";
        if (old_line == new_line) continue;
        throw Error(ErrorSource::kConfig, "resume",
                    fmt::format("cannot resume {}: it was started with {}, now {}; results of the "
                                "two must not be mixed (start a new run instead)",
                                directory, old_line, new_line));
    }
}

/// Finds answer files of another run before anything is asked.
void check_batches(const RunContext& context) {
    for (const auto& [key, model] : context.config.models) {
        if (model.provider != "batch") continue;
        llm::ModelOptions options;
        options.key = key;
        options.folder = model.folder;
        context.place(options);
        (void)llm::read_batch_answers(options.folder + "/answers", options.run_id);
    }
}

struct OpenedRun {
    RunContext context;
    std::unique_ptr<store::RunLock> lock;
};

OpenedRun open_run(const RunRequest& request, Transport& transport) {
    OpenedRun run;
    // Everything that can be wrong is found before the run has a directory or spends a cent.
    config::RunConfig config = load_checked(request);
    run.context.machine_hash = eval::load_machine(config.target).hash;
    std::string directory;
    if (request.resume) {
        directory = planned_directory(config.name, config.directory, true);
        if (!fs::exists(directory + "/resolved.yaml")) {
            throw Error(ErrorSource::kUser, "not_a_run",
                        directory + " holds no run to resume (no resolved.yaml)");
        }
        run.lock = std::make_unique<store::RunLock>(directory);
        const auto stored = config::parse_resolved_config(read_file(directory + "/resolved.yaml"),
                                                          directory + "/resolved.yaml");
        check_same_experiment(stored, config, directory);
    } else {
        directory = create_directory(config);
        run.lock = std::make_unique<store::RunLock>(directory);
        write_file_atomically(directory + "/resolved.yaml", config.resolved);
    }
    for (const char* folder : {"journal", "rounds", "best", "log"}) {
        fs::create_directories(directory + "/" + folder);
    }
    run.context.config = std::move(config);
    run.context.directory = directory;
    run.context.launch = store::next_launch(directory + "/journal");
    run.context.ranks = transport.size();
    const auto& works = run.context.config.coordinator_works;
    run.context.coordinator_works = transport.size() == 1 || works.value_or(transport.size() == 2);
    (void)run.context.secret();  // a missing secret_env is found before anything starts
    check_batches(run.context);
    return run;
}

/// Seconds until Slurm ends the job, minus the margin; nullopt outside Slurm.
std::optional<double> seconds_to_job_end(double margin_s, Clock& clock) {
    const char* end = std::getenv("SLURM_JOB_END_TIME");
    if (!end) return std::nullopt;
    return std::strtod(end, nullptr) - margin_s - clock.unix_s();
}

void check_limits(Coordinator& coordinator, const RunContext& context, double started_s,
                  bool fail_fast, Clock& clock) {
    if (interrupted()) {
        coordinator.stop(ExitCode::kInterrupted, "interrupted by a signal");
        return;
    }
    const auto& config = context.config;
    if (config.budget_wall_s && clock.monotonic_s() - started_s >= *config.budget_wall_s) {
        coordinator.stop(ExitCode::kBudget, "budget.wall is used up");
        return;
    }
    const auto left = seconds_to_job_end(config.cluster_margin_s, clock);
    if (left && *left <= 0) {
        coordinator.stop(ExitCode::kInterrupted, "the job's time is nearly over");
        return;
    }
    if (!fail_fast) return;
    for (const auto& problem : coordinator.progress().problems) {
        if (problem.failures > 0) {
            coordinator.stop(ExitCode::kUnitsFailed,
                             "--fail-fast: a unit of " + problem.id + " failed");
            return;
        }
    }
}

RunOutcome coordinate(const RunRequest& request, const WorkerHost& host, Transport& transport) {
    Clock& clock = system_clock();
    OpenedRun run = open_run(request, transport);
    const RunContext& context = run.context;
    ProgressDisplay display(context.directory + "/log/run.log");
    display.line(fmt::format("run {} (launch {}, {} rank{}): {} problems on {}, {} rounds",
                             context.directory, context.launch, transport.size(),
                             transport.size() == 1 ? "" : "s", context.config.problems.size(),
                             context.config.target, context.config.search.rounds));
    Coordinator coordinator(context, transport, clock);
    std::optional<Worker> worker;
    if (context.coordinator_works) worker.emplace(host, transport, clock);
    const double started_s = clock.monotonic_s();
    double next_check_s = 0;
    Backoff backoff;
    while (!coordinator.finished()) {
        bool active = coordinator.poll();
        if (worker) active = worker->poll(active ? 0 : 0.002) || active;
        const double now = clock.monotonic_s();
        for (const auto& text : coordinator.take_lines()) display.line(text);
        if (now >= next_check_s) {
            next_check_s = now + 0.1;
            check_limits(coordinator, context, started_s, request.fail_fast, clock);
            display.show(coordinator.progress(), now);
        }
        if (active) {
            backoff.busy();
        } else {
            backoff.idle(clock);
        }
    }
    transport.flush(1.0);
    display.finish();
    for (const auto& text : coordinator.take_lines()) display.line(text);
    if (*coordinator.finished() != ExitCode::kInterrupted) {
        // After a signal a second may be all there is; `accelopt recover` writes it later.
        store::write_run_file(store::load_run(context.directory),
                              static_cast<int>(context.config.store_compression));
    }
    display.line(fmt::format("{} after {:.1f} s", coordinator.end_reason(),
                             clock.monotonic_s() - started_s));
    return {*coordinator.finished(), context.directory, coordinator.end_reason()};
}

RunOutcome work(const WorkerHost& host, Transport& transport) {
    Clock& clock = system_clock();
    Worker worker(host, transport, clock);
    Backoff backoff;
    bool told = false;
    while (!worker.stopped()) {
        if (interrupted() && !told) {
            transport.send(0, Mailbox::kCoordinator, MessageType::kInterrupted, "");
            told = true;
        }
        if (worker.poll(0.002)) {
            backoff.busy();
        } else {
            backoff.idle(clock);
        }
    }
    return {*worker.stopped(), "", ""};
}

}  // namespace

config::RunConfig load_checked(const RunRequest& request) {
    config::RunConfig config = config::load_run_config(request.config_path, request.overrides);
    if (request.wait) {
        std::vector<std::string> overrides = request.overrides;
        for (const auto& [key, model] : config.models) {
            if (model.provider == "batch") overrides.push_back("models." + key + ".wait=true");
        }
        if (overrides.size() == request.overrides.size()) {
            throw Error(ErrorSource::kUser, "wait",
                        "--wait waits for the answers of batch models, and " + request.config_path +
                            " has none");
        }
        config = config::load_run_config(request.config_path, overrides);
    }
    choose_suite_problems(config);
    for (const auto& id : config.problems) (void)eval::load_problem(id, config.shape);
    for (const auto& [key, model] : config.models) {
        if (model.provider != "replay" || model.run.empty()) continue;
        try {
            (void)recording_folder(model.run);
        } catch (const Error& error) {
            throw Error(ErrorSource::kConfig, "replay",
                        fmt::format("{}: models.{}.run: {}", model.where, key, error.what()));
        }
    }
    llm::check_models(config.models, llm::load_prices(data_path(config.prices)),
                      config.budget_usd || config.budget_problem_usd);
    (void)llm::load_retry_options(data_path(config.retry));
    (void)agents::Prompts(data_path(config.prompts));
    return config;
}

std::string planned_directory(const std::string& name, const std::string& directory, bool resume) {
    if (directory != "auto") return directory;
    const int newest = newest_run(name);
    if (resume && newest == 0) {
        throw Error(ErrorSource::kUser, "not_a_run",
                    "there is no run of " + name + " below runs/ to resume");
    }
    return "runs/" + name + "-" + std::to_string(resume ? newest : newest + 1);
}

RunOutcome run_campaign(const RunRequest& request, const WorkerHost& host, Transport& transport) {
    install_signal_handlers();
    if (transport.rank() != 0) return work(host, transport);
    try {
        return coordinate(request, host, transport);
    } catch (const Error& error) {
        const bool taken = error.code() == "exists" || error.code() == "locked";
        const bool user =
            error.source() == ErrorSource::kUser || error.source() == ErrorSource::kConfig;
        const ExitCode code =
            taken ? ExitCode::kExists : (user ? ExitCode::kUsage : ExitCode::kInternal);
        for (int rank = 1; rank < transport.size(); ++rank) {
            transport.send(rank, Mailbox::kWorker, MessageType::kStop,
                           std::to_string(static_cast<int>(code)));
        }
        transport.flush(1.0);
        return {code, "", error.what()};
    } catch (const std::exception& error) {
        for (int rank = 1; rank < transport.size(); ++rank) {
            transport.send(rank, Mailbox::kWorker, MessageType::kStop,
                           std::to_string(static_cast<int>(ExitCode::kInternal)));
        }
        transport.flush(1.0);
        return {ExitCode::kInternal, "", error.what()};
    }
}

}  // namespace accelopt::cluster
