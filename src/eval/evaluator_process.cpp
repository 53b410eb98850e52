#include "eval/evaluator_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "core/error.h"

namespace accelopt::eval {

namespace {

constexpr double kKillWait_s = 5;

[[noreturn]] void throw_start(const std::string& program, int code) {
    throw Error(ErrorSource::kExternal, "evaluator_start",
                "cannot start an evaluator: " + std::string(std::strerror(code)) + ": " + program,
                code == EAGAIN || code == ENOMEM || code == EMFILE || code == ENFILE);
}

/// A pipe whose descriptors are closed on exec and are none of the standard three.
struct Pipe {
    int read_end = -1;
    int write_end = -1;

    bool open() {
        int fds[2];
        if (pipe2(fds, O_CLOEXEC) != 0) return false;
        read_end = lift(fds[0]);
        write_end = lift(fds[1]);
        return read_end >= 0 && write_end >= 0;
    }
    ~Pipe() {
        close_end(read_end);
        close_end(write_end);
    }
    static void close_end(int& fd) {
        if (fd >= 0) close(fd);
        fd = -1;
    }
    static int release(int& fd) {
        const int out = fd;
        fd = -1;
        return out;
    }

  private:
    static int lift(int fd) {
        if (fd > 2) return fd;
        const int lifted = fcntl(fd, F_DUPFD_CLOEXEC, 3);
        close(fd);
        return lifted;
    }
};

/// Runs between fork and exec: only async-signal-safe calls.
[[noreturn]] void become_evaluator(const Pipe& input, const Pipe& output, const Pipe& failure,
                                   pid_t parent, char* const* arguments) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);  // the parent died before the line above
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    for (const int number : {SIGPIPE, SIGINT, SIGTERM, SIGHUP}) signal(number, SIG_DFL);
    if (dup2(input.read_end, 0) >= 0 && dup2(output.write_end, 1) >= 0) {
        close_range(3, ~0u, CLOSE_RANGE_CLOEXEC);
        execv(arguments[0], arguments);
    }
    const int code = errno;
    if (write(failure.write_end, &code, sizeof code) < 0) _exit(126);
    _exit(127);
}

/// Blocks SIGPIPE around a write, and swallows the one the write may raise: the caller's process
/// may want its default elsewhere.
class PipeSignalGuard {
  public:
    PipeSignalGuard() {
        sigemptyset(&pipe_);
        sigaddset(&pipe_, SIGPIPE);
        sigset_t pending;
        sigpending(&pending);
        was_pending_ = sigismember(&pending, SIGPIPE) == 1;
        pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
    }
    ~PipeSignalGuard() {
        if (!was_pending_) {
            const timespec at_once{0, 0};
            while (sigtimedwait(&pipe_, nullptr, &at_once) == -1 && errno == EINTR) {
            }
        }
        pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    }
    PipeSignalGuard(const PipeSignalGuard&) = delete;
    PipeSignalGuard& operator=(const PipeSignalGuard&) = delete;

  private:
    sigset_t pipe_;
    sigset_t before_;
    bool was_pending_ = false;
};

}  // namespace

std::unique_ptr<EvaluatorProcess> EvaluatorProcess::start(
    const std::string& program, const std::vector<std::string>& arguments) {
    Pipe input, output, failure;
    if (!input.open() || !output.open() || !failure.open()) throw_start(program, errno);
    std::vector<char*> argv = {const_cast<char*>(program.c_str())};
    for (const std::string& argument : arguments) {
        argv.push_back(const_cast<char*>(argument.c_str()));
    }
    argv.push_back(nullptr);

    const pid_t parent = getpid();
    const pid_t child = fork();
    if (child < 0) throw_start(program, errno);
    if (child == 0) become_evaluator(input, output, failure, parent, argv.data());

    Pipe::close_end(failure.write_end);
    int code = 0;
    ssize_t got = 0;
    while ((got = read(failure.read_end, &code, sizeof code)) < 0 && errno == EINTR) {
    }
    if (got > 0) {
        waitpid(child, nullptr, 0);
        throw_start(program, code);
    }
    fcntl(input.write_end, F_SETFL, O_NONBLOCK);
    fcntl(output.read_end, F_SETFL, O_NONBLOCK);
    return std::unique_ptr<EvaluatorProcess>(new EvaluatorProcess(
        child, Pipe::release(input.write_end), Pipe::release(output.read_end)));
}

EvaluatorProcess::~EvaluatorProcess() {
    kill();
    close_input();
    close(output_);
}

void EvaluatorProcess::write_some() {
    const PipeSignalGuard guard;
    while (!pending_.empty()) {
        const ssize_t n = write(input_, pending_.data(), pending_.size());
        if (n >= 0) {
            pending_.erase(0, static_cast<std::size_t>(n));
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            return;
        } else if (errno != EINTR) {
            pending_.clear();
        }
    }
}

bool EvaluatorProcess::read_some() {
    char buffer[65536];
    for (;;) {
        const ssize_t n = read(output_, buffer, sizeof buffer);
        if (n > 0) {
            received_.append(buffer, static_cast<std::size_t>(n));
            return true;  // one buffer at a time: a child that never stops must not hold us here
        }
        if (n == 0) return false;
        if (errno == EAGAIN || errno == EWOULDBLOCK) return true;
        if (errno != EINTR) return false;
    }
}

std::optional<std::string> EvaluatorProcess::take_line() {
    const std::size_t end = received_.find('\n', scanned_);
    if (end == std::string::npos) {
        scanned_ = received_.size();
        return std::nullopt;
    }
    std::string line = received_.substr(0, end);
    received_.erase(0, end + 1);
    scanned_ = 0;
    return line;
}

void EvaluatorProcess::limit_memory(std::int64_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
    (void)bytes;  // the sanitizer's shadow memory alone exceeds any sensible limit
#else
    rlimit limit{};
    if (prlimit(pid_, RLIMIT_DATA, nullptr, &limit) != 0) return;
    const rlim_t wanted = static_cast<rlim_t>(bytes);
    limit.rlim_cur = limit.rlim_max == RLIM_INFINITY ? wanted : std::min(wanted, limit.rlim_max);
    prlimit(pid_, RLIMIT_DATA, &limit, nullptr);
#endif
}

void EvaluatorProcess::close_input() {
    if (input_ >= 0) close(input_);
    input_ = -1;
}

bool EvaluatorProcess::reap(double wait_s) {
    using namespace std::chrono;
    const auto deadline = steady_clock::now() + duration<double>(wait_s);
    while (!reaped_) {
        const pid_t got = waitpid(pid_, &status_, WNOHANG);
        if (got == pid_ || (got < 0 && errno == ECHILD)) {
            reaped_ = true;
        } else if (steady_clock::now() >= deadline) {
            return false;
        } else {
            std::this_thread::sleep_for(milliseconds(1));
        }
    }
    return true;
}

void EvaluatorProcess::kill() {
    if (reaped_) return;
    ::kill(pid_, SIGKILL);
    reap(kKillWait_s);
}

std::string EvaluatorProcess::end_description() const {
    if (!reaped_) return "";
    if (WIFSIGNALED(status_)) {
        const int number = WTERMSIG(status_);
        const char* name = sigabbrev_np(number);
        return "signal " + std::to_string(number) +
               (name ? " (SIG" + std::string(name) + ")" : std::string());
    }
    return "exit status " + std::to_string(WEXITSTATUS(status_));
}

}  // namespace accelopt::eval
