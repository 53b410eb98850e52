#pragma once

// Private to cluster: what a worker keeps, shared by worker.cpp and worker_evaluations.cpp.

#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agents/agents.h"
#include "cluster/call_journal.h"
#include "cluster/framing.h"
#include "cluster/run_context.h"
#include "cluster/worker.h"
#include "eval/evaluator.h"
#include "llm/client.h"
#include "store/journal.h"

namespace accelopt::cluster {

/// A unit in progress.
struct Task {
    protocol::Unit unit;
    protocol::UnitResult result;
    int open_samples = 0;
};

/// What a finished model call or a claimed evaluation belongs to.
struct Waiting {
    Task* task = nullptr;
    protocol::Role role = protocol::Role::kPlanner;
    int sample = -1;
};

struct Worker::State {
    State(WorkerHost host_in, Transport& transport_in, Clock& clock_in)
        : host(std::move(host_in)), transport(transport_in), clock(clock_in) {}

    WorkerHost host;
    Transport& transport;
    Clock& clock;
    std::optional<ExitCode> stopped;

    // Set by kStart.
    bool started = false;
    RunContext context;
    std::unique_ptr<store::JournalWriter> journal;
    std::shared_ptr<WorkerPacer> pacer;
    std::unique_ptr<llm::Client> client;
    std::unique_ptr<eval::EvaluatorPool> pool;
    std::unique_ptr<agents::Agents> agents;
    std::map<std::string, agents::ProblemFacts> facts;
    std::map<std::string, std::string> definitions;  ///< Problem::definition_sha256
    int capacity = 1;
    int requested = 0;

    std::list<Task> tasks;
    std::map<std::uint64_t, Waiting> calls;              ///< by llm call
    std::map<std::string, std::vector<Waiting>> claims;  ///< by evaluation key
    struct ClaimedKernel {
        std::string problem;
        std::string source;
    };
    std::map<std::string, ClaimedKernel> claimed;  ///< by key, until the verdict

    void tell(MessageType type, std::string payload) {
        transport.send(0, Mailbox::kCoordinator, type, std::move(payload));
    }

    void start(const std::string& payload);
    WorkerPacer::Coordinator reports();
    void handle(const Message& message);
    void begin(std::int64_t lease, protocol::Unit unit);
    void ask(Task& task, protocol::Role role, int sample, llm::Request request);
    template <typename Action>
    void within_unit(Task& task, Action action);
    void abandon(Task& task, const std::string& why);
    void open(Task& task);
    void answered(const llm::Completion& completion);
    void route(const Waiting& waiting, const llm::Completion& completion);
    void planned(Task& task, const llm::Reply& reply);
    void executed(Task& task, int index, const llm::Reply& reply);
    bool take_kernel(Task& task, protocol::Sample& sample,
                     const Result<agents::ExtractedKernel, std::string>& kernel);
    bool repair(Task& task, protocol::Sample& sample);
    void repaired(Task& task, int index, const llm::Reply& reply);
    void close_sample(Task& task);
    bool is_open(const Task* task) const;
    void claim(Task& task, int sample, const std::string& source);
    void claim_answered(const std::string& payload);
    void evaluated(const protocol::EvaluationReply& reply);
    void deliver(const std::string& key, const protocol::EvaluationReply& reply, bool shared);
    void finish(Task& task);
    void request_units();
    void fail(ExitCode code, const std::string& why);
    protocol::EvaluationRequest evaluation_request(const std::string& problem,
                                                   const std::string& source) const;
};

/// The unit boundary: what goes wrong within one unit ends that unit, not the worker. A journal
/// that cannot be written is not the unit's trouble.
template <typename Action>
void Worker::State::within_unit(Task& task, Action action) {
    try {
        action();
    } catch (const Error& error) {
        if (error.code() == "journal") throw;
        abandon(task, error.what());
    } catch (const std::exception& error) {
        abandon(task, error.what());
    }
}

}  // namespace accelopt::cluster
