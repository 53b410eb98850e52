// Functional execution against numpy: the time of one seed of a baseline over the time of its numpy
// reference (float32, one thread, the fastest correct OpenBLAS core), the peak memory over
// inputs plus outputs (of the run with its inputs; of the whole process with Python, numpy and the
// reference's outputs), the cost of the second execution in completion order, and which opcodes
// the time goes to. Both sides run in turn and the fastest of their runs counts.
//
//   bench_functional [--shape full|test] [--runs N] [--order] [--opcodes] [--kernel FILE]
//   [PROBLEM...]

#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>
#include <sstream>

#include "core/error.h"
#include "eval/evaluator.h"
#include "eval/problem.h"
#include "eval/reference/blas.h"
#include "eval/reference/python_reference.h"
#include "eval/reference/reference_store.h"
#include "nki/interpreter.h"
#include "nki/syntax/parser.h"
#include "trainium/completion_order.h"
#include "trainium/executor.h"

namespace {

using namespace accelopt;
namespace fs = std::filesystem;

double seconds_of(const std::function<void()>& work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Highest resident size of this process since the last reset, in bytes.
double peak_bytes() {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
        if (line.rfind("VmHWM:", 0) == 0) return std::atof(line.c_str() + 6) * 1024;
    }
    return 0;
}
double resident_bytes() {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
        if (line.rfind("VmRSS:", 0) == 0) return std::atof(line.c_str() + 6) * 1024;
    }
    return 0;
}
void reset_peak() { std::ofstream("/proc/self/clear_refs") << "5"; }

/// A numpy process that runs reference.py's forward on the inputs whenever it is asked to.
class NumpyProcess {
  public:
    NumpyProcess(const eval::Problem& problem, const std::vector<std::span<const float>>& tensors,
                 const fs::path& folder) {
        std::ofstream script(folder / "time.py");
        script << "import sys, time\nimport numpy as np\n"
               << "source = open(" << quoted(problem.reference_path) << ").read()\n"
               << "space = {'__name__': 'reference'}\nexec(compile(source, 'reference', 'exec'), "
                  "space)\narguments = []\n";
        std::size_t tensor = 0;
        for (const eval::InputSpec& input : problem.inputs) {
            if (!input.tensor) {
                script << "arguments.append(np.float32(" << input.scalar << "))\n";
                continue;
            }
            const fs::path file = folder / ("input" + std::to_string(tensor));
            std::ofstream(file, std::ios::binary)
                .write(reinterpret_cast<const char*>(tensors[tensor].data()),
                       static_cast<std::streamsize>(tensors[tensor].size_bytes()));
            script << "arguments.append(np.fromfile(" << quoted(file.string())
                   << ", dtype=np.float32).reshape((";
            for (const std::int64_t n : input.shape) script << n << ", ";
            script << ")))\n";
            ++tensor;
        }
        script << "for line in sys.stdin:\n"
                  "    start = time.perf_counter()\n"
                  "    result = space['forward'](*arguments)\n"
                  "    spent = time.perf_counter() - start\n"
                  "    del result\n"
                  "    print(spent, flush=True)\n";
        script.close();
        int to[2];
        int from[2];
        if (pipe(to) != 0 || pipe(from) != 0) throw std::runtime_error("pipe");
        process_ = fork();
        if (process_ == 0) {
            dup2(to[0], 0);
            dup2(from[1], 1);
            for (const int fd : {to[0], to[1], from[0], from[1]}) close(fd);
            for (const char* name : {"OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"}) {
                setenv(name, "1", 1);
            }
            execl("/usr/bin/python3", "python3", (folder / "time.py").c_str(), nullptr);
            _exit(127);
        }
        close(to[0]);
        close(from[1]);
        ask_ = fdopen(to[1], "w");
        answer_ = fdopen(from[0], "r");
    }
    ~NumpyProcess() {
        std::fclose(ask_);
        std::fclose(answer_);
        waitpid(process_, nullptr, 0);
    }
    NumpyProcess(const NumpyProcess&) = delete;
    NumpyProcess& operator=(const NumpyProcess&) = delete;

    double seconds() {
        std::fputs("\n", ask_);
        std::fflush(ask_);
        double spent = 0;
        if (std::fscanf(answer_, "%lf", &spent) != 1) throw std::runtime_error("numpy failed");
        return spent;
    }

  private:
    static std::string quoted(const std::string& text) { return "'" + text + "'"; }

    pid_t process_ = -1;
    FILE* ask_ = nullptr;
    FILE* answer_ = nullptr;
};

struct Options {
    std::string shape = "full";
    std::string kernel;
    int runs = 3;
    bool order = false;
    bool opcodes = false;
};

nki::Program trace(const eval::Problem& problem, const std::string& source,
                   const trainium::Machine& machine) {
    const auto module = nki::parse(source);
    if (!module) throw std::runtime_error(module.error().message);
    nki::TraceOptions options;
    options.limits.partitions = machine.partitions;
    options.limits.sbuf_partition_bytes = machine.sbuf_partition_bytes;
    options.limits.psum_partition_bytes = machine.psum_partition_bytes;
    options.limits.psum_bank_bytes = machine.psum_bank_bytes;
    auto traced = nki::trace(*module, problem.kernel_arguments(), options);
    if (!traced) throw std::runtime_error(traced.error().code + ": " + traced.error().message);
    return std::move(traced).value();
}

/// Where the time of a run goes: opcode by opcode, largest first.
void print_opcodes(const nki::Program& program, std::span<const trainium::InputArray> inputs) {
    using namespace trainium::execution;
    const SingleThread single_thread;
    const TileTable tiles(program);
    TileMemory memory(program, tiles, inputs, 8'000'000'000);
    Executor executor(program, memory);
    std::map<std::string, std::pair<double, std::int64_t>> spent;
    double total = 0;
    for (std::size_t i = 0; i < program.operations.size(); ++i) {
        const double seconds = seconds_of([&] {
            executor.run(program.operations[i]);
            memory.release(static_cast<std::int64_t>(i));
        });
        auto& entry = spent[std::string(nki::to_string(program.operations[i].opcode))];
        entry.first += seconds;
        ++entry.second;
        total += seconds;
    }
    std::vector<std::pair<double, std::string>> rows;
    for (const auto& [name, entry] : spent) {
        char text[96];
        std::snprintf(text, sizeof(text), "%s %.0f%% (%ld x %.1f us)", name.c_str(),
                      100 * entry.first / total, static_cast<long>(entry.second),
                      1e6 * entry.first / static_cast<double>(entry.second));
        rows.emplace_back(entry.first, text);
    }
    std::sort(rows.rbegin(), rows.rend());
    std::printf("   ");
    for (const auto& row : rows) std::printf(" %s;", row.second.c_str());
    std::printf("\n");
}

/// Measures one problem; returns functional over numpy time.
double measure(const std::string& id, const Options& options) {
    const eval::Problem problem = eval::load_problem(id, options.shape);
    std::string source = problem.baseline_source;
    if (!options.kernel.empty()) {
        std::ostringstream text;
        text << std::ifstream(options.kernel).rdbuf();
        source = text.str();
    }
    const trainium::Machine machine = eval::load_machine("trn1");
    const nki::Program program = trace(problem, source, machine);

    eval::ReferenceStore store("", 8'000'000'000);
    auto made =
        store.get(problem, eval::nominal_set(problem, "bench", 0), eval::ReferenceKind::kPublished);
    if (!made) throw std::runtime_error(made.error());
    const eval::Reference data = *made;
    std::vector<std::span<const float>> tensors;
    std::vector<trainium::InputArray> inputs;
    double bytes = 0;
    for (std::size_t i = 0; i < problem.outputs.size(); ++i) {
        bytes += static_cast<double>(data.output(i).value.size_bytes());
    }
    double input_bytes = 0;
    for (std::size_t i = 0; i < data.inputs(); ++i) {
        const auto array = data.input(i);
        bytes += static_cast<double>(array.size_bytes());
        tensors.push_back(array);
        input_bytes += static_cast<double>(array.size_bytes());
        inputs.push_back({array.data(), static_cast<std::int64_t>(array.size_bytes())});
    }
    const fs::path folder =
        fs::temp_directory_path() / ("bench_functional." + std::to_string(getpid()));
    fs::create_directories(folder);
    double functional = 1e30;
    double reference = 1e30;
    double ordered = 1e30;
    std::string verdict;
    std::vector<trainium::OutputArray> outputs;
    double process = 0;
    double own = 0;
    {
        NumpyProcess numpy(problem, tensors, folder);
        for (int run = 0; run < options.runs; ++run) {
            outputs.clear();
            reset_peak();
            const double before = resident_bytes();
            functional = std::min(functional, seconds_of([&] {
                                      auto executed = trainium::execute(program, inputs, {});
                                      if (!executed) throw std::runtime_error("execution failed");
                                      outputs = std::move(*executed);
                                  }));
            process = std::max(process, peak_bytes());
            own = std::max(own, peak_bytes() - before + input_bytes);
            reference = std::min(reference, numpy.seconds());
        }
        if (options.order) {
            double compile_s = seconds_of([&] {
                const auto kernel = trainium::compile_kernel(program, machine);
                ordered = seconds_of([&] {
                    const auto hazard = trainium::find_hazard(program, kernel, inputs, {}, outputs);
                    verdict = hazard ? hazard->code + ": " + hazard->message : "agrees";
                });
            });
            std::printf(
                "%-24s compiled in %.3f s; completion order %.3f s (%.2f x functional): %s\n",
                id.c_str(), compile_s - ordered, ordered, ordered / functional, verdict.c_str());
        }
    }
    fs::remove_all(folder);
    std::printf("%-24s %9.4f %9.4f %7.2f %9.0f %9.2f %9.2f\n", id.c_str(), functional, reference,
                functional / reference, bytes / 1e6, own / bytes, process / bytes);
    if (options.opcodes) print_opcodes(program, inputs);
    std::fflush(stdout);
    return functional / reference;
}

}  // namespace

int main(int argc, char** argv) {
    Options options;
    std::vector<std::string> problems;
    CLI::App app("Times functional execution of the shipped baselines against numpy.");
    app.add_option("--shape", options.shape)
        ->check(CLI::IsMember({"full", "test"}))
        ->capture_default_str();
    app.add_option("--runs", options.runs)->check(CLI::PositiveNumber)->capture_default_str();
    app.add_flag("--order", options.order, "also run in completion order and compare");
    app.add_flag("--opcodes", options.opcodes, "print the share of each opcode");
    app.add_option("--kernel", options.kernel, "another kernel than the baseline");
    app.add_option("problems", problems);
    CLI11_PARSE(app, argc, argv);
    if (problems.empty()) problems = eval::shipped_problems();
    const eval::BlasChoice& blas = eval::choose_blas();
    std::printf("vector level %s, OpenBLAS core %s, one thread\n", trainium::simd_target().c_str(),
                blas.core_type.c_str());
    std::printf("%-24s %9s %9s %7s %9s %9s %9s\n", "problem", "ours s", "numpy s", "ratio",
                "i+o MB", "run/i+o", "all/i+o");
    std::fflush(stdout);
    std::vector<double> ratios;
    for (const std::string& id : problems) {
        // A process per problem: its peak memory is its own.
        std::array<int, 2> result{};
        if (pipe(result.data()) != 0) return 2;
        const pid_t child = fork();
        if (child == 0) {
            int status = 0;
            try {
                const double ratio = measure(id, options);
                if (write(result[1], &ratio, sizeof(ratio)) < 0) status = 2;
            } catch (const std::exception& error) {
                std::fprintf(stderr, "%s: %s\n", id.c_str(), error.what());
                status = 2;
            }
            std::fflush(stdout);
            _exit(status);
        }
        close(result[1]);
        double ratio = 0;
        if (read(result[0], &ratio, sizeof(ratio)) == sizeof(ratio)) ratios.push_back(ratio);
        close(result[0]);
        waitpid(child, nullptr, 0);
    }
    if (ratios.size() != problems.size()) return 1;
    std::sort(ratios.begin(), ratios.end());
    const double median = (ratios[(ratios.size() - 1) / 2] + ratios[ratios.size() / 2]) / 2;
    std::printf("ratio: median %.2f, worst %.2f\n", median, ratios.back());
    return 0;
}
