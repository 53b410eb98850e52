#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "store/journal.h"

namespace accelopt::store {

/// A try that was reserved and of which no end is known: it was in flight when its rank died, and
/// may have been billed.
struct OpenReservation {
    std::string unit_id;
    std::string problem;
    std::string role;
    int sample = 0;
    int attempt = 0;
    std::string model;
    std::optional<double> max_usd;  ///< what it may have cost at most; nullopt = no price
};

/// Finds the reservations without an end in journals that are read one after the other.
class OpenReservations {
  public:
    void start_journal() { ++journal_; }
    /// Takes a record of the current journal; other types than reservations and tries are ignored.
    void take(const Record& record);
    std::vector<OpenReservation> open() const;

  private:
    void reserve(const std::string& json);
    void end(const std::string& json);

    int journal_ = 0;
    /// By call and try, then by journal: a resumed rank asks under the same name again.
    std::map<std::string, std::map<int, OpenReservation>> open_;
};

}  // namespace accelopt::store
