#include "llm/call.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/rng.h"
#include "llm/model_options.h"
#include "llm/retry.h"

namespace accelopt::llm {

using protocol::LlmOutcome;

bool is_answer(const Reply& reply) {
    if (reply.tries.empty()) return false;
    // An answer comes with a 2xx, or without HTTP from a local model; a 404 is none.
    const int status = reply.tries.back().http_status;
    if (status != 0 && (status < 200 || status > 299)) return false;
    switch (reply.outcome) {
        case LlmOutcome::kOk:
        case LlmOutcome::kLength:
        case LlmOutcome::kReasoningExhausted:
        case LlmOutcome::kRefused:
        case LlmOutcome::kFiltered:
        case LlmOutcome::kMalformed:
        case LlmOutcome::kEmpty:
            return true;
        case LlmOutcome::kTruncatedStream:
        case LlmOutcome::kContextOverflow:
        case LlmOutcome::kRateLimited:
        case LlmOutcome::kQuotaExhausted:
        case LlmOutcome::kOverloaded:
        case LlmOutcome::kServerError:
        case LlmOutcome::kAuth:
        case LlmOutcome::kTimeout:
        case LlmOutcome::kCancelled:
        case LlmOutcome::kBudget:
            return false;
    }
    return false;
}

Call::Call(std::uint64_t id, Request request, const ModelOptions& model, std::uint64_t seed,
           double now_s)
    : id_(id),
      request_(std::move(request)),
      request_sha256_(request_.sha256()),
      model_(model),
      seed_(seed),
      deadline_s_(now_s + model.timeout_s),
      due_s_(now_s) {}

ModelOptions Call::begin_try(std::uint64_t ticket, double now_s) {
    phase_ = Phase::kFlying;
    ticket_ = ticket;
    ++attempts_;
    ModelOptions options = model_;
    options.timeout_s = std::max(deadline_s_ - now_s, 0.001);
    options.max_tokens = max_tokens();
    return options;
}

int Call::max_tokens() const {
    const double tokens = std::ceil(model_.max_tokens * token_factor_);
    double most = std::numeric_limits<int>::max();
    if (model_.context_tokens > 0) {
        // Prompt and answer share the context. The estimate is rather too high: a cap is lowered
        // to what is left, but not to a useless one.
        const auto left = model_.context_tokens - estimate_tokens(request_.messages);
        most = std::max(static_cast<double>(left), std::ceil(model_.max_tokens / 4.0));
    }
    return static_cast<int>(std::min(tokens, most));
}

const Reservation& Call::reserve(std::uint64_t ticket, const PriceTable& prices) {
    if (!reservation_) {
        reservation_ = Reservation{
            ticket, model_.key, request_.problem,
            prices.max_cost_usd(price_name(model_, prices), estimate_tokens(request_.messages),
                                max_tokens(), model_.provider == "batch")};
    }
    return *reservation_;
}

protocol::LedgerRow Call::make_row(const TryResult& result, const PriceTable& prices) const {
    protocol::LedgerRow row;
    row.unit_id = request_.unit_id;
    row.problem = request_.problem;
    row.role = request_.role;
    row.sample = request_.sample;
    row.attempt = attempts_ - 1;
    row.model = model_.key;
    row.provider = model_.provider;
    row.model_name = model_.name;
    row.request_sha256 = request_sha256_;
    row.outcome = result.outcome;
    row.http_status = result.http_status;
    row.usage = result.usage;
    row.cost_usd =
        prices.cost_usd(price_name(model_, prices), result.usage, model_.provider == "batch");
    row.latency_s = result.latency_s;
    row.error = result.error;
    return row;
}

protocol::LedgerRow Call::end_try(TryResult result, const PriceTable& prices,
                                  const RetryOptions& retry, double now_s) {
    protocol::LedgerRow row = make_row(result, prices);
    if (result.sent) reply_.tries.push_back(row);
    reply_.outcome = result.outcome;
    reply_.text = std::move(result.text);
    reply_.reasoning = std::move(result.reasoning);
    reply_.error = result.error;
    phase_ = Phase::kFinished;

    const RetryRule rule = retry.rule(result.outcome);
    if (!result.sent || !retry_allowed(rule, result.outcome)) return row;
    if (rule.token_factor > 1) token_factor_ = rule.token_factor;
    if (!rule.backoff) {
        wait_until(now_s, now_s, result.error);
    } else if (result.retry_after_s) {
        // A little jitter on top, so that all ranks do not come back in the same instant.
        const double wait = *result.retry_after_s + backoff_s(std::min(retry.base_s, 1.0));
        if (now_s + *result.retry_after_s > deadline_s_) {
            finish(
                LlmOutcome::kTimeout,
                fmt::format("the server asks for a wait of {:.1f} s and {:.1f} s are left before "
                            "the deadline: {}",
                            *result.retry_after_s, deadline_s_ - now_s, result.error));
        } else {
            wait_until(std::min(now_s + wait, deadline_s_), now_s, result.error);
        }
    } else {
        const double base = retry.base_s * std::exp2(std::min(attempts_ - 1, 30));
        wait_until(now_s + backoff_s(std::min(base, retry.cap_s)), now_s, result.error);
    }
    return row;
}

bool Call::retry_allowed(const RetryRule& rule, LlmOutcome outcome) {
    if (attempts_ >= model_.max_tries || retries_[outcome] >= rule.max_retries) return false;
    ++retries_[outcome];
    return true;
}

double Call::backoff_s(double base_s) const {
    auto stream = RandomStream::keyed(
        seed_, fmt::format("{}/{}/sample={}/attempt={}/backoff", request_.unit_id,
                           protocol::to_string(request_.role), request_.sample, attempts_));
    return base_s * stream.uniform();
}

void Call::wait_for_admission(double due_s) {
    phase_ = Phase::kWaiting;
    due_s_ = std::min(due_s, deadline_s_);
}

void Call::wait_until(double due_s, double now_s, const std::string& why) {
    if (due_s > deadline_s_) {
        finish(LlmOutcome::kTimeout,
               fmt::format("the next try would come {:.1f} s after the deadline of {:.1f} s: {}",
                           due_s - deadline_s_, model_.timeout_s, why));
        return;
    }
    phase_ = Phase::kWaiting;
    due_s_ = std::max(due_s, now_s);
}

void Call::finish(LlmOutcome outcome, const std::string& error) {
    phase_ = Phase::kFinished;
    reply_.outcome = outcome;
    reply_.error = error;
}

}  // namespace accelopt::llm
