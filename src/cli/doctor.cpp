#include "llm/doctor.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <thread>

#include "cli/commands.h"
#include "config/run_config.h"
#include "core/data_path.h"
#include "core/version.h"
#include "eval/evaluator.h"
#include "eval/problem.h"
#include "llm/pricing.h"
#include "trainium/execute.h"

namespace accelopt::cli {
namespace {

struct Options {
    std::string config;
};

void show(const std::string& what, bool good, const std::string& value,
          const std::string& remedy = "") {
    fmt::print("{:<4} {:<22} {}\n", good ? "ok" : "!!", what, value);
    if (!good && !remedy.empty()) fmt::print("{:27} {}\n", "", remedy);
}

const char* variable(const char* name) {
    const char* value = std::getenv(name);
    return value ? value : "";
}

ExitCode doctor(const Options& options) {
    bool healthy = true;
    show("version", true, std::string(kVersion));
    show("data files", true, data_root());
    const auto simd = trainium::simd_target();
    const bool fast = simd.find("SSE") == std::string::npos && simd != "EMU128" && simd != "SCALAR";
    show("vector unit", fast, simd, "elementwise maths runs at SSE speed on this processor");
    show("cores", true, std::to_string(std::thread::hardware_concurrency()));
    std::error_code ignored;
    const auto self = std::filesystem::read_symlink("/proc/self/exe", ignored);
    const auto evaluator = self.parent_path() / "accelopt-eval";
    const bool found = std::filesystem::exists(evaluator, ignored);
    healthy = healthy && found;
    show("evaluator", found, evaluator.string(), "build the target accelopt-eval");
    for (const std::string target : {"trn1", "trn2"}) {
        const auto machine = eval::load_machine(target);
        show("machine " + target, true, machine.name + "@" + machine.hash);
    }
    for (const auto& id : eval::shipped_problems()) {
        const auto problem = eval::load_problem(id, "full");
        show("problem " + id, true, problem.title);
    }
    const bool root =
        std::string(variable("USER")) == "root" || std::string(variable("HOME")) == "/root";
    if (root) {
        const bool allowed = *variable("OMPI_ALLOW_RUN_AS_ROOT") != 0 &&
                             *variable("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM") != 0;
        show("mpirun as root", allowed, allowed ? "allowed" : "refused by OpenMPI",
             "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1");
    }
    const bool oversubscribe = *variable("OMPI_MCA_rmaps_base_oversubscribe") != 0;
    show("mpirun ranks", true,
         oversubscribe
             ? "more ranks than cores allowed"
             : "at most one rank per core (OMPI_MCA_rmaps_base_oversubscribe=1 for more)");
    if (const char* tasks = std::getenv("SLURM_NTASKS")) {
        show("slurm", true, fmt::format("{} tasks: start that many ranks, not one per CPU", tasks));
    }
    if (!options.config.empty()) {
        const auto config = config::load_run_config(options.config, {});
        show("configuration", true, options.config);
        const auto prices = llm::load_prices(data_path(config.prices));
        const bool budget = config.budget_usd || config.budget_problem_usd;
        for (const auto& finding : llm::examine_models(config.models, prices, budget)) {
            show(finding.what, finding.good, finding.value, finding.remedy);
            healthy = healthy && finding.good;
        }
    }
    return healthy ? ExitCode::kOk : ExitCode::kUsage;
}

}  // namespace

void add_doctor(CLI::App& app, Action& action) {
    auto options = std::make_shared<Options>();
    auto* command = app.add_subcommand("doctor", "look for what would go wrong on this machine");
    command->footer(
        "Example: accelopt doctor configs/endpoint.yaml\n"
        "With a configuration: are the keys there (never shown), can the endpoints be reached, do\n"
        "they list the models, is there a price. It asks no model and spends nothing.\n"
        "Exit code 2 when something would keep a run from working.");
    command->add_option("config", options->config, "also check this configuration");
    command->callback([options, &action] { action = [options] { return doctor(*options); }; });
}

}  // namespace accelopt::cli
