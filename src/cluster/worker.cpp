#include "cluster/worker.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "cluster/worker_state.h"
#include "config/run_config.h"
#include "core/data_path.h"
#include "eval/problem.h"
#include "llm/model_options.h"
#include "llm/retry.h"

namespace accelopt::cluster {

using protocol::LlmOutcome;
using protocol::Sample;
using protocol::SampleStatus;
using protocol::Unit;
using protocol::UnitKind;
using protocol::UnitResult;

namespace {

/// Units at a time where models are asked over the network: with one or two samples each, 256 calls
/// and more are in flight.
constexpr int kRemoteUnits = 256;
/// Units at a time where models answer in batches: a round is one file.
constexpr int kBatchUnits = 100'000;

}  // namespace

void Worker::State::start(const std::string& payload) {
    context = RunContext::parse(payload);
    const auto& config = context.config;
    const int rank = transport.rank();
    // Replies of earlier launches first: this launch's own journal starts empty.
    auto replies = std::make_shared<JournalReplies>(context.directory + "/journal");
    journal = std::make_unique<store::JournalWriter>(context.directory + "/journal",
                                                     context.journal_rank(rank), context.launch);
    pacer = std::make_shared<WorkerPacer>(budget_limits(config).any(), clock, reports());
    std::map<std::string, llm::ModelOptions> models;
    bool all_builtin = true;
    bool batched = false;
    for (const auto& [key, model] : config.models) {
        auto& options = models[key] = llm::make_model_options(model);
        context.place(options);
        all_builtin = all_builtin && model.provider == "builtin";
        batched = batched || model.provider == "batch";
    }
    client = std::make_unique<llm::Client>(
        std::move(models), host.providers(), llm::load_prices(data_path(config.prices)), replies,
        std::make_shared<JournalCallLog>(*journal), pacer, clock, config.seed,
        llm::load_retry_options(data_path(config.retry)));
    eval::PoolOptions options;
    options.program = host.evaluator_program;
    options.slots = config.evaluator_slots
                        ? static_cast<int>(*config.evaluator_slots)
                        : automatic_slots(transport.size() == 1 ? 1 : transport.local_size() - 1);
    options.cache_directory = context.cache_directory();
    options.cache_bytes = static_cast<std::int64_t>(config.evaluator_cache_gib * (1LL << 30));
    // Builtin units cost evaluations only; units of remote models mostly wait for the network.
    capacity = all_builtin ? options.slots + 1 : std::max(kRemoteUnits, 4 * options.slots);
    if (batched) capacity = kBatchUnits;
    pool = std::make_unique<eval::EvaluatorPool>(std::move(options));
    std::map<std::string, agents::ContextLimit> limits;
    for (const auto& [key, model] : config.models) {
        limits[key] = {model.context_tokens.value_or(0), model.max_tokens};
    }
    agents = std::make_unique<agents::Agents>(agents::Prompts(data_path(config.prompts)),
                                              config.agents, config.seed, std::move(limits));
    for (const auto& id : config.problems) {
        const eval::Problem problem = eval::load_problem(id, config.shape);
        facts[id] = problem_facts(problem);
        definitions[id] = problem.definition_sha256;
    }
    started = true;
}

WorkerPacer::Coordinator Worker::State::reports() {
    WorkerPacer::Coordinator c;
    c.reserve = [this](const llm::Reservation& r) {
        const nlohmann::json json = {
            {"model", r.model}, {"problem", r.problem}, {"usd", r.max_usd.value_or(0)}};
        tell(MessageType::kReserve, frame(std::to_string(r.ticket), json.dump()));
    };
    c.release = [this](std::uint64_t t) { tell(MessageType::kRelease, std::to_string(t)); };
    c.spent = [this](const protocol::LedgerRow& row) {
        tell(MessageType::kSpent, protocol::to_json(row));
    };
    c.hold = [this](const std::string& model, double seconds) {
        tell(MessageType::kHold, frame(std::to_string(seconds), model));
    };
    return c;
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
        case MessageType::kReserved: {
            const auto [ticket, body] = unframe(message.payload);
            const auto verdict = static_cast<Budget::Verdict>(std::stoi(body.substr(0, 1)));
            pacer->answered(std::stoull(ticket), {verdict, body.substr(1)});
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
        case MessageType::kReserve:
        case MessageType::kRelease:
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
        case protocol::Role::kFixer:
            repaired(task, waiting.sample, completion.reply);
            return;
        case protocol::Role::kSummarizer:
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
    if (reply.outcome == LlmOutcome::kOk &&
        take_kernel(task, sample, agents::extract_kernel(reply.text, task.unit.candidate.source))) {
        return;
    }
    close_sample(task);
}

/// Takes what was found in a reply; true when it goes to an evaluator.
bool Worker::State::take_kernel(Task& task, Sample& sample,
                                const Result<agents::ExtractedKernel, std::string>& kernel) {
    if (!kernel.ok()) {
        sample.status = SampleStatus::kExtractionFailed;
        return false;
    }
    sample.source = kernel->source;
    sample.source_hash = kernel->normalised_hash;
    if (!sample.source_hash.empty() && sample.source_hash == task.unit.candidate.source_hash) {
        sample.status = SampleStatus::kNoChange;
        return false;
    }
    sample.status = SampleStatus::kEvaluated;
    claim(task, sample.index, sample.source);
    return true;
}

void Worker::State::close_sample(Task& task) {
    if (--task.open_samples == 0) finish(task);
}

/// Asks the fixer about a kernel that the checks turned down; false when there is none to ask.
bool Worker::State::repair(Task& task, Sample& sample) {
    const auto& config = context.config;
    const auto done = static_cast<int>(sample.repairs.size());
    if (!config.agents.contains("fixer") || done >= config.fixer_attempts) return false;
    const auto& verdict = *sample.evaluation;
    if (!agents::can_be_repaired(verdict)) return false;
    auto request = agents->fixer(task.unit, facts.at(task.unit.problem), sample.source,
                                 agents::verdict_text(verdict), sample.index, done);
    sample.repairs.push_back({sample.source, agents::verdict_name(verdict)});
    ask(task, protocol::Role::kFixer, sample.index, std::move(request));
    return true;
}

void Worker::State::repaired(Task& task, int index, const llm::Reply& reply) {
    Sample& sample = task.result.samples[static_cast<std::size_t>(index)];
    auto& repair = sample.repairs.back();
    repair.llm_outcome = reply.outcome;
    repair.reply = reply.text;
    if (reply.outcome == LlmOutcome::kOk) {
        const auto kernel = agents::extract_kernel(reply.text, repair.source);
        // What is no other kernel leaves the verdict on the one before.
        if (kernel.ok() && kernel->source != repair.source) {
            sample.evaluation.reset();
            if (take_kernel(task, sample, kernel)) return;
        }
    } else if (ends_run(reply.outcome)) {
        sample.llm_outcome = reply.outcome;  // the unit is for a resumed run
    }
    close_sample(task);
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

/// Nothing of this worker can be trusted any more; the coordinator ends the run, resumable.
void Worker::State::fail(ExitCode code, const std::string& why) {
    tell(MessageType::kFatal, frame(std::to_string(static_cast<int>(code)), why));
    transport.flush(1.0);
    stopped = code;
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
    } catch (const Error& error) {
        const bool user =
            error.source() == ErrorSource::kUser || error.source() == ErrorSource::kConfig;
        state.fail(user ? ExitCode::kUsage : ExitCode::kInternal, error.what());
    } catch (const std::exception& error) {
        state.fail(ExitCode::kInternal, error.what());
    }
    return active;
}

std::optional<ExitCode> Worker::stopped() const { return state_->stopped; }

}  // namespace accelopt::cluster
