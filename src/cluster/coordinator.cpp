#include "cluster/coordinator.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "cluster/budget.h"
#include "cluster/framing.h"
#include "cluster/run_context.h"
#include "core/hash.h"
#include "core/version.h"
#include "store/archive.h"
#include "store/journal.h"
#include "store/ledger.h"

namespace accelopt::cluster {

using protocol::Unit;
using protocol::UnitKind;
using protocol::UnitResult;
using Json = nlohmann::ordered_json;

namespace {

/// The first outcome of a unit's calls with which no other call of the run can fare better.
std::optional<protocol::LlmOutcome> ending_outcome(const UnitResult& result) {
    if (ends_run(result.plan_outcome)) return result.plan_outcome;
    for (const auto& sample : result.samples) {
        if (ends_run(sample.llm_outcome)) return sample.llm_outcome;
    }
    return std::nullopt;
}

struct Lease {
    std::int64_t id = 0;
    int rank = 0;
    Unit unit;
};

/// The fate of one kernel text: known, or being evaluated by one worker while others wait.
struct Verdict {
    std::string reply;         ///< JSON; "" while open
    std::vector<int> waiting;  ///< ranks that asked meanwhile
};

}  // namespace

struct Coordinator::State {
    State(RunContext context_in, Transport& transport_in, Clock& clock_in)
        : context(std::move(context_in)),
          transport(transport_in),
          clock(clock_in),
          campaign(campaign_options(context.config), problem_starts(context.config)),
          started_s(clock.monotonic_s()),
          budget(budget_limits(context.config)) {}

    RunContext context;
    Transport& transport;
    Clock& clock;
    search::Campaign campaign;
    std::unique_ptr<store::JournalWriter> journal;
    double started_s;

    std::deque<Unit> ready;
    std::map<std::string, Lease> leases;               ///< by unit id
    std::map<int, int> wanted;                         ///< free places by rank
    std::map<std::string, UnitResult> adopted;         ///< accepted by earlier launches
    std::set<std::pair<std::string, int>> old_rounds;  ///< journalled by earlier launches
    std::map<std::string, Verdict> verdicts;           ///< by evaluation key
    std::int64_t next_lease = 1;

    int units_done = 0;
    int units_adopted = 0;
    int physical_evaluations = 0;
    struct Spend {
        double usd = 0;
        std::int64_t calls = 0;
    };
    std::map<int, Spend> spend;  ///< by rank; -1 = earlier launches
    bool spend_unknown = false;
    Budget budget;
    std::optional<ExitCode> ending;
    std::optional<ExitCode> finished;
    std::string end_reason;
    std::vector<std::string> lines;

    void adopt_earlier_launches();
    void greet_workers();
    bool handle_messages();
    void handle(const Message& message);
    void accept(int rank, UnitResult result, const std::string& json);
    void complete(UnitResult result);
    void publish_rounds();
    void claim(int rank, const std::string& key);
    void evaluated(int rank, const std::string& payload);
    void book(int rank, const std::string& payload);
    void note_unknown(const protocol::LedgerRow& row) {
        spend_unknown = spend_unknown || !(row.cost_usd || store::turned_away(row));
    }
    void reserve(int rank, const std::string& payload);
    bool hand_out();
    void lease_one(int rank);
    std::size_t pick_for(int rank) const;
    int owner_of(const Unit& unit) const;
    bool works(int rank) const { return rank != 0 || context.coordinator_works; }
    void check_end();
    void end(ExitCode code, const std::string& reason);
    void record_event(const std::string& kind, const std::string& text);
};

void Coordinator::State::adopt_earlier_launches() {
    const std::string folder = context.directory + "/journal";
    store::OpenReservations reservations;
    for (const auto& path : store::journal_files(folder)) {
        reservations.start_journal();
        store::read_journal(path, [&](const store::Record& record) {
            reservations.take(record);
            switch (record.type) {
                case store::RecordType::kUnitResult: {
                    auto result = protocol::parse_unit_result(record.payload);
                    adopted[result.unit_id] = std::move(result);
                    return;
                }
                case store::RecordType::kEvaluation: {
                    auto [key, reply] = unframe(record.payload);
                    verdicts[key].reply = std::move(reply);
                    return;
                }
                case store::RecordType::kRound: {
                    const auto round = store::parse_round(record.payload);
                    old_rounds.insert({round.problem, round.round});
                    return;
                }
                case store::RecordType::kLlmTry: {
                    const auto row = protocol::parse_ledger_row(record.payload);
                    if (row.replayed) return;
                    spend[-1].usd += row.cost_usd.value_or(0);
                    ++spend[-1].calls;
                    budget.book(row);
                    note_unknown(row);
                    return;
                }
                case store::RecordType::kLaunch:
                case store::RecordType::kLlmReserved:
                case store::RecordType::kLlmReply:
                case store::RecordType::kEvent:
                case store::RecordType::kRunEnd:
                    return;
            }
        });
    }
    double usd = 0;
    const auto open = reservations.open();
    for (const auto& reservation : open) {
        budget.book_possible(reservation);
        usd += reservation.max_usd.value_or(0);
    }
    if (open.empty()) return;
    lines.push_back(fmt::format(
        "{} tries were in flight when an earlier launch ended: possibly spent, up to ${:.4f}, "
        "which counts against the budgets",
        open.size(), usd));
}

void Coordinator::State::record_event(const std::string& kind, const std::string& text) {
    journal->append(store::RecordType::kEvent,
                    Json{{"unix_s", clock.unix_s()}, {"kind", kind}, {"text", text}}.dump());
}

void Coordinator::State::greet_workers() {
    const std::string payload = context.serialise();
    for (int rank = 0; rank < transport.size(); ++rank) {
        if (!works(rank)) continue;
        transport.send(rank, Mailbox::kWorker, MessageType::kStart, payload);
    }
}

bool Coordinator::State::handle_messages() {
    bool any = false;
    while (const auto message = transport.receive(Mailbox::kCoordinator)) {
        handle(*message);
        any = true;
    }
    return any;
}

void Coordinator::State::handle(const Message& message) {
    switch (message.type) {
        case MessageType::kRequest:
            wanted[message.source] += std::stoi(message.payload);
            return;
        case MessageType::kResult:
            accept(message.source, protocol::parse_unit_result(message.payload), message.payload);
            return;
        case MessageType::kClaim:
            claim(message.source, unframe(message.payload).first);
            return;
        case MessageType::kEvaluated:
            evaluated(message.source, message.payload);
            return;
        case MessageType::kReserve:
            reserve(message.source, message.payload);
            return;
        case MessageType::kRelease:
            budget.release(std::to_string(message.source) + ":" + message.payload);
            return;
        case MessageType::kSpent:
            book(message.source, message.payload);
            return;
        case MessageType::kHold:
            for (int rank = 0; rank < transport.size(); ++rank) {
                if (rank == message.source || !works(rank)) continue;
                transport.send(rank, Mailbox::kWorker, MessageType::kHold, message.payload);
            }
            return;
        case MessageType::kFatal: {
            const auto [code, why] = unframe(message.payload);
            record_event("worker_failed", fmt::format("rank {}: {}", message.source, why));
            lines.push_back(fmt::format("rank {} cannot go on: {}", message.source, why));
            end(static_cast<ExitCode>(std::stoi(code)), why);
            return;
        }
        case MessageType::kInterrupted:
            record_event("signal", fmt::format("rank {} was signalled", message.source));
            end(ExitCode::kInterrupted, "interrupted");
            return;
        case MessageType::kStart:
        case MessageType::kLease:
        case MessageType::kClaimReply:
        case MessageType::kReserved:
        case MessageType::kStop:
            return;
    }
}

void Coordinator::State::accept(int rank, UnitResult result, const std::string& json) {
    const auto it = leases.find(result.unit_id);
    if (it == leases.end() || it->second.id != result.lease) {
        record_event("late_result", fmt::format("unit {} lease {} from rank {}", result.unit_id,
                                                result.lease, rank));
        return;
    }
    leases.erase(it);
    if (const auto outcome = ending_outcome(result)) {
        // Not accepted: a resumed run does this unit again, and what of it is already paid for is
        // answered from the journal.
        if (ending) return;
        ending = ends_run(*outcome);
        end_reason = context.why_ended(*outcome);
        record_event(std::string(protocol::to_string(*outcome)), end_reason);
        return;
    }
    journal->append(store::RecordType::kUnitResult, json);
    if (!result.failure.empty()) {
        lines.push_back(
            fmt::format("{}: unit {} failed: {}", result.problem, result.unit_id, result.failure));
    }
    physical_evaluations += result.physical_evaluations;
    complete(std::move(result));
}

void Coordinator::State::complete(UnitResult result) {
    ++units_done;
    campaign.complete(std::move(result));
    publish_rounds();
}

void Coordinator::State::publish_rounds() {
    for (auto& record : campaign.take_finished_rounds()) {
        store::RoundRow row;
        row.problem = record.problem;
        row.round = record.round;
        row.selected = std::move(record.selected);
        row.memory = std::move(record.memory);
        row.rewrites = std::move(record.rewrites);
        for (const auto& state : campaign.problems()) {
            if (state.id == row.problem) row.baseline = state.baseline;
        }
        if (!old_rounds.contains({row.problem, row.round})) {
            journal->append(store::RecordType::kRound, store::to_json(row));
        }
        store::write_round_file(context.directory, row,
                                static_cast<int>(context.config.store_compression));
        for (const auto& state : campaign.problems()) {
            if (state.id != row.problem) continue;
            lines.push_back(fmt::format(
                "{:<24} round {:>2}/{} done: best {:.4f} ms, {:.3f}x, {} evaluations", row.problem,
                row.round + 1, context.config.search.rounds, state.best.latency_ms,
                state.baseline.latency_ms / state.best.latency_ms, state.logical_evaluations));
        }
    }
}

void Coordinator::State::claim(int rank, const std::string& key) {
    const auto it = verdicts.find(key);
    if (it == verdicts.end()) {
        verdicts[key];
        transport.send(rank, Mailbox::kWorker, MessageType::kClaimReply, frame(key, ""));
    } else if (!it->second.reply.empty()) {
        transport.send(rank, Mailbox::kWorker, MessageType::kClaimReply,
                       frame(key, it->second.reply));
    } else {
        it->second.waiting.push_back(rank);
    }
}

void Coordinator::State::evaluated(int rank, const std::string& payload) {
    auto [key, reply] = unframe(payload);
    Verdict& verdict = verdicts[key];
    for (int waiting : verdict.waiting) {
        transport.send(waiting, Mailbox::kWorker, MessageType::kClaimReply, payload);
    }
    verdict.waiting.clear();
    (void)rank;
    const auto parsed = protocol::parse_evaluation_reply(reply);
    if (parsed.ok() && parsed->outcome == protocol::Outcome::kEvaluatorError) {
        verdicts.erase(key);  // not the kernel's fault: the next one who asks tries again
    } else {
        verdict.reply = std::move(reply);
    }
}

void Coordinator::State::book(int rank, const std::string& payload) {
    const auto row = protocol::parse_ledger_row(payload);
    spend[rank].usd += row.cost_usd.value_or(0);
    ++spend[rank].calls;
    note_unknown(row);
    budget.book(row);
}

void Coordinator::State::reserve(int rank, const std::string& payload) {
    const auto [ticket, body] = unframe(payload);
    const Json json = Json::parse(body);
    const auto answer =
        budget.reserve(std::to_string(rank) + ":" + ticket, json.at("model").get<std::string>(),
                       json.at("problem").get<std::string>(), json.at("usd").get<double>());
    transport.send(rank, Mailbox::kWorker, MessageType::kReserved,
                   frame(ticket, std::to_string(static_cast<int>(answer.verdict)) + answer.why));
}

/// The rank whose evaluators keep a problem's references and a candidate's slice warm.
int Coordinator::State::owner_of(const Unit& unit) const {
    const int first = context.coordinator_works ? 0 : 1;
    const int workers = transport.size() - first;
    const auto slice = stable_hash64(unit.problem + "/" + unit.candidate.id);
    return first + static_cast<int>(slice % static_cast<std::uint64_t>(std::max(1, workers)));
}

std::size_t Coordinator::State::pick_for(int rank) const {
    for (std::size_t i = 0; i < ready.size(); ++i) {
        if (owner_of(ready[i]) == rank) return i;
    }
    return 0;
}

void Coordinator::State::lease_one(int rank) {
    const std::size_t i = pick_for(rank);
    Lease lease{next_lease++, rank, std::move(ready[i])};
    ready.erase(ready.begin() + static_cast<std::ptrdiff_t>(i));
    transport.send(rank, Mailbox::kWorker, MessageType::kLease,
                   frame(std::to_string(lease.id), protocol::to_json(lease.unit)));
    leases[lease.unit.id] = std::move(lease);
}

bool Coordinator::State::hand_out() {
    bool any = false;
    for (auto& unit : campaign.take_ready()) {
        ready.push_back(std::move(unit));
        any = true;
    }
    // Results of earlier launches come first; each may make further units ready.
    for (std::size_t i = 0; i < ready.size();) {
        const auto it = adopted.find(ready[i].id);
        if (it == adopted.end()) {
            ++i;
            continue;
        }
        UnitResult result = std::move(it->second);
        adopted.erase(it);
        ready.erase(ready.begin() + static_cast<std::ptrdiff_t>(i));
        ++units_adopted;
        complete(std::move(result));
        for (auto& unit : campaign.take_ready()) ready.push_back(std::move(unit));
        any = true;
    }
    // In turn: a rank may ask for more units than there are.
    for (bool handed = true; handed && !ready.empty();) {
        handed = false;
        for (auto& [rank, places] : wanted) {
            if (places == 0 || ready.empty()) continue;
            --places;
            lease_one(rank);
            handed = true;
        }
        any = any || handed;
    }
    return any;
}

void Coordinator::State::end(ExitCode code, const std::string& reason) {
    if (finished) return;
    finished = code;
    end_reason = reason;
    try {
        journal->append(store::RecordType::kRunEnd, Json{{"exit_code", static_cast<int>(code)},
                                                         {"reason", reason},
                                                         {"unix_s", clock.unix_s()}}
                                                        .dump());
    } catch (const Error& error) {
        lines.push_back(error.what());
    }
    for (int rank = 0; rank < transport.size(); ++rank) {
        if (rank == 0 && !context.coordinator_works) continue;
        transport.send(rank, Mailbox::kWorker, MessageType::kStop,
                       std::to_string(static_cast<int>(code)));
    }
}

void Coordinator::State::check_end() {
    if (finished) return;
    if (ending) {
        if (leases.empty()) end(*ending, end_reason);
        return;
    }
    if (!campaign.finished()) return;
    int failures = 0;
    for (const auto& problem : campaign.problems()) {
        failures += problem.failures;
        if (problem.failed) {
            end(ExitCode::kUsage, problem.id + ": " + problem.failure);
            return;
        }
    }
    if (failures > 0) {
        end(ExitCode::kUnitsFailed,
            fmt::format("{} units failed for reasons of infrastructure", failures));
    } else {
        end(ExitCode::kOk, "finished");
    }
}

Coordinator::Coordinator(RunContext context, Transport& transport, Clock& clock)
    : state_(std::make_unique<State>(std::move(context), transport, clock)) {
    State& state = *state_;
    state.adopt_earlier_launches();
    state.journal = std::make_unique<store::JournalWriter>(state.context.directory + "/journal", 0,
                                                           state.context.launch);
    state.journal->append(store::RecordType::kLaunch, Json{{"version", kVersion},
                                                           {"rank", 0},
                                                           {"ranks", transport.size()},
                                                           {"launch", state.context.launch},
                                                           {"machine", state.context.machine_hash},
                                                           {"unix_s", clock.unix_s()}}
                                                          .dump());
    state.greet_workers();
}

Coordinator::~Coordinator() = default;

bool Coordinator::poll() {
    State& state = *state_;
    if (state.finished) return false;
    bool any = state.handle_messages();
    if (!state.finished && !state.ending) any = state.hand_out() || any;
    state.check_end();
    return any;
}

void Coordinator::stop(ExitCode code, const std::string& reason) {
    if (state_->finished) return;
    state_->record_event("stop", reason);
    state_->end(code, reason);
}

std::optional<ExitCode> Coordinator::finished() const { return state_->finished; }
std::string Coordinator::end_reason() const { return state_->end_reason; }

std::vector<std::string> Coordinator::take_lines() { return std::exchange(state_->lines, {}); }

Progress Coordinator::progress() const {
    const State& state = *state_;
    Progress p;
    p.problems = state.campaign.problems();
    p.units_done = state.units_done;
    p.units_in_flight = static_cast<int>(state.leases.size());
    p.units_adopted = state.units_adopted;
    p.physical_evaluations = state.physical_evaluations;
    const auto& s = state.context.config.search;
    const int per_problem = 1 + s.plans + (s.rounds - 1) * s.beam * s.plans;
    p.units_planned = per_problem * static_cast<int>(p.problems.size());
    for (const auto& [rank, spend] : state.spend) {
        p.calls += spend.calls;
        p.spent_usd += spend.usd;
    }
    p.spend_unknown = state.spend_unknown;
    p.elapsed_s = state.clock.monotonic_s() - state.started_s;
    return p;
}

}  // namespace accelopt::cluster
