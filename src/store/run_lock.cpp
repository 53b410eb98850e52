#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "core/clock.h"
#include "core/error.h"
#include "store/journal.h"

namespace accelopt::store {
namespace {

std::string host_name() {
    std::array<char, 256> name{};
    if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown host";
    return name.data();
}

std::string read_holder(int fd) {
    std::array<char, 512> text{};
    const ssize_t n = ::pread(fd, text.data(), text.size() - 1, 0);
    if (n <= 0) return "an unknown process";
    std::string holder(text.data(), static_cast<std::size_t>(n));
    while (!holder.empty() && holder.back() == '\n') holder.pop_back();
    return holder;
}

int lock_now(int fd) {
    while (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EINTR) return errno;
    }
    return 0;
}

}  // namespace

RunLock::RunLock(const std::string& run_directory) {
    const std::string path = run_directory + "/lock";
    fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd_ < 0) {
        throw Error(ErrorSource::kExternal, "lock",
                    "cannot open lock file " + path + ": " + std::strerror(errno));
    }
    if (const int failed = lock_now(fd_); failed != 0) {
        const std::string holder = read_holder(fd_);
        ::close(fd_);
        fd_ = -1;
        if (failed == EWOULDBLOCK) {
            throw Error(ErrorSource::kUser, "locked",
                        "run directory " + run_directory + " is in use by " + holder);
        }
        throw Error(ErrorSource::kExternal, "lock",
                    "cannot lock " + path +
                        " (does its file system support locks?): " + std::strerror(failed));
    }
    const std::string holder = fmt::format("process {} on {} since {}\n", ::getpid(), host_name(),
                                           format_utc(system_clock().unix_s()));
    // The text only names the holder in messages; the lock itself is what excludes others.
    if (::ftruncate(fd_, 0) != 0 ||
        ::pwrite(fd_, holder.data(), holder.size(), 0) != static_cast<ssize_t>(holder.size())) {
        const int failed = errno;
        ::close(fd_);
        fd_ = -1;
        throw Error(ErrorSource::kExternal, "lock",
                    "cannot write " + path + ": " + std::strerror(failed));
    }
}

RunLock::~RunLock() {
    if (fd_ >= 0) ::close(fd_);
}

}  // namespace accelopt::store
