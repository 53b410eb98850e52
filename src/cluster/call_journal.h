#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "core/clock.h"
#include "llm/provider.h"
#include "store/journal.h"

namespace accelopt::cluster {

/// Writes every call of a worker to its journal: the reservation before it is sent, each try, and
/// the reply before anybody uses it.
class JournalCallLog : public llm::CallLog {
  public:
    explicit JournalCallLog(store::JournalWriter& journal) : journal_(journal) {}
    void reserve(const llm::Request& request, int attempt) override;
    void record_try(const llm::Request& request, const protocol::LedgerRow& row) override;
    void record_reply(const llm::Request& request, const llm::Reply& reply) override;

  private:
    store::JournalWriter& journal_;
};

/// Answers calls from the journals of earlier launches: what was journalled is never paid again.
/// Replies that a retry may mend (rate limits, server errors, time-outs) are not kept.
class JournalReplies : public llm::ReplySource {
  public:
    /// Reads all journals below `directory`.
    explicit JournalReplies(const std::string& directory);
    std::optional<llm::Reply> find(const llm::Request& request) override;
    std::size_t size() const { return replies_.size(); }

  private:
    std::map<std::string, std::pair<std::string, llm::Reply>> replies_;  ///< by call, with hash
};

/// Enforces the budgets of a run on one worker and keeps servers' waits. Spend of other ranks
/// arrives from the coordinator, so a budget may be overshot by the calls in flight at that moment.
class WorkerPacer : public llm::Pacer {
  public:
    using Report = std::function<void(const protocol::LedgerRow&)>;
    using ReportHold = std::function<void(const std::string&, double)>;
    WorkerPacer(std::optional<double> budget_usd, std::optional<std::int64_t> budget_calls,
                Clock& clock, Report report, ReportHold report_hold);

    std::optional<double> delay(const std::string& model) override;
    void hold(const std::string& model, double seconds) override;
    void spent(const protocol::LedgerRow& row) override;

    /// What all other ranks (and earlier launches) have spent.
    void set_others(double usd, std::int64_t calls);
    /// Another rank was told to wait.
    void hold_from_peer(const std::string& model, double seconds);

  private:
    std::optional<double> budget_usd_;
    std::optional<std::int64_t> budget_calls_;
    Clock& clock_;
    Report report_;
    ReportHold report_hold_;
    std::map<std::string, double> hold_until_;
    double own_usd_ = 0;
    double other_usd_ = 0;
    std::int64_t own_calls_ = 0;
    std::int64_t other_calls_ = 0;
};

}  // namespace accelopt::cluster
