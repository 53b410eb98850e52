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
    Secret api_key;
    double temperature = 1.0;
    int max_tokens = 20000;
    std::optional<std::string> reasoning;  ///< effort
    bool stream = false;  ///< a hint: every request is non-streaming for now (README.md)
    /// Deadline of one logical call, retries and waits included. A provider is handed a copy in
    /// which it is what remains for this try.
    double timeout_s = 600;
    int max_tries = 6;
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
    double latency_s = 0;
};

/// A model service. `start` begins one try and returns at once; results come out of `poll`.
/// A provider keeps many tries in flight without threads.
class Provider {
  public:
    virtual ~Provider() = default;
    virtual void start(std::uint64_t ticket, const ModelOptions& model, const Request& request) = 0;
    /// Moves what has ended to `done`, waiting at most `wait_s` for something to happen.
    virtual void poll(double wait_s, std::vector<TryResult>& done) = 0;
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

/// Records calls durably: `reserve` before anything is sent, `record` before the answer is used.
class CallLog {
  public:
    virtual ~CallLog() = default;
    virtual void reserve(const Request& request, int attempt) = 0;
    /// Called once for every try that ended, however it ended.
    virtual void record_try(const Request& request, const protocol::LedgerRow& row) = 0;
    /// Called once for a call that a model answered, whatever the answer is worth
    /// (`is_answer` in client.h). A call that no model answered (rate limit, time-out, refused key,
    /// spent budget) has no reply to keep: a resumed run asks again.
    virtual void record_reply(const Request& request, const Reply& reply) = 0;
};

/// Says when a call may be sent: budgets and server waits shared by all ranks.
class Pacer {
  public:
    virtual ~Pacer() = default;
    /// Returns seconds to wait before the next try on this model (0 = now), or nullopt when the
    /// budget is spent.
    virtual std::optional<double> delay(const std::string& model) = 0;
    /// Tells of a server's wait: no rank sends to this model before it is over.
    virtual void hold(const std::string& model, double seconds) = 0;
    /// Adds a try's cost to the spend.
    virtual void spent(const protocol::LedgerRow& row) = 0;
};

}  // namespace accelopt::llm
