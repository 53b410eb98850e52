#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace accelopt::store {

/// What a journal record holds; values are stored, never renumbered.
enum class RecordType : std::uint16_t {
    kLaunch = 1,       ///< JSON: version, rank, ranks, ..., unix_s
    kLlmReserved = 2,  ///< JSON: unit, role, sample, attempt, model, request hash, max_usd
    kLlmTry = 3,       ///< JSON: a protocol::LedgerRow
    kLlmReply = 4,     ///< JSON: unit, role, sample, request hash, outcome, text, reasoning
    kEvaluation = 5,   ///< JSON: evaluation key and a protocol::EvaluationReply
    kUnitResult = 6,   ///< JSON: a protocol::UnitResult the coordinator accepted
    kRound = 7,        ///< JSON: a finished round (selection, memory)
    kEvent = 8,        ///< JSON: unix_s, kind, text
    kRunEnd = 9        ///< JSON: exit_code, reason
};

struct Record {
    RecordType type;
    std::string payload;
};

/// Appends records to one file, one write(2) per record, fsync before `append` returns. Layout of
/// a record: u32 length, u16 type, u16 reserved, u32 CRC-32 of type and compressed payload, zstd
/// payload; little-endian; the file starts with an 8-byte magic. Throws Error(kExternal,
/// "journal") on a full disk, with the path; what was written of that record is cut off again, so
/// that a later `append` still follows a good record. Safe to call from several threads.
class JournalWriter {
  public:
    /// Creates `directory`/rank-RRRR-launch-LLLL.journal, and the folder if it is missing; never
    /// reopens an old file.
    JournalWriter(const std::string& directory, int rank, int launch);
    ~JournalWriter();
    JournalWriter(const JournalWriter&) = delete;
    JournalWriter& operator=(const JournalWriter&) = delete;
    void append(RecordType type, std::string_view payload);
    const std::string& path() const { return path_; }

  private:
    std::string path_;
    int fd_ = -1;
    std::mutex mutex_;
    std::int64_t good_bytes_ = 0;  ///< end of the last acknowledged record
    bool broken_ = false;          ///< the file's tail is unknown: nothing more may be appended
};

/// Reads one journal; stops at the first incomplete or damaged record (a torn tail is normal after
/// a kill) and returns how many bytes were good. A file that ends within the magic holds nothing;
/// one that starts with something else is Error(kUser, "not_a_journal").
std::int64_t read_journal(const std::string& path, const std::function<void(Record)>& visit);

/// All journals of a run in (launch, rank) order.
std::vector<std::string> journal_files(const std::string& directory);
/// The next unused launch number.
int next_launch(const std::string& directory);

/// Exclusive ownership of a run directory (flock on DIR/lock, freed when the process dies). Throws
/// Error(kUser, "locked") naming the holder when another process has it.
class RunLock {
  public:
    explicit RunLock(const std::string& run_directory);
    ~RunLock();
    RunLock(const RunLock&) = delete;
    RunLock& operator=(const RunLock&) = delete;

  private:
    int fd_ = -1;
};

}  // namespace accelopt::store
