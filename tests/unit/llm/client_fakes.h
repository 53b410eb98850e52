#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "llm/client.h"

namespace accelopt::llm {

/// A provider that answers from a function, at once, or never.
class ScriptedProvider : public Provider {
  public:
    using Answer =
        std::function<std::optional<TryResult>(const ModelOptions&, const Request&, int)>;

    explicit ScriptedProvider(Answer answer) : answer_(std::move(answer)) {}

    void start(std::uint64_t ticket, const ModelOptions& model, const Request& request) override {
        options.push_back(model);
        auto result = answer_(model, request, started++);
        if (!result) return;
        result->ticket = ticket;
        ready_.push_back(*result);
    }
    void poll(double, std::vector<TryResult>& done) override {
        done.insert(done.end(), ready_.begin(), ready_.end());
        ready_.clear();
    }
    void cancel(std::uint64_t ticket) override { cancelled.push_back(ticket); }

    int started = 0;
    std::vector<ModelOptions> options;
    std::vector<std::uint64_t> cancelled;

  private:
    Answer answer_;
    std::vector<TryResult> ready_;
};

/// Keeps everything in the order it was told.
class MemoryLog : public CallLog {
  public:
    void reserve(const Request& request, int attempt, std::optional<double>) override {
        events.push_back("reserve " + request.unit_id + " " + std::to_string(attempt));
    }
    void withdraw(const Request& request, int attempt) override {
        events.push_back("withdraw " + request.unit_id + " " + std::to_string(attempt));
    }
    void record_try(const Request&, const protocol::LedgerRow& row) override {
        events.push_back("try " + row.unit_id + " " + std::to_string(row.attempt));
        rows.push_back(row);
    }
    void record_reply(const Request& request, const Reply& reply) override {
        events.push_back("reply " + request.unit_id);
        replies.push_back(reply);
    }

    std::vector<std::string> events;
    std::vector<protocol::LedgerRow> rows;
    std::vector<Reply> replies;
};

/// A budget of so many tries, and the waits that were asked for.
class CountingPacer : public Pacer {
  public:
    Admission admit(const Reservation& reservation) override {
        if (tries_left == 0) return {Admission::Verdict::kSpent, 0, false, ""};
        if (next_delay_s > 0) {
            return {Admission::Verdict::kWait, std::exchange(next_delay_s, 0), true, ""};
        }
        --tries_left;
        open[reservation.ticket] = reservation;
        return {};
    }
    void settle(const Reservation& reservation, const protocol::LedgerRow* row) override {
        open.erase(reservation.ticket);
        if (row) usd += row->cost_usd.value_or(0);
    }
    void hold(const std::string& model, double seconds) override { holds[model] = seconds; }

    int tries_left = 1000;
    double next_delay_s = 0;
    double usd = 0;
    std::map<std::string, double> holds;
    std::map<std::uint64_t, Reservation> open;
};

class MapReplies : public ReplySource {
  public:
    std::optional<Reply> find(const Request& request) override {
        const auto at = known.find(request.unit_id);
        return at == known.end() ? std::nullopt : std::optional<Reply>(at->second);
    }
    std::map<std::string, Reply> known;
};

inline Request make_request(const std::string& unit, const std::string& model = "m") {
    Request request;
    request.unit_id = unit;
    request.model = model;
    request.messages = {{"system", "be brief"}, {"user", "question of " + unit}};
    return request;
}

inline Price price(double input, double cached, double output) {
    Price price;
    price.input_usd = input;
    price.cached_input_usd = cached;
    price.output_usd = output;
    return price;
}

/// Polls until every call has ended or `limit_s` of the clock has passed.
inline std::vector<Completion> drain(Client& client, Clock& clock, double limit_s = 3600) {
    std::vector<Completion> all;
    const double until = clock.monotonic_s() + limit_s;
    while (client.in_flight() > 0 && clock.monotonic_s() < until) {
        for (auto& completion : client.poll(1.0)) all.push_back(std::move(completion));
    }
    return all;
}

}  // namespace accelopt::llm
