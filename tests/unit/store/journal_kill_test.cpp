#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <string>
#include <vector>

#include "core/rng.h"
#include "store/journal.h"
#include "unit/store/temporary_folder.h"

using namespace accelopt::store;
using accelopt::store::testing::TemporaryFolder;

namespace {

std::string payload_of(int index) {
    std::string payload = "record " + std::to_string(index) + ":";
    for (int i = 0; i < 200; ++i) payload += std::to_string((index * 31 + i) * 2654435761u);
    return payload;
}

/// Appends records for ever and acknowledges each with one byte, until it is killed.
[[noreturn]] void write_until_killed(const std::string& folder, int launch, int acknowledge_fd) {
    try {
        JournalWriter writer(folder, 0, launch);
        for (int i = 0;; ++i) {
            writer.append(RecordType::kEvent, payload_of(i));
            if (::write(acknowledge_fd, "a", 1) != 1) ::_exit(2);
        }
    } catch (...) {
        ::_exit(3);
    }
}

/// Kills the writer `delay` microseconds after its `enough`-th acknowledgement and returns how many
/// there were in all, those still in the pipe included: each stands for a record whose `append` had
/// returned.
int acknowledged_until_kill(int fd, pid_t child, int enough, useconds_t delay) {
    int count = 0;
    char byte = 0;
    while (count < enough && ::read(fd, &byte, 1) == 1) ++count;
    ::usleep(delay);
    ::kill(child, SIGKILL);
    while (::read(fd, &byte, 1) == 1) ++count;
    return count;
}

}  // namespace

TEST_CASE("A writer killed at 50 random moments loses no acknowledged record and repeats none",
          "[N33]") {
    TemporaryFolder folder;
    accelopt::RandomStream random(20240117);
    int total = 0;
    for (int launch = 0; launch < 50; ++launch) {
        int pipe_fds[2];
        REQUIRE(::pipe2(pipe_fds, O_CLOEXEC) == 0);
        const pid_t child = ::fork();
        REQUIRE(child >= 0);
        if (child == 0) write_until_killed(folder.path(), launch, pipe_fds[1]);
        ::close(pipe_fds[1]);
        const int acknowledged =
            acknowledged_until_kill(pipe_fds[0], child, static_cast<int>(random.below(12)),
                                    static_cast<useconds_t>(random.below(4'000)));
        ::close(pipe_fds[0]);
        int status = 0;
        REQUIRE(::waitpid(child, &status, 0) == child);
        REQUIRE(WIFSIGNALED(status));

        int seen = 0;
        const auto journals = journal_files(folder.path());
        if (journals.size() == static_cast<std::size_t>(launch)) {
            // Killed before the file existed: nothing can have been acknowledged.
            REQUIRE(acknowledged == 0);
            JournalWriter(folder.path(), 0, launch);
            continue;
        }
        read_journal(journals.back(), [&](const Record& record) {
            REQUIRE(record.payload == payload_of(seen));
            ++seen;
        });
        // One record may have been durable when the kill came before its acknowledgement.
        REQUIRE(seen >= acknowledged);
        REQUIRE(seen <= acknowledged + 1);
        total += acknowledged;
    }
    CHECK(total > 100);  // the kills hit a writer at work (5.5 records on average, at least)
}
