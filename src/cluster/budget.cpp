#include "cluster/budget.h"

#include <fmt/format.h>

#include <vector>

namespace accelopt::cluster {
namespace {

/// Less than any bill shows, more than the error of adding up prices.
constexpr double kRounding_usd = 1e-9;

}  // namespace

Budget::Answer Budget::room(const std::string& what, double limit, double spent, double reserved,
                            bool in_flight, double usd) const {
    if (spent + reserved + usd <= limit + kRounding_usd) return {};
    if (in_flight && spent + usd <= limit + kRounding_usd) return {Verdict::kWait, ""};
    return {Verdict::kSpent,
            fmt::format("{} of ${:.2f}: ${:.4f} is spent, and the next call may cost ${:.4f}", what,
                        limit, spent, usd)};
}

Budget::Answer Budget::reserve(const std::string& name, const std::string& model,
                               const std::string& problem, double usd) {
    if (reservations_.contains(name)) return {};
    Sum all;
    double of_model = 0;
    double of_problem = 0;
    std::int64_t model_calls = 0;
    std::int64_t problem_calls = 0;
    for (const auto& [other, reservation] : reservations_) {
        all.usd += reservation.usd;
        ++all.calls;
        if (reservation.model == model) of_model += reservation.usd, ++model_calls;
        if (reservation.problem == problem) of_problem += reservation.usd, ++problem_calls;
    }
    std::vector<Answer> answers;
    if (limits_.usd) {
        answers.push_back(
            room("budget.usd", *limits_.usd, spent_.usd, all.usd, all.calls > 0, usd));
    }
    if (limits_.problem_usd) {
        answers.push_back(room("budget.problem_usd (" + problem + ")", *limits_.problem_usd,
                               spent_by_problem_[problem], of_problem, problem_calls > 0, usd));
    }
    if (const auto limit = limits_.model_usd.find(model); limit != limits_.model_usd.end()) {
        answers.push_back(room("models." + model + ".budget_usd", limit->second,
                               spent_by_model_[model], of_model, model_calls > 0, usd));
    }
    if (limits_.calls && spent_.calls + all.calls >= *limits_.calls) {
        // A call in flight is a call, whatever becomes of it; only one never sent gives room.
        const bool spent = spent_.calls >= *limits_.calls || all.calls == 0;
        answers.push_back({spent ? Verdict::kSpent : Verdict::kWait,
                           fmt::format("budget.calls of {}: all are made", *limits_.calls)});
    }
    Answer answer;
    for (const auto& candidate : answers) {
        if (candidate.verdict == Verdict::kSpent) return candidate;
        if (candidate.verdict == Verdict::kWait) answer = candidate;
    }
    if (answer.verdict == Verdict::kGranted) reservations_[name] = {model, problem, usd};
    return answer;
}

void Budget::release(const std::string& name) { reservations_.erase(name); }

void Budget::book_possible(const store::OpenReservation& reservation) {
    const double usd = reservation.max_usd.value_or(0);
    spent_.usd += usd;
    ++spent_.calls;
    spent_by_model_[reservation.model] += usd;
    spent_by_problem_[reservation.problem] += usd;
}

void Budget::book(const protocol::LedgerRow& row) {
    if (row.replayed) return;
    const double usd = row.cost_usd.value_or(0);
    spent_.usd += usd;
    ++spent_.calls;
    spent_by_model_[row.model] += usd;
    spent_by_problem_[row.problem] += usd;
}

}  // namespace accelopt::cluster
