#pragma once

#include <memory>
#include <string>
#include <vector>

#include "eval/kernel_observer.h"
#include "eval/task_check.h"
#include "protocol/evaluation.h"
#include "trainium/machine.h"

namespace accelopt::eval {

/// Loads configs/hardware/TARGET.yaml, or the file when `target` is a path.
trainium::Machine load_machine(const std::string& target);
/// The description file of a target: configs/hardware/TARGET.yaml, or the file that it names.
std::string machine_file(const std::string& target);

struct EvaluatorOptions {
    std::string cache_directory;  ///< reference cache; "" = private to the process, no sharing
    std::int64_t cache_bytes = 8'000'000'000;
    KernelObserver observer;  ///< may be empty
};

/// Evaluates kernels in this process. Keeps machine descriptions, problems and references warm.
class Evaluator {
  public:
    explicit Evaluator(EvaluatorOptions options);
    ~Evaluator();
    /// Never throws for anything a kernel does: every end is an outcome.
    protocol::EvaluationReply evaluate(const protocol::EvaluationRequest& request);
    /// Whether a problem can tell right answers from trivial ones, at its test shape.
    TaskReport check_task(const std::string& id_or_path);

  private:
    struct State;
    std::unique_ptr<State> state_;
};

struct PoolOptions {
    std::string program;  ///< path of accelopt-eval; "" = beside this executable
    int slots = 1;
    std::string cache_directory;
    std::int64_t cache_bytes = 8'000'000'000;
};

/// Runs evaluations in disposable accelopt-eval processes: one JSON line out, one in; a process
/// that exceeds the request's wall_s is killed (SIGKILL) and reaped, its request retried once on a
/// fresh process, then stored as `timeout`; a process that dies gives `crashed` with its signal.
/// Single-threaded; poll it.
class EvaluatorPool {
  public:
    explicit EvaluatorPool(PoolOptions options);
    ~EvaluatorPool();

    void submit(protocol::EvaluationRequest request);
    /// Replies that have arrived, in completion order; waits at most `wait_s`.
    std::vector<protocol::EvaluationReply> poll(double wait_s);
    int in_flight() const;
    int slots() const;

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace accelopt::eval
