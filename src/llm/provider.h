#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/secret.h"
#include "llm/message.h"

namespace accelopt::llm {

/// One entry of the configuration's `models`, resolved.
struct ModelOptions {
    std::string key;
    std::string provider;  ///< openai, builtin, ...
    std::string url;
    std::string name;  ///< as the endpoint calls it
    Secret api_key;    ///< bedrock: the access key id
    Secret secret_key;
    Secret session_token;
    std::string region;
    double temperature = 1.0;
    int max_tokens = 20000;
    std::string token_field = "max_tokens";
    std::optional<std::string> reasoning;  ///< effort
    int thinking_tokens = 0;               ///< budget of reasoning tokens; 0 = not asked for
    bool cache_prompt = false;             ///< ask the provider to cache the system prompt
    bool stream = true;
    /// Deadline of one logical call, retries and waits included. A provider is handed a copy in
    /// which it is what remains for this try.
    double timeout_s = 600;
    double stall_timeout_s = 120;  ///< without a byte; 0 = no limit but the deadline
    int max_tries = 6;
    std::int64_t context_tokens = 0;  ///< of the model; 0 = not known
    std::string folder;               ///< batch: where requests and answers lie
    std::string run_id;               ///< batch: marks this run's requests
    bool wait = false;                ///< batch: poll for answers
    std::string recording;            ///< replay: the recorded run's directory
    std::string fallback;             ///< replay: model key for what is not recorded; "" = none
};

/// The answer to one try, before retry policy.
struct TryResult {
    std::uint64_t ticket = 0;
    protocol::LlmOutcome outcome = protocol::LlmOutcome::kOk;
    int http_status = 0;
    std::string text;
    std::string reasoning;
    std::string error;
    protocol::Usage usage;
    std::optional<double> retry_after_s;  ///< the server's wait
    std::optional<double> limit_reset_s;  ///< a limit is used up: nobody sends before it is reset
    double latency_s = 0;
    bool sent = true;  ///< false: nothing was asked of anybody, so that there is nothing to book
};

/// A model service. `start` begins one try and returns at once; results come out of `poll`.
/// A provider keeps many tries in flight without threads.
class Provider {
  public:
    virtual ~Provider() = default;
    virtual void start(std::uint64_t ticket, const ModelOptions& model, const Request& request) = 0;
    /// Moves what has ended to `done`, waiting at most `wait_s` for something to happen.
    virtual void poll(double wait_s, std::vector<TryResult>& done) = 0;
    /// Returns an answer that needs no try, with the ledger rows of the record it is from; nullopt
    /// when the question has to be asked. Error(kUser) when it must be recorded and is not.
    virtual std::optional<Reply> recorded(const ModelOptions& model, const Request& request) {
        (void)model, (void)request;
        return std::nullopt;
    }
    /// Drops a try whose answer nobody waits for any more; it comes out of no later `poll`.
    virtual void cancel(std::uint64_t ticket) { (void)ticket; }
};

/// Providers by name, passed as a value: registered by cli (the builtin among them).
using ProviderRegistry = std::map<std::string, std::shared_ptr<Provider>>;

/// Looks up an answer that is already paid for (journal, recorded run).
class ReplySource {
  public:
    virtual ~ReplySource() = default;
    virtual std::optional<Reply> find(const Request& request) = 0;
};

/// Records calls durably: `reserve` before anything is sent, the rest before the answer is used.
class CallLog {
  public:
    virtual ~CallLog() = default;
    /// `max_usd`: what the try may cost at most; nullopt = no price.
    virtual void reserve(const Request& request, int attempt, std::optional<double> max_usd) = 0;
    /// Takes a reservation back: nothing was sent.
    virtual void withdraw(const Request& request, int attempt) = 0;
    /// Called once for every try that ended, however it ended.
    virtual void record_try(const Request& request, const protocol::LedgerRow& row) = 0;
    /// Called once for a call that a model answered, whatever the answer is worth
    /// (`is_answer` in client.h). A call that no model answered (rate limit, time-out, refused key,
    /// spent budget) has no reply to keep: a resumed run asks again.
    virtual void record_reply(const Request& request, const Reply& reply) = 0;
};

/// A try about to be sent, and what it may cost at most.
struct Reservation {
    std::uint64_t ticket = 0;
    std::string model;
    std::string problem;
    std::optional<double> max_usd;  ///< nullopt: no price
};

/// Whether a try may be sent.
struct Admission {
    enum class Verdict {
        kGo,    ///< send it: the reservation stands until it is settled
        kWait,  ///< ask again after `wait_s`
        kSpent  ///< no budget is left for it
    };
    Verdict verdict = Verdict::kGo;
    double wait_s = 0;
    /// True when the wait is the server's, so that it counts against the call's deadline as a
    /// whole: a wait beyond it ends the call at once.
    bool servers_wait = false;
    std::string why;  ///< of kSpent: which budget
};

/// Says when a try may be sent: budgets and server waits shared by all ranks.
class Pacer {
  public:
    virtual ~Pacer() = default;
    /// Reserves the most that a try may cost. A try that has to wait is asked for again, with the
    /// same ticket.
    virtual Admission admit(const Reservation& reservation) = 0;
    /// Ends a reservation: `row` is what the try cost, null when it was never sent (or gave up
    /// waiting for admission).
    virtual void settle(const Reservation& reservation, const protocol::LedgerRow* row) = 0;
    /// Tells of a server's wait: no rank sends to this model before it is over.
    virtual void hold(const std::string& model, double seconds) = 0;
};

}  // namespace accelopt::llm
