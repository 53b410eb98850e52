#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/unit.h"
#include "store/reservations.h"

namespace accelopt::store {

struct EventRow {
    double unix_s = 0;
    std::string kind;
    std::string text;
};

/// One finished round as journalled by the coordinator.
struct RoundRow {
    std::string problem;
    int round = 0;
    std::vector<protocol::Candidate> selected;
    std::vector<protocol::Experience> memory;
    std::vector<protocol::UnitResult> rewrites;  ///< in unit order, duplicates marked
    /// The kernel the problem started from; its source is what best/PROBLEM.diff compares with.
    std::optional<protocol::Candidate> baseline;
};

/// Everything a run's journals say, as the tables and HDF5 files need it.
struct RunData {
    std::string directory;
    std::string resolved_config;
    std::string version;
    std::vector<protocol::UnitResult> units;  ///< accepted results, in (problem, round, order)
    std::vector<RoundRow> rounds;
    std::vector<protocol::LedgerRow> ledger;  ///< every try, replayed ones marked
    std::vector<OpenReservation> open_tries;  ///< reserved, and no end known: possibly spent
    std::vector<EventRow> events;
    int launches = 0;
    std::optional<int> exit_code;
};

/// JSON of a round for the journal.
std::string to_json(const RoundRow& round);
RoundRow parse_round(std::string_view json);

/// Reads resolved.yaml and the journals of a run. Accepted results and rounds are those of the
/// coordinator (rank 0): the last one per unit, and per problem and round. Every try of every rank
/// and launch is in the ledger, also those of launches that died. Throws Error(kUser, "not_a_run")
/// for a folder that holds no journal.
RunData load_run(const std::string& run_directory);

/// Writes rounds/PROBLEM-RRRR.h5 (a complete file, renamed into place): the same tables as
/// run.h5, restricted to the round's rewrites, selection and memory. Throws Error(kExternal, ...)
/// on a full disk. Call from one thread and one process per run (see RunLock).
void write_round_file(const std::string& run_directory, const RoundRow& round, int compression);
/// Writes run.h5: tables runs, problems, units, llm_calls, candidates, evaluations, profiles,
/// profile_lines, profile_critical_path, profile_tensors, profile_occupancy, experience, memory,
/// events; text as chunked deflated bytes with offsets (no vlen strings).
void write_run_file(const RunData& run, int compression);

}  // namespace accelopt::store
