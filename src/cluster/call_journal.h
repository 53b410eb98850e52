#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "cluster/budget.h"
#include "core/clock.h"
#include "llm/provider.h"
#include "store/journal.h"

namespace accelopt::cluster {

/// Writes every call of a worker to its journal: the reservation before it is sent, each try, and
/// the reply before anybody uses it.
class JournalCallLog : public llm::CallLog {
  public:
    explicit JournalCallLog(store::JournalWriter& journal) : journal_(journal) {}
    void reserve(const llm::Request& request, int attempt, std::optional<double> max_usd) override;
    void withdraw(const llm::Request& request, int attempt) override;
    void record_try(const llm::Request& request, const protocol::LedgerRow& row) override;
    void record_reply(const llm::Request& request, const llm::Reply& reply) override;

  private:
    store::JournalWriter& journal_;
};

/// Answers calls from the journals of earlier launches: what was journalled is never paid again.
/// Replies that a retry may mend (rate limits, server errors, time-outs) are not kept.
class JournalReplies : public llm::ReplySource {
  public:
    /// Which calls count as answered.
    enum class Scope {
        kAnswers,  ///< a resumed run asks the others again
        kAllCalls  ///< a replayed run repeats failures too: the last try says how a call ended
    };
    /// Reads all journals below `directory`.
    explicit JournalReplies(const std::string& directory, Scope scope = Scope::kAnswers);
    std::optional<llm::Reply> find(const llm::Request& request) override;
    std::size_t size() const { return replies_.size(); }

  private:
    void read(const store::Record& record,
              std::map<std::string, std::pair<std::string, llm::Reply>>& failed);

    std::map<std::string, std::pair<std::string, llm::Reply>> replies_;  ///< by call, with hash
};

/// The folder of a recorded run's journals, `directory` or its journal/. Error(kUser, "replay")
/// when there are none.
std::string recording_folder(const std::string& directory);

/// Opens the record of a run for replay: its directory, or its journal folder. Error(kUser,
/// "replay") when there is none.
std::shared_ptr<llm::ReplySource> open_recording(const std::string& directory);

/// Keeps servers' waits on one worker, and asks the coordinator for every reservation: budgets are
/// one for all ranks, so that no try is sent that could take the run over one.
class WorkerPacer : public llm::Pacer {
  public:
    /// What the worker tells the coordinator.
    struct Coordinator {
        std::function<void(const llm::Reservation&)> reserve;
        std::function<void(std::uint64_t ticket)> release;
        std::function<void(const protocol::LedgerRow&)> spent;
        std::function<void(const std::string& model, double seconds)> hold;
    };
    /// `limited`: the run has budgets; without any, nothing is asked for.
    WorkerPacer(bool limited, Clock& clock, Coordinator coordinator);

    llm::Admission admit(const llm::Reservation& reservation) override;
    void settle(const llm::Reservation& reservation, const protocol::LedgerRow* row) override;
    void hold(const std::string& model, double seconds) override;

    /// The coordinator's answer to a reservation.
    void answered(std::uint64_t ticket, Budget::Answer answer);
    /// Another rank was told to wait.
    void hold_from_peer(const std::string& model, double seconds);

  private:
    struct Asked {
        std::optional<Budget::Answer> answer;  ///< nullopt: on its way
        double again_s = 0;                    ///< when to ask again after kWait
    };

    bool limited_;
    Clock& clock_;
    Coordinator coordinator_;
    std::map<std::string, double> hold_until_;
    std::map<std::uint64_t, Asked> asked_;  ///< by ticket
};

}  // namespace accelopt::cluster
