// Speed and memory of a timing-only evaluation, per problem, at full size and without data: the
// interpreter, the lowering to instructions, every pass of the compiler (as the mechanism table has
// them; "none" is compile() without any), the schedule, the event
// simulation; and the whole of it as the evaluator calls it (trace and predict).
//
//   bench_timing [--shape full|test] [--target trn1|trn2] [--repeat N] [PROBLEM...]

#include <malloc.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "eval/evaluator.h"
#include "eval/problem.h"
#include "nki/interpreter.h"
#include "nki/syntax/parser.h"
#include "trainium/passes.h"
#include "trainium/stream_counters.h"
#include "trainium/timing.h"
#include "trainium/timing_costs.h"
#include "trainium/timing_schedule.h"
#include "trainium/timing_simulate.h"

namespace {

using namespace accelopt;

/// Of this process: what a loaded machine changes least.
double cpu_seconds() {
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double heap_mb() {
    const struct mallinfo2 info = mallinfo2();
    return static_cast<double>(info.uordblks + info.hblkhd) / 1e6;
}

/// Largest resident set so far, in MB.
double peak_mb() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return static_cast<double>(usage.ru_maxrss) / 1e3;
}

/// Steps of one evaluation with their times; the best of the repeats is kept.
class Steps {
  public:
    template <typename F>
    void run(std::string_view name, F&& f) {
        measure(name, false, std::forward<F>(f));
    }
    /// A step that does what the one before it does and more: its time is what that adds.
    template <typename F>
    void run_more(std::string_view name, F&& f) {
        measure(name, true, std::forward<F>(f));
    }
    void restart() { next_ = 0; }
    const std::vector<std::string>& names() const { return names_; }
    std::vector<double> seconds() const {
        std::vector<double> result = seconds_;
        for (std::size_t k = 1; k < result.size(); ++k)
            if (more_[k]) result[k] = std::max(0.0, seconds_[k] - seconds_[k - 1]);
        return result;
    }

  private:
    template <typename F>
    void measure(std::string_view name, bool more, F&& f) {
        const double start = cpu_seconds();
        f();
        const double spent = cpu_seconds() - start;
        if (next_ == names_.size()) {
            names_.emplace_back(name);
            seconds_.push_back(spent);
            more_.push_back(more);
        }
        seconds_[next_] = std::min(seconds_[next_], spent);
        ++next_;
    }

    std::size_t next_ = 0;
    std::vector<std::string> names_;
    std::vector<double> seconds_;
    std::vector<bool> more_;
};

int width(const std::string& name) { return std::max(8, static_cast<int>(name.size())); }

struct Sizes {
    std::size_t operations = 0;
    std::size_t written = 0;
    std::size_t compiled = 0;
    std::size_t tiles = 0;
    double program_mb = 0;
    double stream_mb = 0;
    double schedule_mb = 0;
};

/// The passes of the mechanism table one after the other, each with those before it: its step is
/// what it adds, to itself and to them. One that acts only together with a later one shows there.
void compile_pass_by_pass(trainium::Stream& stream, const trainium::Machine& machine,
                          Steps& steps) {
    const trainium::Stream lowered = std::move(stream);
    auto passes = trainium::Mechanisms::none();
    stream = lowered;
    steps.run("none", [&] { trainium::compile(stream, machine, passes); });
    for (const trainium::MechanismInfo& info : trainium::kMechanisms) {
        if (info.neutralise != nullptr) continue;  // a rule or a constant, no pass
        passes = passes.with(info.mechanism);
        stream = lowered;
        steps.run_more(info.name, [&] { trainium::compile(stream, machine, passes); });
    }
}

/// One evaluation, step by step; predict() does all of it at once.
bool measure(const nki::Module& module, const std::vector<nki::Argument>& arguments,
             const trainium::Machine& machine, Steps& steps, Sizes& sizes) {
    steps.restart();
    double heap = heap_mb();
    const auto grown = [&heap] {
        const double before = heap;
        heap = heap_mb();
        return heap - before;
    };
    std::optional<nki::Program> program;
    steps.run("trace", [&] {
        auto traced = nki::trace(module, arguments, {});
        if (traced) program = std::move(*traced);
    });
    if (!program) return false;
    sizes.program_mb = grown();
    trainium::Stream stream;
    steps.run("lower", [&] { stream = trainium::lower(*program, machine); });
    sizes.operations = program->operations.size();
    sizes.written = stream.instructions.size();
    sizes.stream_mb = grown();
    double ignored = 0;
    steps.run("count", [&] {
        ignored += static_cast<double>(trainium::count(stream).hbm_read_bytes);
        ignored += trainium::busy_times(stream, machine).tiny_ns;
    });
    compile_pass_by_pass(stream, machine, steps);
    sizes.compiled = stream.instructions.size();
    sizes.tiles = stream.tiles.size();
    grown();
    trainium::Schedule schedule;
    steps.run("schedule", [&] { schedule = trainium::make_schedule(stream, machine); });
    sizes.schedule_mb = grown();
    steps.run("simulate",
              [&] { ignored += trainium::simulate(stream, schedule, machine).latency_ns; });
    steps.run("predict", [&] {
        ignored += trainium::predict(*program, machine).compiled.latency.value_or(0);
    });
    return ignored > 0;
}

}  // namespace

int main(int argc, char** argv) {
    std::string shape = "full";
    std::string target = "trn1";
    int repeats = 3;
    std::vector<std::string> problems;
    CLI::App app("Times a timing-only evaluation of the shipped baselines.");
    app.add_option("--shape", shape)->check(CLI::IsMember({"full", "test"}))->capture_default_str();
    app.add_option("--target", target)->capture_default_str();
    app.add_option("--repeat", repeats)->check(CLI::PositiveNumber)->capture_default_str();
    app.add_option("problems", problems);
    CLI11_PARSE(app, argc, argv);
    try {
        if (problems.empty()) problems = eval::shipped_problems();
        const trainium::Machine machine = eval::load_machine(target);
        bool all = true;
        std::vector<double> total;
        std::vector<std::string> columns;
        double evaluations = 0;
        for (const std::string& id : problems) {
            const auto problem = eval::load_problem(id, shape);
            const auto module = nki::parse(problem.baseline_source);
            Steps steps;
            Sizes sizes;
            bool measured = static_cast<bool>(module);
            for (int k = 0; k < repeats && measured; ++k)
                measured = measure(*module, problem.kernel_arguments(), machine, steps, sizes);
            if (!measured) {
                std::printf("%-24s cannot be measured\n", id.c_str());
                all = false;
                continue;
            }
            if (total.empty()) {
                std::printf("%-24s", "ms of one core");
                for (const std::string& name : steps.names())
                    std::printf(" %*s", width(name), name.c_str());
                std::printf(" %8s %8s %8s %8s %8s %8s %8s %8s\n", "total", "ops", "instr.",
                            "compiled", "tiles", "prog MB", "strm MB", "schd MB");
                total.resize(steps.names().size());
            }
            const std::vector<double> seconds = steps.seconds();
            columns = steps.names();
            std::printf("%-24s", id.c_str());
            for (std::size_t k = 0; k < total.size(); ++k) {
                std::printf(" %*.2f", width(steps.names()[k]), seconds[k] * 1e3);
                total[k] += seconds[k];
            }
            const double evaluation = seconds.front() + seconds.back();
            evaluations += evaluation;
            std::printf(" %8.2f %8zu %8zu %8zu %8zu %8.1f %8.1f %8.1f\n", evaluation * 1e3,
                        sizes.operations, sizes.written, sizes.compiled, sizes.tiles,
                        sizes.program_mb, sizes.stream_mb, sizes.schedule_mb);
        }
        std::printf("%-24s", "all");
        for (std::size_t k = 0; k < total.size(); ++k)
            std::printf(" %*.2f", width(columns[k]), total[k] * 1e3);
        std::printf(" %8.2f\npeak of the resident set: %.0f MB\n", evaluations * 1e3, peak_mb());
        return all ? 0 : 1;
    } catch (const Error& error) {
        std::fprintf(stderr, "bench_timing: %s\n", error.what());
        return 2;
    }
}
