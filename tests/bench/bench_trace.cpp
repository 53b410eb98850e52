// Speed of the interpreter alone: NKI calls (operations made) per second, per problem, at full
// size and without data, with loops replayed and with every iteration interpreted; and what a
// traced operation costs in memory.
//
//   bench_trace [--shape full|test] [--repeat N] [PROBLEM...]

#include <malloc.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

#include "core/error.h"
#include "eval/problem.h"
#include "nki/interpreter.h"
#include "nki/syntax/parser.h"

namespace {

using accelopt::nki::Program;

struct Measured {
    double seconds = 1e300;  ///< best of the repeats
    std::int64_t operations = 0;
    std::int64_t steps = 0;
    std::int64_t replayed = 0;
    double bytes = 0;  ///< heap that the finished program holds
};

/// Of this process: what a loaded machine changes least.
double cpu_seconds() {
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double heap_bytes() {
    const struct mallinfo2 info = mallinfo2();
    return static_cast<double>(info.uordblks + info.hblkhd);
}

bool measure(const accelopt::nki::Module& module,
             const std::vector<accelopt::nki::Argument>& arguments,
             const accelopt::nki::TraceOptions& options, int repeats, Measured& out) {
    for (int k = 0; k < repeats; ++k) {
        const double before = heap_bytes();
        const double start = cpu_seconds();
        const auto program = accelopt::nki::trace(module, arguments, options);
        const double spent = cpu_seconds() - start;
        if (!program) {
            std::printf("%s: %s\n", program.error().code.c_str(), program.error().message.c_str());
            return false;
        }
        out.bytes = heap_bytes() - before;
        out.seconds = std::min(out.seconds, spent);
        out.operations = static_cast<std::int64_t>(program->operations.size());
        out.steps = program->steps;
        out.replayed = program->replayed;
    }
    return true;
}

}  // namespace

int main(int argc, char** argv) {
    std::string shape = "full";
    int repeats = 5;
    std::vector<std::string> problems;
    CLI::App app("Times the interpreter on the shipped baselines.");
    app.add_option("--shape", shape)->check(CLI::IsMember({"full", "test"}))->capture_default_str();
    app.add_option("--repeat", repeats)->check(CLI::PositiveNumber)->capture_default_str();
    app.add_option("problems", problems);
    CLI11_PARSE(app, argc, argv);
    try {
        if (problems.empty()) problems = accelopt::eval::shipped_problems();
        std::printf("sizeof(Operation) = %zu bytes\n", sizeof(accelopt::nki::Operation));
        std::printf("%-26s %10s %12s %9s %12s %9s %14s %14s %10s\n", "problem", "calls", "steps",
                    "ms", "calls/s", "replayed", "interpreted ms", "interp. calls/s", "bytes/call");
        bool all = true;
        for (const std::string& id : problems) {
            const auto problem = accelopt::eval::load_problem(id, shape);
            const auto module = accelopt::nki::parse(problem.baseline_source);
            if (!module) {
                std::printf("%-26s does not parse\n", id.c_str());
                all = false;
                continue;
            }
            Measured m;
            Measured plain;
            accelopt::nki::TraceOptions options;
            std::printf("%-26s ", id.c_str());
            if (!measure(*module, problem.kernel_arguments(), options, repeats, m)) {
                all = false;
                continue;
            }
            options.replay = false;
            all = measure(*module, problem.kernel_arguments(), options, repeats, plain) && all;
            const auto calls = static_cast<double>(m.operations);
            std::printf("%10.0f %12.0f %9.2f %12.0f %8.0f%% %14.2f %14.0f %10.0f\n", calls,
                        static_cast<double>(m.steps), m.seconds * 1e3, calls / m.seconds,
                        100 * static_cast<double>(m.replayed) / calls, plain.seconds * 1e3,
                        calls / plain.seconds, m.bytes / calls);
        }
        return all ? 0 : 1;
    } catch (const accelopt::Error& error) {
        std::fprintf(stderr, "bench_trace: %s\n", error.what());
        return 2;
    }
}
