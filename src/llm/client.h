#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/clock.h"
#include "llm/pricing.h"
#include "llm/provider.h"
#include "llm/retry.h"

namespace accelopt::llm {

/// A finished logical call.
struct Completion {
    std::uint64_t id = 0;
    Reply reply;
};

/// True when a model answered, well or badly, rather than nobody: such a reply is recorded,
/// replayed and never asked for again.
bool is_answer(const Reply& reply);

/// Runs logical calls: looks them up in the ReplySource first, then in the provider's record, else
/// tries the provider with retries (exponential, full jitter, the server's Retry-After honoured),
/// reserving budget with the Pacer and writing reservation, ledger rows and reply to the CallLog.
/// Single-threaded; poll it. No wait blocks: a call that waits has a due time on the clock, and
/// others go on.
///
/// `replies`, `log` and `pacer` may be null (nothing recorded, nothing kept, no limit). A model
/// whose provider is not registered is Error(kConfig, "provider").
class Client {
  public:
    Client(std::map<std::string, ModelOptions> models, ProviderRegistry providers,
           PriceTable prices, std::shared_ptr<ReplySource> replies, std::shared_ptr<CallLog> log,
           std::shared_ptr<Pacer> pacer, Clock& clock, std::uint64_t seed, RetryOptions retry = {});
    ~Client();
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;

    /// Starts a logical call and returns its id. An unknown model key is Error(kConfig, "model"); a
    /// question that a replayed run does not hold is Error(kUser, "replay").
    std::uint64_t submit(Request request);
    /// Returns calls that have ended, waiting at most `wait_s` for one.
    std::vector<Completion> poll(double wait_s);
    /// Calls submitted and not yet handed out by `poll`.
    int in_flight() const;

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace accelopt::llm
