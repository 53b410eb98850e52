#include "eval/evaluator.h"

#include <chrono>
#include <map>
#include <new>

#include "core/error.h"
#include "core/hash.h"
#include "eval/evaluation_run.h"
#include "eval/problem.h"
#include "eval/reference/reference_store.h"
#include "eval/reply_building.h"
#include "nki/syntax/parser.h"
#include "nki/syntax/printer.h"

namespace accelopt::eval {

using protocol::EvaluationReply;
using protocol::EvaluationRequest;
using protocol::Outcome;

struct Evaluator::State {
    /// A problem at one shape, with what the baseline is known by.
    struct LoadedProblem {
        Problem problem;
        std::string baseline_hash;  ///< normalised; "" when the baseline does not parse
    };

    explicit State(EvaluatorOptions options)
        : references(options.cache_directory, options.cache_bytes),
          observer(std::move(options.observer)) {}

    const trainium::Machine& machine(const std::string& target);
    const LoadedProblem& problem(const std::string& id_or_path, const std::string& shape);
    /// Computed when first asked for; always at the small shape.
    const TaskReport& task(const std::string& id_or_path);
    void run(const EvaluationRequest& request, EvaluationReply& reply);

    ReferenceStore references;
    KernelObserver observer;
    std::map<std::string, trainium::Machine> machines;
    std::map<std::string, LoadedProblem> problems;
    std::map<std::string, TaskReport> tasks;
};

const trainium::Machine& Evaluator::State::machine(const std::string& target) {
    const auto found = machines.find(target);
    if (found != machines.end()) return found->second;
    return machines.emplace(target, load_machine(target)).first->second;
}

const Evaluator::State::LoadedProblem& Evaluator::State::problem(const std::string& id_or_path,
                                                                 const std::string& shape) {
    const std::string key = shape + ":" + id_or_path;
    const auto found = problems.find(key);
    if (found != problems.end()) return found->second;
    LoadedProblem loaded;
    loaded.problem = load_problem(id_or_path, shape);
    const auto baseline = nki::parse(loaded.problem.baseline_source);
    if (baseline) loaded.baseline_hash = nki::normalised_hash(*baseline);
    return problems.emplace(key, std::move(loaded)).first->second;
}

const TaskReport& Evaluator::State::task(const std::string& id_or_path) {
    const auto found = tasks.find(id_or_path);
    if (found != tasks.end()) return found->second;
    TaskReport report = eval::check_task(problem(id_or_path, "test").problem, references);
    return tasks.emplace(id_or_path, std::move(report)).first->second;
}

void Evaluator::State::run(const EvaluationRequest& request, EvaluationReply& reply) {
    const std::string fault = request_fault(request);
    if (!fault.empty()) {
        end_with(reply, Outcome::kEvaluatorError, "bad_request", plain_diagnostic(fault));
        return;
    }
    const trainium::Machine& target = machine(request.target);
    reply.machine = target.name + "@" + target.hash;
    const LoadedProblem& loaded = problem(request.problem, request.shape);
    run_evaluation(request, reply,
                   {loaded.problem, loaded.baseline_hash, target, references,
                    [&]() -> const TaskReport& { return task(request.problem); }, observer});
}

Evaluator::Evaluator(EvaluatorOptions options)
    : state_(std::make_unique<State>(std::move(options))) {}

Evaluator::~Evaluator() = default;

TaskReport Evaluator::check_task(const std::string& id_or_path) { return state_->task(id_or_path); }

protocol::EvaluationReply Evaluator::evaluate(const protocol::EvaluationRequest& request) {
    const auto start = std::chrono::steady_clock::now();
    EvaluationReply reply;
    reply.id = request.id;
    reply.problem = request.problem;
    reply.target = request.target;
    reply.source_sha256 = sha256_hex(request.source);
    reply.accelopt_version = ACCELOPT_VERSION;
    try {
        state_->run(request, reply);
    } catch (const std::bad_alloc&) {
        end_with(reply, Outcome::kEvaluatorError, "out_of_memory",
                 plain_diagnostic("the evaluator ran out of memory"));
    } catch (const Error& error) {
        const bool asked_wrongly =
            error.source() == ErrorSource::kUser || error.source() == ErrorSource::kConfig;
        end_with(reply, Outcome::kEvaluatorError, asked_wrongly ? "bad_request" : error.code(),
                 plain_diagnostic(error.what()));
    } catch (const std::exception& error) {
        end_with(reply, Outcome::kEvaluatorError, "internal", plain_diagnostic(error.what()));
    }
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    reply.cost.wall_s = spent.count();
    return reply;
}

}  // namespace accelopt::eval
