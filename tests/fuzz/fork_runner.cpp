#include "fork_runner.h"

#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <new>
#include <vector>

namespace accelopt::fuzz {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

/// What a batch tells its parent: the input it is at, and what the finished ones came to.
struct Shared {
    volatile std::int64_t current = -1;
    volatile std::int64_t done = 0;
};

class Campaign {
  public:
    Campaign(const FuzzOptions& options, const char* extension,
             const std::function<std::string(std::int64_t)>& make,
             const std::function<Verdict(const std::string&)>& run)
        : options_(options), extension_(extension), make_(make), run_(run) {
        void* page = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (page == MAP_FAILED) throw std::bad_alloc();
        shared_ = new (page) Shared;
        if (!options_.findings.empty()) std::filesystem::create_directories(options_.findings);
    }

    int run() {
        std::int64_t next = options_.first;
        const std::int64_t end = options_.first + options_.executions;
        double reported = 0;
        while (next < end && seconds_since(start_) < options_.seconds) {
            next = batch(next, std::min(end, next + options_.batch));
            if (options_.progress && seconds_since(start_) - reported > 60) {
                reported = seconds_since(start_);
                report();
            }
        }
        report();
        return findings_ == 0 ? 0 : 1;
    }

  private:
    /// Returns the index to go on with.
    std::int64_t batch(std::int64_t from, std::int64_t to) {
        int ends[2];
        if (pipe(ends) != 0) throw std::bad_alloc();
        shared_->current = from;
        shared_->done = 0;
        std::fflush(nullptr);
        const pid_t child = fork();
        if (child < 0) throw std::bad_alloc();
        if (child == 0) {
            close(ends[0]);
            inputs(from, to, ends[1]);
        }
        close(ends[1]);
        const bool hung = listen(ends[0], child);
        close(ends[0]);
        int status = 0;
        waitpid(child, &status, 0);
        const std::int64_t at = shared_->current;
        if (hung) {
            finding(at, "hang");
            return at + 1;
        }
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return to;
        finding(at, WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status))
                                        : "exit status " + std::to_string(WEXITSTATUS(status)));
        return at + 1;
    }

    /// The child: one line "outcome<TAB>fault" per input.
    [[noreturn]] void inputs(std::int64_t from, std::int64_t to, int out) {
        for (std::int64_t index = from; index < to; ++index) {
            shared_->current = index;
            const Verdict verdict = run_(make_(index));
            std::string line = verdict.outcome + "\t" + verdict.fault;
            for (char& c : line)
                if (c == '\n') c = ' ';
            line += '\n';
            if (write(out, line.data(), line.size()) < 0) _exit(70);
            shared_->done = shared_->done + 1;
            if (seconds_since(start_) > options_.seconds) break;
        }
        _exit(0);
    }

    /// Reads the child's lines until it ends; kills it when one input takes too long.
    bool listen(int from, pid_t child) {
        std::string buffer;
        std::int64_t index = shared_->current;
        std::int64_t done = 0;
        Clock::time_point progress = Clock::now();
        for (;;) {
            pollfd waiting{from, POLLIN, 0};
            const int ready = poll(&waiting, 1, 1000);
            if (shared_->done != done) {
                done = shared_->done;
                progress = Clock::now();
            }
            if (ready <= 0) {
                if (seconds_since(progress) < options_.hang_seconds) continue;
                kill(child, SIGKILL);
                return true;
            }
            char chunk[4096];
            const ssize_t n = read(from, chunk, sizeof chunk);
            if (n <= 0) return false;
            buffer.append(chunk, static_cast<std::size_t>(n));
            std::size_t end = 0;
            while ((end = buffer.find('\n')) != std::string::npos) {
                const std::size_t tab = buffer.find('\t');
                ++outcomes_[buffer.substr(0, tab)];
                ++executions_;
                if (end > tab + 1) finding(index, buffer.substr(tab + 1, end - tab - 1));
                ++index;
                buffer.erase(0, end + 1);
            }
        }
    }

    void finding(std::int64_t index, const std::string& what) {
        ++findings_;
        std::printf("FINDING input %lld: %s\n", static_cast<long long>(index), what.c_str());
        std::fflush(stdout);
        if (options_.findings.empty()) return;
        std::ofstream(options_.findings + "/" + std::to_string(options_.seed) + "-" +
                      std::to_string(index) + extension_)
            << make_(index);
    }

    void report() const {
        const double spent = seconds_since(start_);
        std::printf("%lld executions in %.0f s, %.1f executions/s, %lld findings\n",
                    static_cast<long long>(executions_), spent,
                    static_cast<double>(executions_) / spent, static_cast<long long>(findings_));
        for (const auto& [outcome, count] : outcomes_)
            std::printf("  %9lld  %s\n", static_cast<long long>(count), outcome.c_str());
        std::fflush(stdout);
    }

    const FuzzOptions& options_;
    const char* extension_;
    const std::function<std::string(std::int64_t)>& make_;
    const std::function<Verdict(const std::string&)>& run_;
    Shared* shared_ = nullptr;
    Clock::time_point start_ = Clock::now();
    std::map<std::string, std::int64_t> outcomes_;
    std::int64_t executions_ = 0;
    std::int64_t findings_ = 0;
};

}  // namespace

bool parse_options(int argc, char** argv, const char* what, FuzzOptions& options, int& status) {
    CLI::App app(what);
    app.add_option("--seed", options.seed, "of all mutations")->capture_default_str();
    app.add_option("--executions", options.executions, "stops after that many inputs");
    app.add_option("--seconds", options.seconds, "stops after that long");
    app.add_option("--hang-seconds", options.hang_seconds, "an input that takes longer hangs")
        ->capture_default_str();
    app.add_option("--batch", options.batch, "inputs per process")
        ->check(CLI::PositiveNumber)
        ->capture_default_str();
    app.add_option("--first", options.first, "index of the first input: repeats a finding");
    app.add_option("--findings", options.findings, "folder that keeps the inputs of findings");
    app.add_flag("--progress", options.progress, "a report per minute");
    try {
        app.parse(argc, argv);
        return true;
    } catch (const CLI::ParseError& error) {
        status = app.exit(error);
        return false;
    }
}

int run_forked(const FuzzOptions& options, const char* extension,
               const std::function<std::string(std::int64_t index)>& make,
               const std::function<Verdict(const std::string& input)>& run) {
    return Campaign(options, extension, make, run).run();
}

}  // namespace accelopt::fuzz
