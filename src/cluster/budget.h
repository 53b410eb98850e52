#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "protocol/usage.h"
#include "store/reservations.h"

namespace accelopt::cluster {

/// The budgets of a run; nullopt or absent = no limit.
struct BudgetLimits {
    std::optional<double> usd;
    std::optional<std::int64_t> calls;
    std::optional<double> problem_usd;        ///< of each problem
    std::map<std::string, double> model_usd;  ///< by model key
    bool any() const { return usd || calls || problem_usd || !model_usd.empty(); }
};

/// The coordinator's book: what is spent, and what the tries in flight on all ranks may cost at
/// most. No reservation is granted that could take a budget over its limit.
class Budget {
  public:
    explicit Budget(BudgetLimits limits) : limits_(std::move(limits)) {}

    enum class Verdict {
        kGranted,
        kWait,  ///< there is room once a try in flight turns out cheaper than reserved
        kSpent  ///< there is no room, and nothing is in flight that could make some
    };
    struct Answer {
        Verdict verdict = Verdict::kGranted;
        std::string why;  ///< of kSpent
    };
    /// Reserves `usd` for one try under a name that `release` gives back; a name that is reserved
    /// already is granted again.
    Answer reserve(const std::string& name, const std::string& model, const std::string& problem,
                   double usd);
    /// Gives a reservation back; an unknown name does nothing.
    void release(const std::string& name);
    /// Adds what a try cost; a replayed one costs nothing, one of unknown cost counts as a call.
    void book(const protocol::LedgerRow& row);

    /// Adds a try that was in flight when its rank died: it counts with the most it may have cost.
    void book_possible(const store::OpenReservation& reservation);

    double spent_usd() const { return spent_.usd; }
    std::int64_t spent_calls() const { return spent_.calls; }
    std::size_t reserved() const { return reservations_.size(); }

  private:
    struct Sum {
        double usd = 0;
        std::int64_t calls = 0;
    };
    struct Reservation {
        std::string model;
        std::string problem;
        double usd = 0;
    };
    Answer room(const std::string& what, double limit, double spent, double reserved,
                bool in_flight, double usd) const;

    BudgetLimits limits_;
    Sum spent_;
    std::map<std::string, double> spent_by_model_;
    std::map<std::string, double> spent_by_problem_;
    std::map<std::string, Reservation> reservations_;  ///< by name
};

}  // namespace accelopt::cluster
