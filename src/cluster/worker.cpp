#include "cluster/worker.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <list>
#include <map>
#include <thread>
#include <utility>
#include <vector>

#include "agents/agents.h"
#include "cluster/call_journal.h"
#include "cluster/framing.h"
#include "cluster/run_context.h"
#include "config/run_config.h"
#include "core/data_path.h"
#include "eval/evaluator.h"
#include "eval/problem.h"
#include "llm/client.h"
#include "llm/model_options.h"
#include "store/journal.h"

namespace accelopt::cluster {

using protocol::LlmOutcome;
using protocol::Sample;
using protocol::SampleStatus;
using protocol::Unit;
using protocol::UnitKind;
using protocol::UnitResult;

namespace {

/// A unit in progress.
struct Task {
    Unit unit;
    UnitResult result;
    int open_samples = 0;
};

/// What a finished model call or a claimed evaluation belongs to.
struct Waiting {
    Task* task = nullptr;
    protocol::Role role = protocol::Role::kPlanner;
    int sample = -1;
};

}  // namespace

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
    void handle(const Message& message);
    void begin(std::int64_t lease, Unit unit);
    void ask(Task& task, protocol::Role role, int sample, llm::Request request);
    template <typename Action>
    void within_unit(Task& task, Action action);
    void abandon(Task& task, const std::string& why);
    void open(Task& task);
    void answered(const llm::Completion& completion);
    void route(const Waiting& waiting, const llm::Completion& completion);
    void planned(Task& task, const llm::Reply& reply);
    void executed(Task& task, int index, const llm::Reply& reply);
    void claim(Task& task, int sample, const std::string& source);
    void claim_answered(const std::string& payload);
    void evaluated(const protocol::EvaluationReply& reply);
    void deliver(const std::string& key, const protocol::EvaluationReply& reply, bool shared);
    void finish(Task& task);
    void request_units();
    protocol::EvaluationRequest evaluation_request(const std::string& problem,
                                                   const std::string& source) const;
};

void Worker::State::start(const std::string& payload) {
    context = RunContext::parse(payload);
    const auto& config = context.config;
    const int rank = transport.rank();
    // Replies of earlier launches first: this launch's own journal starts empty.
    auto replies = std::make_shared<JournalReplies>(context.directory + "/journal");
    journal = std::make_unique<store::JournalWriter>(context.directory + "/journal",
                                                     context.journal_rank(rank), context.launch);
    pacer = std::make_shared<WorkerPacer>(
        config.budget_usd, config.budget_calls, clock,
        [this](const protocol::LedgerRow& row) {
            tell(MessageType::kSpent, protocol::to_json(row));
        },
        [this](const std::string& model, double seconds) {
            tell(MessageType::kHold, frame(std::to_string(seconds), model));
        });
    std::map<std::string, llm::ModelOptions> models;
    bool all_builtin = true;
    for (const auto& [key, model] : config.models) {
        models[key] = llm::make_model_options(model);
        all_builtin = all_builtin && model.provider == "builtin";
    }
    client = std::make_unique<llm::Client>(
        std::move(models), host.providers(), llm::load_prices(data_path(config.prices)), replies,
        std::make_shared<JournalCallLog>(*journal), pacer, clock, config.seed);
    eval::PoolOptions options;
    options.program = host.evaluator_program;
    options.slots = config.evaluator_slots
                        ? static_cast<int>(*config.evaluator_slots)
                        : automatic_slots(transport.size() == 1 ? 1 : transport.local_size() - 1);
    options.cache_directory = context.cache_directory();
    options.cache_bytes = static_cast<std::int64_t>(config.evaluator_cache_gib * (1LL << 30));
    // Builtin units cost evaluations only; units of remote models mostly wait for the network.
    capacity = all_builtin ? options.slots + 1 : std::max(32, 4 * options.slots);
    pool = std::make_unique<eval::EvaluatorPool>(std::move(options));
    agents = std::make_unique<agents::Agents>(agents::Prompts(data_path(config.prompts)),
                                              config.agents, config.seed);
    for (const auto& id : config.problems) {
        const eval::Problem problem = eval::load_problem(id, config.shape);
        facts[id] = problem_facts(problem);
    }
    started = true;
}

void Worker::State::handle(const Message& message) {
    switch (message.type) {
        case MessageType::kStart:
            start(message.payload);
            return;
        case MessageType::kLease: {
            const auto [lease, body] = unframe(message.payload);
            --requested;
            begin(std::stoll(lease), protocol::parse_unit(body));
            return;
        }
        case MessageType::kClaimReply:
            claim_answered(message.payload);
            return;
        case MessageType::kSpend: {
            const auto [usd, calls] = unframe(message.payload);
            if (pacer) pacer->set_others(std::stod(usd), std::stoll(calls));
            return;
        }
        case MessageType::kHold: {
            const auto [seconds, model] = unframe(message.payload);
            if (pacer) pacer->hold_from_peer(model, std::stod(seconds));
            return;
        }
        case MessageType::kStop:
            stopped = static_cast<ExitCode>(std::stoi(message.payload));
            return;
        case MessageType::kRequest:
        case MessageType::kResult:
        case MessageType::kClaim:
        case MessageType::kEvaluated:
        case MessageType::kSpent:
        case MessageType::kFatal:
        case MessageType::kInterrupted:
            return;
    }
}

void Worker::State::begin(std::int64_t lease, Unit unit) {
    tasks.emplace_back();
    Task& task = tasks.back();
    task.unit = std::move(unit);
    UnitResult& result = task.result;
    result.unit_id = task.unit.id;
    result.problem = task.unit.problem;
    result.kind = task.unit.kind;
    result.round = task.unit.round;
    result.order = task.unit.order;
    if (task.unit.kind == UnitKind::kRewrite) {
        result.parent_id = task.unit.candidate.id;
        result.plan = task.unit.plan;
    }
    result.lease = lease;
    within_unit(task, [&] { open(task); });
}

void Worker::State::open(Task& task) {
    UnitResult& result = task.result;
    const auto& problem = facts.at(task.unit.problem);
    switch (task.unit.kind) {
        case UnitKind::kBaseline:
            claim(task, -1, task.unit.candidate.source);
            return;
        case UnitKind::kRewrite:
            ask(task, protocol::Role::kPlanner, 0, agents->planner(task.unit, problem));
            return;
        case UnitKind::kSummarize:
            result.experience = task.unit.experience;
            ask(task, protocol::Role::kSummarizer, 0, agents->summarizer(task.unit, problem));
            return;
    }
}

void Worker::State::ask(Task& task, protocol::Role role, int sample, llm::Request request) {
    calls[client->submit(std::move(request))] = {&task, role, sample};
}

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

void Worker::State::abandon(Task& task, const std::string& why) {
    task.result.failure = why;
    std::erase_if(calls, [&](const auto& entry) { return entry.second.task == &task; });
    for (auto& [key, waiting] : claims) {
        std::erase_if(waiting, [&](const Waiting& w) { return w.task == &task; });
    }
    finish(task);
}

void Worker::State::answered(const llm::Completion& completion) {
    const auto it = calls.find(completion.id);
    if (it == calls.end()) return;
    const Waiting waiting = it->second;
    calls.erase(it);
    within_unit(*waiting.task, [&] { route(waiting, completion); });
}

void Worker::State::route(const Waiting& waiting, const llm::Completion& completion) {
    Task& task = *waiting.task;
    const auto& tries = completion.reply.tries;
    task.result.ledger.insert(task.result.ledger.end(), tries.begin(), tries.end());
    switch (waiting.role) {
        case protocol::Role::kPlanner:
            planned(task, completion.reply);
            return;
        case protocol::Role::kExecutor:
            executed(task, waiting.sample, completion.reply);
            return;
        case protocol::Role::kSummarizer:
        case protocol::Role::kFixer:
            task.result.plan_outcome = completion.reply.outcome;
            if (completion.reply.outcome == LlmOutcome::kOk) {
                agents::parse_summary(completion.reply.text, task.result.experience);
            }
            finish(task);
            return;
    }
}

void Worker::State::planned(Task& task, const llm::Reply& reply) {
    task.result.plan_text = reply.text;
    task.result.plan_outcome = reply.outcome;
    if (reply.outcome != LlmOutcome::kOk) {
        finish(task);
        return;
    }
    task.result.samples.resize(static_cast<std::size_t>(task.unit.samples));
    task.open_samples = task.unit.samples;
    const auto& problem = facts.at(task.unit.problem);
    for (int k = 0; k < task.unit.samples; ++k) {
        task.result.samples[static_cast<std::size_t>(k)].index = k;
        ask(task, protocol::Role::kExecutor, k,
            agents->executor(task.unit, problem, reply.text, k));
    }
    if (task.unit.samples == 0) finish(task);
}

void Worker::State::executed(Task& task, int index, const llm::Reply& reply) {
    Sample& sample = task.result.samples[static_cast<std::size_t>(index)];
    sample.reply = reply.text;
    sample.llm_outcome = reply.outcome;
    sample.status = SampleStatus::kLlmFailed;
    if (reply.outcome == LlmOutcome::kOk) {
        auto kernel = agents::extract_kernel(reply.text);
        if (!kernel.ok()) {
            sample.status = SampleStatus::kExtractionFailed;
        } else {
            sample.source = kernel->source;
            sample.source_hash = kernel->normalised_hash;
            if (!sample.source_hash.empty() &&
                sample.source_hash == task.unit.candidate.source_hash) {
                sample.status = SampleStatus::kNoChange;
            } else {
                sample.status = SampleStatus::kEvaluated;
                claim(task, index, sample.source);
                return;
            }
        }
    }
    if (--task.open_samples == 0) finish(task);
}

/// Asks the coordinator who evaluates this kernel: every distinct text is evaluated once a run.
void Worker::State::claim(Task& task, int sample, const std::string& source) {
    const std::string key = context.evaluation_key(task.unit.problem, source);
    const bool first = !claims.contains(key);
    claims[key].push_back({&task, protocol::Role::kExecutor, sample});
    if (!first) return;
    claimed[key] = {task.unit.problem, source};
    tell(MessageType::kClaim, frame(key, ""));
}

void Worker::State::claim_answered(const std::string& payload) {
    const auto [key, body] = unframe(payload);
    if (!claims.contains(key)) return;
    if (!body.empty()) {
        auto reply = protocol::parse_evaluation_reply(body);
        require(reply.ok(), "coordinator sent a malformed verdict");
        deliver(key, *reply, true);
        return;
    }
    auto request = evaluation_request(claimed.at(key).problem, claimed.at(key).source);
    request.id = key;
    pool->submit(std::move(request));
}

protocol::EvaluationRequest Worker::State::evaluation_request(const std::string& problem,
                                                              const std::string& source) const {
    const auto& config = context.config;
    protocol::EvaluationRequest request;
    request.problem = problem;
    request.target = config.target;
    request.source = source;
    request.rule = config.verify_rule;
    request.seeds = config.verify_seeds;
    if (config.verify_published_seeds) request.seed_rule = "published";
    // Every kernel gets every tier, each ending at its first finding: what is wrong shows on the
    // first input set as a rule, and nothing that is not fully verified can enter a beam.
    request.tiers = {"legality", "timing", "seed", "values"};
    if (config.verify_stress) request.tiers.push_back("stress");
    request.secret = context.secret();
    request.shape = config.shape;
    request.limits.wall_s = config.evaluator_timeout_s;
    request.limits.memory_bytes = static_cast<std::int64_t>(config.evaluator_memory_gib * 1e9);
    return request;
}

void Worker::State::evaluated(const protocol::EvaluationReply& reply) {
    const std::string framed = frame(reply.id, protocol::to_json(reply));
    if (reply.outcome != protocol::Outcome::kEvaluatorError) {
        journal->append(store::RecordType::kEvaluation, framed);
    }
    tell(MessageType::kEvaluated, framed);
    deliver(reply.id, reply, false);
}

void Worker::State::deliver(const std::string& key, const protocol::EvaluationReply& reply,
                            bool shared) {
    const auto waiting = std::exchange(claims[key], {});
    claims.erase(key);
    claimed.erase(key);
    bool own = !shared;
    for (const auto& [task, role, index] : waiting) {
        if (own) ++task->result.physical_evaluations;
        if (index < 0) {
            task->result.baseline = reply;
            finish(*task);
        } else {
            Sample& sample = task->result.samples[static_cast<std::size_t>(index)];
            sample.evaluation = reply;
            sample.shared_evaluation = !own;
            if (--task->open_samples == 0) finish(*task);
        }
        own = false;
    }
}

void Worker::State::finish(Task& task) {
    tell(MessageType::kResult, protocol::to_json(task.result));
    tasks.remove_if([&](const Task& t) { return &t == &task; });
}

void Worker::State::request_units() {
    const int room = capacity - static_cast<int>(tasks.size()) - requested;
    if (room <= 0) return;
    requested += room;
    tell(MessageType::kRequest, std::to_string(room));
}

Worker::Worker(WorkerHost host, Transport& transport, Clock& clock)
    : state_(std::make_unique<State>(std::move(host), transport, clock)) {}

Worker::~Worker() = default;

bool Worker::poll(double wait_s) {
    State& state = *state_;
    bool active = false;
    try {
        while (!state.stopped) {
            const auto message = state.transport.receive(Mailbox::kWorker);
            if (!message) break;
            state.handle(*message);
            active = true;
        }
        if (!state.started || state.stopped) return active;
        for (const auto& completion : state.client->poll(active ? 0 : wait_s / 2)) {
            state.answered(completion);
            active = true;
        }
        for (const auto& reply : state.pool->poll(active ? 0 : wait_s / 2)) {
            state.evaluated(reply);
            active = true;
        }
        state.request_units();
    } catch (const std::exception& error) {
        // Nothing of this worker can be trusted any more; the coordinator ends the run, resumable.
        state.tell(MessageType::kFatal, error.what());
        state.transport.flush(1.0);
        state.stopped = ExitCode::kInternal;
    }
    return active;
}

std::optional<ExitCode> Worker::stopped() const { return state_->stopped; }

}  // namespace accelopt::cluster
