#include "store/journal.h"

#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "core/error.h"
#include "core/rng.h"
#include "core/text.h"
#include "unit/store/temporary_folder.h"

using accelopt::Error;
using accelopt::read_file;
using namespace accelopt::store;
using accelopt::store::testing::TemporaryFolder;

namespace {

std::vector<Record> records_of(const std::string& path) {
    std::vector<Record> records;
    read_journal(path, [&](Record record) { records.push_back(std::move(record)); });
    return records;
}

std::vector<std::string> payloads_of(const std::string& path) {
    std::vector<std::string> payloads;
    for (auto& record : records_of(path)) payloads.push_back(std::move(record.payload));
    return payloads;
}

void overwrite(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

/// Keeps this process from writing files beyond `bytes`: a full disk, as far as write(2) goes.
class FileSizeLimit {
  public:
    explicit FileSizeLimit(rlim_t bytes) {
        ::getrlimit(RLIMIT_FSIZE, &before_);
        old_handler_ = std::signal(SIGXFSZ, SIG_IGN);
        rlimit limit = before_;
        limit.rlim_cur = bytes;
        ::setrlimit(RLIMIT_FSIZE, &limit);
    }
    ~FileSizeLimit() {
        ::setrlimit(RLIMIT_FSIZE, &before_);
        std::signal(SIGXFSZ, old_handler_);
    }

  private:
    rlimit before_{};
    void (*old_handler_)(int) = nullptr;
};

std::string code_of(const std::function<void()>& action) {
    try {
        action();
    } catch (const Error& error) {
        return error.code();
    }
    return "nothing thrown";
}

}  // namespace

TEST_CASE("A journal gives back every record with its type, whatever its bytes", "[N33]") {
    TemporaryFolder folder;
    std::vector<std::string> payloads = {"",
                                         "plain",
                                         std::string("nul\0inside", 10),
                                         "äöü→",
                                         std::string(300'000, 'x'),
                                         "\xff\xfe broken utf-8"};
    JournalWriter writer(folder.path() + "/journal", 3, 7);
    for (std::size_t i = 0; i < payloads.size(); ++i) {
        writer.append(static_cast<RecordType>(i + 1), payloads[i]);
    }
    CHECK(std::filesystem::path(writer.path()).filename() == "rank-0003-launch-0007.journal");
    const auto records = records_of(writer.path());
    REQUIRE(records.size() == payloads.size());
    for (std::size_t i = 0; i < payloads.size(); ++i) {
        CHECK(static_cast<std::size_t>(records[i].type) == i + 1);
        CHECK((records[i].payload == payloads[i]));
    }
    CHECK(read_journal(writer.path(), [](Record) {}) ==
          static_cast<std::int64_t>(std::filesystem::file_size(writer.path())));
}

TEST_CASE("Repetitive payloads are stored compressed", "[N33]") {
    TemporaryFolder folder;
    JournalWriter writer(folder.path(), 0, 0);
    writer.append(RecordType::kLlmReply, std::string(1'000'000, 'a'));
    CHECK(std::filesystem::file_size(writer.path()) < 10'000);
}

TEST_CASE("A tail torn at any byte of the last record costs that record and nothing else",
          "[N33][N38]") {
    TemporaryFolder folder;
    JournalWriter writer(folder.path(), 0, 0);
    writer.append(RecordType::kLlmTry, "first");
    writer.append(RecordType::kLlmReply, "second");
    const auto whole_before = std::filesystem::file_size(writer.path());
    writer.append(RecordType::kUnitResult, "the third record, which is torn");
    const std::string bytes = read_file(writer.path());
    REQUIRE(bytes.size() > whole_before);
    const std::string torn = folder.path() + "/torn.journal";
    for (std::size_t cut = whole_before; cut < bytes.size(); ++cut) {
        overwrite(torn, bytes.substr(0, cut));
        std::vector<std::string> seen;
        const std::int64_t good =
            read_journal(torn, [&](const Record& record) { seen.push_back(record.payload); });
        REQUIRE(seen == std::vector<std::string>{"first", "second"});
        REQUIRE(good == static_cast<std::int64_t>(whole_before));
    }
}

TEST_CASE("Any flipped bit ends the reading before the damaged record", "[N38]") {
    TemporaryFolder folder;
    JournalWriter writer(folder.path(), 0, 0);
    writer.append(RecordType::kLlmTry, "first");
    const auto start = std::filesystem::file_size(writer.path());
    writer.append(RecordType::kUnitResult, "second, whose bits are flipped one by one");
    const auto end = std::filesystem::file_size(writer.path());
    writer.append(RecordType::kRound, "third");
    const std::string bytes = read_file(writer.path());
    const std::string flipped = folder.path() + "/flipped.journal";
    for (std::size_t at = start; at < end; ++at) {
        for (int bit = 0; bit < 8; ++bit) {
            std::string damaged = bytes;
            damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
            overwrite(flipped, damaged);
            REQUIRE(payloads_of(flipped) == std::vector<std::string>{"first"});
        }
    }
}

TEST_CASE("An empty file and a file torn within the magic hold no records") {
    TemporaryFolder folder;
    JournalWriter writer(folder.path(), 0, 0);
    const std::string magic = read_file(writer.path());
    REQUIRE(magic.size() == 8);
    const std::string path = folder.path() + "/short.journal";
    for (std::size_t size = 0; size <= magic.size(); ++size) {
        overwrite(path, magic.substr(0, size));
        CHECK(payloads_of(path).empty());
        CHECK(read_journal(path, [](Record) {}) == (size < magic.size() ? 0 : 8));
    }
}

TEST_CASE("A foreign file is refused by name, not read as an empty journal") {
    TemporaryFolder folder;
    const std::string path = folder.path() + "/foreign.journal";
    for (const char* content : {"x", "#!/bin/sh\necho\n", "\x89HDF\r\n\x1a\n"}) {
        overwrite(path, content);
        CHECK(code_of([&] { payloads_of(path); }) == "not_a_journal");
    }
    CHECK(code_of([&] { payloads_of(folder.path() + "/missing"); }) == "journal");
}

TEST_CASE("A record that claims an absurd length is damage, not an allocation") {
    TemporaryFolder folder;
    JournalWriter writer(folder.path(), 0, 0);
    writer.append(RecordType::kEvent, "one");
    std::string bytes = read_file(writer.path());
    bytes += std::string("\xff\xff\xff\xff\x08\x00\x00\x00\x00\x00\x00\x00", 12);
    const std::string path = folder.path() + "/absurd.journal";
    overwrite(path, bytes);
    CHECK(payloads_of(path) == std::vector<std::string>{"one"});
}

TEST_CASE("A journal is never reopened for writing") {
    TemporaryFolder folder;
    { JournalWriter writer(folder.path(), 1, 2); }
    CHECK(code_of([&] { JournalWriter(folder.path(), 1, 2); }) == "journal_exists");
}

TEST_CASE("A full disk is an error with the path, and the journal stays readable", "[N33]") {
    TemporaryFolder folder;
    JournalWriter writer(folder.path(), 0, 0);
    writer.append(RecordType::kEvent, "before");
    accelopt::RandomStream random(1);
    std::string noise;  // does not compress
    for (int i = 0; i < 20'000; ++i) noise += static_cast<char>(random.below(256));
    std::string message;
    {
        FileSizeLimit limit(2'000);
        try {
            writer.append(RecordType::kLlmReply, noise);
        } catch (const Error& error) {
            message = error.what();
            CHECK(error.source() == accelopt::ErrorSource::kExternal);
            CHECK(error.code() == "journal");
        }
    }
    CHECK_THAT(message, Catch::Contains(writer.path()));
    writer.append(RecordType::kEvent, "after");
    CHECK(payloads_of(writer.path()) == std::vector<std::string>{"before", "after"});
}

TEST_CASE("Journals are listed by launch, then rank, and other files are left out") {
    TemporaryFolder folder;
    CHECK(journal_files(folder.path() + "/missing").empty());
    CHECK(next_launch(folder.path() + "/missing") == 0);
    for (const auto& [rank, launch] : {std::pair{1, 10}, {0, 10}, {12, 2}, {2, 2}, {0, 0}}) {
        JournalWriter(folder.path(), rank, launch);
    }
    overwrite(folder.path() + "/rank-0000-launch-0099.journal.bak", "");
    overwrite(folder.path() + "/notes.txt", "");
    std::vector<std::string> names;
    for (const auto& path : journal_files(folder.path())) {
        names.push_back(std::filesystem::path(path).filename().string());
    }
    CHECK(names ==
          std::vector<std::string>{"rank-0000-launch-0000.journal", "rank-0002-launch-0002.journal",
                                   "rank-0012-launch-0002.journal", "rank-0000-launch-0010.journal",
                                   "rank-0001-launch-0010.journal"});
    CHECK(next_launch(folder.path()) == 11);
}

TEST_CASE("Threads may share a writer") {
    TemporaryFolder folder;
    JournalWriter writer(folder.path(), 0, 0);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&writer, t] {
            for (int i = 0; i < 25; ++i) {
                writer.append(RecordType::kEvent, std::to_string(100 * t + i));
            }
        });
    }
    for (auto& thread : threads) thread.join();
    auto payloads = payloads_of(writer.path());
    std::sort(payloads.begin(), payloads.end());
    CHECK(std::unique(payloads.begin(), payloads.end()) == payloads.end());
    CHECK(payloads.size() == 100);
}
