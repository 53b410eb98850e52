#include <cstdio>

#include "cli/commands.h"
#include "core/version.h"

namespace {

constexpr const char* kDescription =
    "accelopt: unattended sweeps in which language models optimise accelerator kernels.\n"
    "\n"
    "First steps (no key, no network, no accelerator needed):\n"
    "  accelopt bench                               predict the shipped baseline kernels\n"
    "  mpirun -n 3 accelopt run configs/quickstart.yaml\n"
    "                                               a small search with the builtin rewriter\n"
    "  accelopt report runs/quickstart-1            its tables\n"
    "  accelopt profile my_kernel.py --problem silu check, run and profile one kernel\n"
    "  accelopt check my_kernel.py                  lint it: what is wrong, where, what to do";

constexpr const char* kFooter =
    "Exit codes: 0 ok, 2 usage or configuration, 3 exists or locked, 4 some units failed for\n"
    "reasons of infrastructure, 5 budget exhausted, 6 interrupted and resumable, 70 internal.\n"
    "`accelopt COMMAND --help` explains a command with examples.";

}  // namespace

int main(int argc, char** argv) {
    using namespace accelopt;
    CLI::App app(kDescription, "accelopt");
    app.footer(kFooter);
    app.set_version_flag("--version", "accelopt " + std::string(kVersion));
    app.require_subcommand(1);
    cli::Action action;
    cli::add_run(app, action);
    cli::add_bench(app, action);
    cli::add_profile(app, action);
    cli::add_calibrate(app, action);
    cli::add_check(app, action);
    cli::add_report(app, action);
    cli::add_recover(app, action);
    cli::add_validate(app, action);
    cli::add_doctor(app, action);
    try {
        app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
        const int code = app.exit(error);
        return code == 0 ? 0 : static_cast<int>(ExitCode::kUsage);
    }
    try {
        return static_cast<int>(action());
    } catch (const Error& error) {
        std::fprintf(stderr, "accelopt: %s\n", error.what());
        if (error.code() == "exists" || error.code() == "locked") {
            return static_cast<int>(ExitCode::kExists);
        }
        const bool user =
            error.source() == ErrorSource::kUser || error.source() == ErrorSource::kConfig;
        return static_cast<int>(user ? ExitCode::kUsage : ExitCode::kInternal);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "accelopt: internal error: %s\n", error.what());
        return static_cast<int>(ExitCode::kInternal);
    }
}
