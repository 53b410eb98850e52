#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "llm/client.h"
#include "llm/pricing.h"
#include "llm/provider.h"

namespace accelopt::llm {

/// One logical call between `submit` and its completion: what has been tried, what comes next.
/// Pure bookkeeping: sends nothing, records nothing, reads no clock.
class Call {
  public:
    enum class Phase {
        kWaiting,  ///< for `due_s`
        kFlying,   ///< a try is with the provider
        kFinished  ///< `reply` is complete
    };

    Call(std::uint64_t id, Request request, const ModelOptions& model, std::uint64_t seed,
         double now_s);

    /// Starts the next try: returns the options to hand to the provider, in which the time-out is
    /// what remains of the deadline.
    ModelOptions begin_try(std::uint64_t ticket, double now_s);
    /// Takes the answer to the try in flight and returns its ledger row; afterwards the call waits
    /// for its next try or has finished.
    protocol::LedgerRow end_try(TryResult result, const PriceTable& prices,
                                const RetryOptions& retry, double now_s);
    /// Waits until `due_s`, or finishes as a time-out when that is beyond the deadline.
    void wait_until(double due_s, double now_s, const std::string& why);
    void finish(protocol::LlmOutcome outcome, const std::string& error);
    /// Waits for admission, which is no wait of a server: until `due_s` or the deadline.
    void wait_for_admission(double due_s);

    /// What the next try reserves; the same from the first time it is asked for until it is
    /// settled.
    const Reservation& reserve(std::uint64_t ticket, const PriceTable& prices);
    const std::optional<Reservation>& reservation() const { return reservation_; }
    void end_reservation() { reservation_.reset(); }

    std::uint64_t id() const { return id_; }
    const Request& request() const { return request_; }
    const ModelOptions& model() const { return model_; }
    Phase phase() const { return phase_; }
    std::uint64_t ticket() const { return ticket_; }
    double due_s() const { return due_s_; }
    double deadline_s() const { return deadline_s_; }
    int attempts() const { return attempts_; }
    const Reply& reply() const { return reply_; }

  private:
    int max_tokens() const;
    protocol::LedgerRow make_row(const TryResult& result, const PriceTable& prices) const;
    double backoff_s(double base_s) const;
    bool retry_allowed(const RetryRule& rule, protocol::LlmOutcome outcome);

    std::uint64_t id_;
    Request request_;
    std::string request_sha256_;
    const ModelOptions& model_;
    std::uint64_t seed_;
    double deadline_s_;
    Phase phase_ = Phase::kWaiting;
    double due_s_;
    std::uint64_t ticket_ = 0;
    int attempts_ = 0;
    std::map<protocol::LlmOutcome, int> retries_;  ///< so far, by the outcome they followed
    double token_factor_ = 1;
    std::optional<Reservation> reservation_;
    Reply reply_;
};

}  // namespace accelopt::llm
