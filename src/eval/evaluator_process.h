#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace accelopt::eval {

/// One child process that reads lines on its standard input and answers lines on its standard
/// output. Both pipes are non-blocking on this side. The child dies with the thread that started
/// it (PR_SET_PDEATHSIG), stands in its own process group, so that a Ctrl-C at the terminal reaches
/// only the parent, and inherits no descriptor but the three standard ones.
class EvaluatorProcess {
  public:
    /// Starts `program`. Throws Error(kExternal, "evaluator_start") when that fails.
    static std::unique_ptr<EvaluatorProcess> start(const std::string& program,
                                                   const std::vector<std::string>& arguments);
    /// Kills and reaps.
    ~EvaluatorProcess();
    EvaluatorProcess(const EvaluatorProcess&) = delete;
    EvaluatorProcess& operator=(const EvaluatorProcess&) = delete;

    pid_t pid() const { return pid_; }
    int input() const { return input_; }
    int output() const { return output_; }

    /// Puts a line (with its newline) behind what waits to be written.
    void send(const std::string& line) { pending_ += line; }
    bool has_pending() const { return !pending_.empty(); }
    /// Writes what the pipe takes. A child that no longer reads loses the rest: what it says, or
    /// that it ends, shows on its output.
    void write_some();
    /// Reads what is there; false at the end of the child's output.
    bool read_some();
    /// The next complete line, without its newline.
    std::optional<std::string> take_line();
    /// Bytes read that are no complete line yet.
    std::size_t unread_bytes() const { return received_.size(); }
    const std::string& unread() const { return received_; }

    /// Caps the child's private writable memory (RLIMIT_DATA: file-backed caches do not count).
    void limit_memory(std::int64_t bytes);
    /// Closes the child's input: an idle evaluator then ends by itself.
    void close_input();
    /// Waits at most `wait_s`; true when the child has ended and is reaped.
    bool reap(double wait_s);
    /// Sends SIGKILL and reaps; returns at the latest after a few seconds even if the kernel
    /// cannot end the child (a hung file system).
    void kill();
    /// "signal 11 (SIGSEGV)" or "exit status 3"; "" while the child lives.
    std::string end_description() const;

  private:
    EvaluatorProcess(pid_t pid, int input, int output)
        : pid_(pid), input_(input), output_(output) {}

    pid_t pid_;
    int input_;
    int output_;
    bool reaped_ = false;
    int status_ = 0;
    std::string pending_;
    std::string received_;
    std::size_t scanned_ = 0;  ///< bytes of received_ known to hold no newline
};

}  // namespace accelopt::eval
