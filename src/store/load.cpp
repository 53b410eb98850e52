#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "core/error.h"
#include "core/text.h"
#include "store/archive.h"
#include "store/journal.h"

namespace accelopt::store {
namespace {

using Json = nlohmann::json;

struct JournalOrigin {
    int rank = 0;
    int launch = 0;
};

JournalOrigin origin_of(const std::string& path) {
    const std::string name = std::filesystem::path(path).filename().string();
    JournalOrigin origin;
    require(std::sscanf(name.c_str(), "rank-%d-launch-%d", &origin.rank, &origin.launch) == 2,
            "a listed journal has a journal's name");
    return origin;
}

/// Collects what the records of all journals say, journal by journal in (launch, rank) order.
class RunCollector {
  public:
    void start_journal(const JournalOrigin& origin) {
        if (origin.launch != launch_ || !any_) {
            tries_of_launch_.clear();
            ++data_.launches;
        }
        any_ = true;
        reservations_.start_journal();
        coordinator_ = origin.rank == 0;
        launch_ = origin.launch;
        // A launch says how it ended; one that died says nothing.
        if (coordinator_) data_.exit_code.reset();
    }

    void take(const Record& record) {
        reservations_.take(record);
        switch (record.type) {
            case RecordType::kLaunch:
                return take_launch(record.payload);
            case RecordType::kLlmTry:
                return take_try(record.payload);
            case RecordType::kUnitResult:
                return take_result(record.payload);
            case RecordType::kRound:
                return take_round(record.payload);
            case RecordType::kEvent:
                return take_event(record.payload);
            case RecordType::kRunEnd:
                return take_end(record.payload);
            case RecordType::kLlmReserved:
            case RecordType::kLlmReply:
            case RecordType::kEvaluation:
                return;  // a resumed rank's business
        }
        // A type that a later version added: nothing in these tables.
    }

    void add_event(EventRow event) { data_.events.push_back(std::move(event)); }

    double launch_time() const { return launch_time_; }

    RunData finish() && {
        for (auto& [id, result] : results_) data_.units.push_back(std::move(result));
        std::sort(data_.units.begin(), data_.units.end(), [](const auto& a, const auto& b) {
            return std::tie(a.problem, a.round, a.kind, a.order, a.unit_id) <
                   std::tie(b.problem, b.round, b.kind, b.order, b.unit_id);
        });
        for (auto& [key, round] : rounds_) data_.rounds.push_back(std::move(round));
        sort_ledger();
        data_.open_tries = reservations_.open();
        return std::move(data_);
    }

  private:
    void take_launch(const std::string& payload) {
        const Json json = Json::parse(payload);
        launch_time_ = json.value("unix_s", 0.0);
        if (coordinator_) data_.version = json.value("version", data_.version);
    }

    void take_try(const std::string& payload) {
        // One try may be journalled by the rank that made it and again by the one that heard of it.
        if (!tries_of_launch_.insert(payload).second) return;
        data_.ledger.push_back(protocol::parse_ledger_row(payload));
    }

    void take_result(const std::string& payload) {
        if (!coordinator_) return;  // only the coordinator accepts
        protocol::UnitResult result = protocol::parse_unit_result(payload);
        std::string id = result.unit_id;
        results_.insert_or_assign(std::move(id), std::move(result));
    }

    void take_round(const std::string& payload) {
        if (!coordinator_) return;
        RoundRow round = parse_round(payload);
        std::pair<std::string, int> key(round.problem, round.round);
        rounds_.insert_or_assign(std::move(key), std::move(round));
    }

    void take_event(const std::string& payload) {
        const Json json = Json::parse(payload);
        EventRow event;
        event.unix_s = json.value("unix_s", 0.0);
        event.kind = json.value("kind", "");
        event.text = json.value("text", "");
        add_event(std::move(event));
    }

    void take_end(const std::string& payload) {
        if (coordinator_) data_.exit_code = Json::parse(payload).at("exit_code").get<int>();
    }

    /// In the order of the units, so that a table does not depend on which rank made a call.
    void sort_ledger() {
        std::unordered_map<std::string, std::size_t> position;
        for (std::size_t i = 0; i < data_.units.size(); ++i) position[data_.units[i].unit_id] = i;
        const auto key = [&](const protocol::LedgerRow& row) {
            const auto found = position.find(row.unit_id);
            const std::size_t place = found == position.end() ? position.size() : found->second;
            return std::tuple<std::size_t, const std::string&, int, int, int>(
                place, row.unit_id, static_cast<int>(row.role), row.sample, row.attempt);
        };
        std::stable_sort(data_.ledger.begin(), data_.ledger.end(),
                         [&](const auto& a, const auto& b) { return key(a) < key(b); });
    }

    RunData data_;
    OpenReservations reservations_;
    std::map<std::string, protocol::UnitResult> results_;
    std::map<std::pair<std::string, int>, RoundRow> rounds_;
    std::set<std::string> tries_of_launch_;
    bool any_ = false;
    bool coordinator_ = false;
    int launch_ = -1;
    double launch_time_ = 0;
};

void read_into(RunCollector& collector, const std::string& path) {
    collector.start_journal(origin_of(path));
    std::int64_t index = 0;
    const std::int64_t good = read_journal(path, [&](const Record& record) {
        try {
            collector.take(record);
        } catch (const std::exception& error) {
            // The checksum held, so this is a record of another version, not a torn one.
            throw Error(
                ErrorSource::kExternal, "journal",
                fmt::format("record {} of {} cannot be used: {}", index, path, error.what()));
        }
        ++index;
    });
    const auto bytes = static_cast<std::int64_t>(std::filesystem::file_size(path));
    if (good < bytes) {
        collector.add_event(
            {collector.launch_time(), "journal_torn",
             fmt::format("{}: {} bytes after the last good record are left out",
                         std::filesystem::path(path).filename().string(), bytes - good)});
    }
}

}  // namespace

RunData load_run(const std::string& run_directory) {
    const auto journals = journal_files(run_directory + "/journal");
    if (journals.empty()) {
        throw Error(ErrorSource::kUser, "not_a_run",
                    run_directory + " is not a run directory: it holds no journal/*.journal");
    }
    RunCollector collector;
    for (const auto& path : journals) read_into(collector, path);
    RunData data = std::move(collector).finish();
    data.directory = run_directory;
    const std::string resolved = run_directory + "/resolved.yaml";
    if (std::filesystem::exists(resolved)) data.resolved_config = read_file(resolved);
    return data;
}

}  // namespace accelopt::store
