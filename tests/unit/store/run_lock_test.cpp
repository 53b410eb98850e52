#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <string>

#include "core/error.h"
#include "core/text.h"
#include "store/journal.h"
#include "unit/store/temporary_folder.h"

using accelopt::Error;
using namespace accelopt::store;
using accelopt::store::testing::TemporaryFolder;

namespace {

/// A process that holds the lock of a folder until it is killed.
class LockHolder {
  public:
    explicit LockHolder(const std::string& folder) {
        int ready[2];
        if (::pipe(ready) != 0) throw std::runtime_error("pipe failed");
        pid_ = ::fork();
        if (pid_ == 0) {
            const RunLock lock(folder);
            (void)!::write(ready[1], "r", 1);
            for (;;) ::pause();
        }
        char byte = 0;
        (void)!::read(ready[0], &byte, 1);
        ::close(ready[0]);
        ::close(ready[1]);
    }
    ~LockHolder() { kill(); }
    void kill() {
        if (pid_ <= 0) return;
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
        pid_ = -1;
    }
    pid_t pid() const { return pid_; }

  private:
    pid_t pid_ = -1;
};

}  // namespace

TEST_CASE("A second owner of a run directory is refused and told who holds it", "[N32][N34]") {
    TemporaryFolder folder;
    LockHolder holder(folder.path());
    try {
        const RunLock second(folder.path());
        FAIL("the lock was given twice");
    } catch (const Error& error) {
        CHECK(error.source() == accelopt::ErrorSource::kUser);
        CHECK(error.code() == "locked");
        CHECK_THAT(error.what(), Catch::Contains(std::to_string(holder.pid())));
        CHECK_THAT(error.what(), Catch::Contains(folder.path()));
    }
}

TEST_CASE("The lock of a killed process is free again", "[N33]") {
    TemporaryFolder folder;
    LockHolder holder(folder.path());
    holder.kill();
    const RunLock lock(folder.path());
    CHECK_THAT(accelopt::read_file(folder.path() + "/lock"),
               Catch::Contains(std::to_string(::getpid())));
}

TEST_CASE("A lock is released with its object, and locks of different runs do not meet") {
    TemporaryFolder one;
    TemporaryFolder other;
    { const RunLock first(one.path()); }
    const RunLock again(one.path());
    const RunLock elsewhere(other.path());
    CHECK_THROWS_AS(RunLock(one.path()), Error);
}

TEST_CASE("A run directory that does not exist cannot be locked") {
    TemporaryFolder folder;
    CHECK_THROWS_WITH(RunLock(folder.path() + "/missing"), Catch::Contains("missing/lock"));
}
