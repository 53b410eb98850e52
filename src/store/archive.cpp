#include "store/archive.h"

#include <fmt/format.h>

#include <filesystem>

#include "core/error.h"
#include "core/text.h"
#include "store/hdf5_file.h"
#include "store/tables.h"

namespace accelopt::store {
namespace {

namespace fs = std::filesystem;

/// A process that was killed while it wrote leaves a temporary file behind.
void remove_stale_temporaries(const fs::path& folder) {
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
         entry.increment(error)) {
        const std::string name = entry->path().filename().string();
        if (name.find(".h5.tmp") != std::string::npos) {
            std::error_code ignored;
            fs::remove(entry->path(), ignored);
        }
    }
}

void publish(const fs::path& path, const RunData& run, int compression) {
    std::error_code error;
    fs::create_directories(path.parent_path(), error);
    if (error) {
        throw Error(ErrorSource::kExternal, "archive",
                    "cannot create " + path.parent_path().string() + ": " + error.message());
    }
    remove_stale_temporaries(path.parent_path());
    write_file_atomically(path.string(), hdf5_image(tables_of(run), compression));
}

}  // namespace

void write_round_file(const std::string& run_directory, const RoundRow& round, int compression) {
    RunData part;
    part.directory = run_directory;
    part.units = round.rewrites;
    part.rounds.push_back(round);
    for (const auto& unit : round.rewrites) {
        part.ledger.insert(part.ledger.end(), unit.ledger.begin(), unit.ledger.end());
    }
    publish(fs::path(run_directory) / "rounds" /
                fmt::format("{}-{:04d}.h5", round.problem, round.round),
            part, compression);
}

void write_run_file(const RunData& run, int compression) {
    publish(fs::path(run.directory) / "run.h5", run, compression);
}

}  // namespace accelopt::store
