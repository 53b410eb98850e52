#include "llm/client.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "llm/call.h"

namespace accelopt::llm {
namespace {

using protocol::LlmOutcome;

/// A provider ends its tries by itself; this long after the deadline the client no longer waits.
constexpr double kGrace_s = 1.0;
/// Slice of a wait that one of several busy providers gets before the next has its turn.
constexpr double kSlice_s = 0.02;

}  // namespace

struct Client::State {
    std::map<std::string, ModelOptions> models;
    ProviderRegistry providers;
    PriceTable prices;
    std::shared_ptr<ReplySource> replies;
    std::shared_ptr<CallLog> log;
    std::shared_ptr<Pacer> pacer;
    Clock& clock;
    std::uint64_t seed;
    RetryOptions retry;

    std::map<std::uint64_t, Call> calls;  ///< by id: waiting or flying
    std::map<std::uint64_t, std::uint64_t> call_of_ticket;
    std::vector<Completion> ended;
    std::uint64_t next_id = 1;
    std::uint64_t next_ticket = 1;

    Provider& provider_of(const Call& call) const { return *providers.at(call.model().provider); }

    void launch_due();
    void launch(Call& call);
    bool admitted(Call& call, const Reservation& reservation, double now);
    void release(Call& call, const protocol::LedgerRow* row);
    void keep(const Request& request, Reply reply, std::uint64_t id, bool foreign);
    void collect(double wait_s);
    void take(TryResult result);
    void expire();
    void settle(std::uint64_t id);
    std::set<Provider*> busy_providers() const;
    double next_due_s() const;
};

void Client::State::launch_due() {
    const double now = clock.monotonic_s();
    std::vector<std::uint64_t> due;
    for (const auto& [id, call] : calls) {
        if (call.phase() == Call::Phase::kWaiting && call.due_s() <= now) due.push_back(id);
    }
    for (const auto id : due) {
        launch(calls.at(id));
        settle(id);
    }
}

void Client::State::launch(Call& call) {
    const double now = clock.monotonic_s();
    if ((call.attempts() > 0 || call.reservation()) && now >= call.deadline_s()) {
        release(call, nullptr);
        call.finish(LlmOutcome::kTimeout, fmt::format("the deadline of {:.1f} s is over: {}",
                                                      call.model().timeout_s, call.reply().error));
        return;
    }
    const std::uint64_t ticket = call.reservation() ? call.reservation()->ticket : next_ticket++;
    const Reservation& reservation = call.reserve(ticket, prices);
    if (pacer && !admitted(call, reservation, now)) return;
    if (log) log->reserve(call.request(), call.attempts(), reservation.max_usd);
    call_of_ticket[ticket] = call.id();
    provider_of(call).start(ticket, call.begin_try(ticket, now), call.request());
}

/// Asks the pacer; when the try may not be sent now, the call waits or has finished.
bool Client::State::admitted(Call& call, const Reservation& reservation, double now) {
    const Admission admission = pacer->admit(reservation);
    switch (admission.verdict) {
        case Admission::Verdict::kGo:
            return true;
        case Admission::Verdict::kSpent:
            release(call, nullptr);
            call.finish(LlmOutcome::kBudget,
                        admission.why.empty() ? "the budget is spent" : admission.why);
            return false;
        case Admission::Verdict::kWait:
            if (admission.servers_wait) {
                call.wait_until(now + admission.wait_s, now, "requests to this model are paced");
                if (call.phase() == Call::Phase::kFinished) release(call, nullptr);
            } else {
                call.wait_for_admission(now + admission.wait_s);
            }
            return false;
    }
    return false;
}

void Client::State::release(Call& call, const protocol::LedgerRow* row) {
    if (pacer && call.reservation()) pacer->settle(*call.reservation(), row);
    call.end_reservation();
}

void Client::State::take(TryResult result) {
    const auto at = call_of_ticket.find(result.ticket);
    if (at == call_of_ticket.end()) return;  // given up earlier: its row is written
    const std::uint64_t id = at->second;
    call_of_ticket.erase(at);
    Call& call = calls.at(id);
    const bool sent = result.sent;
    const double hold_s =
        std::max(result.retry_after_s.value_or(0), result.limit_reset_s.value_or(0));
    const auto row = call.end_try(std::move(result), prices, retry, clock.monotonic_s());
    if (log && sent) log->record_try(call.request(), row);
    if (log && !sent) log->withdraw(call.request(), row.attempt);
    release(call, sent ? &row : nullptr);
    if (pacer && hold_s > 0) pacer->hold(call.model().key, hold_s);
    settle(id);
}

void Client::State::settle(std::uint64_t id) {
    const auto at = calls.find(id);
    if (at->second.phase() != Call::Phase::kFinished) return;
    const Call& call = at->second;
    if (log && is_answer(call.reply())) log->record_reply(call.request(), call.reply());
    ended.push_back({id, call.reply()});
    calls.erase(at);
}

/// Ends a call with an answer from a record. That of another run becomes part of this one's.
void Client::State::keep(const Request& request, Reply reply, std::uint64_t id, bool foreign) {
    for (auto& row : reply.tries) {
        row.replayed = true;
        if (!foreign) continue;
        row.unit_id = request.unit_id;
        row.problem = request.problem;
        if (log) log->record_try(request, row);
    }
    if (foreign && log) log->record_reply(request, reply);
    ended.push_back({id, std::move(reply)});
}

std::set<Provider*> Client::State::busy_providers() const {
    std::set<Provider*> busy;
    for (const auto& [ticket, id] : call_of_ticket) busy.insert(&provider_of(calls.at(id)));
    return busy;
}

double Client::State::next_due_s() const {
    double due = std::numeric_limits<double>::infinity();
    for (const auto& [id, call] : calls) {
        if (call.phase() == Call::Phase::kWaiting) due = std::min(due, call.due_s());
    }
    return due;
}

void Client::State::collect(double wait_s) {
    const auto busy = busy_providers();
    std::vector<TryResult> done;
    if (busy.size() == 1) {
        (*busy.begin())->poll(wait_s, done);
    } else if (busy.empty()) {
        if (wait_s > 0) clock.sleep(wait_s);
    } else {
        const double slice = std::min(kSlice_s, wait_s / static_cast<double>(busy.size()));
        for (Provider* provider : busy) provider->poll(done.empty() ? slice : 0, done);
    }
    for (auto& result : done) take(std::move(result));
    expire();
}

void Client::State::expire() {
    const double now = clock.monotonic_s();
    std::vector<std::uint64_t> late;
    for (const auto& [ticket, id] : call_of_ticket) {
        if (now > calls.at(id).deadline_s() + kGrace_s) late.push_back(ticket);
    }
    for (const auto ticket : late) {
        const Call& call = calls.at(call_of_ticket.at(ticket));
        provider_of(call).cancel(ticket);
        TryResult result;
        result.ticket = ticket;
        result.outcome = LlmOutcome::kTimeout;
        result.latency_s = call.model().timeout_s;
        result.error =
            fmt::format("no answer before the deadline of {:.1f} s", call.model().timeout_s);
        take(std::move(result));
    }
}

Client::Client(std::map<std::string, ModelOptions> models, ProviderRegistry providers,
               PriceTable prices, std::shared_ptr<ReplySource> replies,
               std::shared_ptr<CallLog> log, std::shared_ptr<Pacer> pacer, Clock& clock,
               std::uint64_t seed, RetryOptions retry)
    : state_(new State{std::move(models),
                       std::move(providers),
                       std::move(prices),
                       std::move(replies),
                       std::move(log),
                       std::move(pacer),
                       clock,
                       seed,
                       retry,
                       {},
                       {},
                       {}}) {
    std::vector<std::string> names;
    for (const auto& [name, provider] : state_->providers) names.push_back(name);
    for (const auto& [key, model] : state_->models) {
        const auto at = state_->providers.find(model.provider);
        if (!model.fallback.empty() && !state_->models.contains(model.fallback)) {
            throw Error(ErrorSource::kConfig, "model",
                        "no such model in the configuration: " + model.fallback);
        }
        if (at != state_->providers.end() && at->second) continue;
        throw Error(ErrorSource::kConfig, "provider",
                    "unknown provider \"" + model.provider + "\" of model " + key +
                        "; known: " + join(names, ", "));
    }
}

Client::~Client() {
    for (auto& [id, call] : state_->calls) state_->release(call, nullptr);
    for (const auto& [ticket, id] : state_->call_of_ticket) {
        state_->provider_of(state_->calls.at(id)).cancel(ticket);
    }
}

std::uint64_t Client::submit(Request request) {
    const auto model = state_->models.find(request.model);
    if (model == state_->models.end()) {
        throw Error(ErrorSource::kConfig, "model",
                    "no such model in the configuration: " + request.model);
    }
    const std::uint64_t id = state_->next_id++;
    if (state_->replies) {
        if (auto reply = state_->replies->find(request)) {
            state_->keep(request, std::move(*reply), id, false);
            return id;
        }
    }
    const ModelOptions* options = &model->second;
    if (auto reply = state_->providers.at(options->provider)->recorded(*options, request)) {
        state_->keep(request, std::move(*reply), id, true);
        return id;
    }
    if (!options->fallback.empty()) options = &state_->models.at(options->fallback);
    state_->calls.try_emplace(id, id, std::move(request), *options, state_->seed,
                              state_->clock.monotonic_s());
    return id;
}

std::vector<Completion> Client::poll(double wait_s) {
    State& state = *state_;
    state.launch_due();
    if (!state.call_of_ticket.empty()) state.collect(0);
    if (state.ended.empty() && !state.calls.empty() && wait_s > 0) {
        const double until_due = state.next_due_s() - state.clock.monotonic_s();
        state.collect(std::clamp(until_due, 0.0, wait_s));
        state.launch_due();
        if (!state.call_of_ticket.empty()) state.collect(0);
    }
    return std::exchange(state.ended, {});
}

int Client::in_flight() const {
    return static_cast<int>(state_->calls.size() + state_->ended.size());
}

}  // namespace accelopt::llm
