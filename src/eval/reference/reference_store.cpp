#include "eval/reference/reference_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "core/error.h"
#include "core/hash.h"
#include "eval/reference/python_reference.h"

namespace accelopt::eval {

namespace {

namespace fs = std::filesystem;

constexpr const char* kSuffix = ".reference";
constexpr const char* kLockSuffix = ".lock";
constexpr const char* kPartSuffix = ".part";
/// No reference takes this long to compute; what is older was left by a killed process.
constexpr auto kStaleAge = std::chrono::hours(2);

/// Holds a key's lock file while its reference is computed. A killed holder's lock vanishes with
/// its process. Where the file system has no locks, work is merely done twice.
class KeyLock {
  public:
    explicit KeyLock(std::string path) : path_(std::move(path)) {
        for (;;) {
            fd_ = open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
            if (fd_ < 0) return;
            while (flock(fd_, LOCK_EX) != 0) {
                if (errno != EINTR) return;
            }
            // The previous holder may have removed the file between our open and our lock.
            struct stat mine {
            }, current{};
            if (fstat(fd_, &mine) == 0 && stat(path_.c_str(), &current) == 0 &&
                mine.st_ino == current.st_ino) {
                return;
            }
            close(fd_);
        }
    }
    ~KeyLock() {
        if (fd_ < 0) return;
        unlink(path_.c_str());
        close(fd_);
    }
    KeyLock(const KeyLock&) = delete;
    KeyLock& operator=(const KeyLock&) = delete;

  private:
    std::string path_;
    int fd_ = -1;
};

/// Removes an unfinished cache file however its computation ends.
struct PartFile {
    const std::string& path;
    ~PartFile() { unlink(path.c_str()); }
};

std::vector<std::int64_t> array_bytes_of(const Problem& problem) {
    std::vector<std::int64_t> bytes;
    const auto add = [&](const std::vector<std::int64_t>& shape) {
        std::int64_t count = sizeof(float);
        for (const std::int64_t extent : shape) count *= extent;
        bytes.push_back(count);
    };
    for (const InputSpec& input : problem.inputs) {
        if (input.tensor) add(input.shape);
    }
    for (const OutputSpec& output : problem.outputs) add(output.shape);
    return bytes;
}

std::int64_t physical_memory_bytes() {
    return static_cast<std::int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
}

struct CachedFile {
    fs::path path;
    fs::file_time_type used;
    std::int64_t bytes;
};

}  // namespace

void make_room(const std::string& directory, std::int64_t needed, std::int64_t limit) {
    std::vector<CachedFile> files;
    std::int64_t total = 0;
    std::error_code error;
    for (fs::directory_iterator it(directory, error), end; !error && it != end;
         it.increment(error)) {
        std::error_code gone;
        const fs::path& path = it->path();
        const auto used = fs::last_write_time(path, gone);
        const auto bytes = static_cast<std::int64_t>(gone ? 0 : fs::file_size(path, gone));
        if (gone) continue;
        if (path.extension() == kPartSuffix &&
            fs::file_time_type::clock::now() - used > kStaleAge) {
            fs::remove(path, gone);
        } else if (path.extension() == kSuffix) {
            files.push_back({path, used, bytes});
            total += bytes;
        }
    }
    std::sort(files.begin(), files.end(), [](const CachedFile& a, const CachedFile& b) {
        return a.used != b.used ? a.used < b.used : a.path < b.path;
    });
    for (const CachedFile& file : files) {
        if (total + needed <= limit) return;
        std::error_code gone;
        fs::remove(file.path, gone);  // processes that map it keep their mapping
        total -= file.bytes;
    }
}

ReferenceStore::ReferenceStore(std::string directory, std::int64_t bytes)
    : directory_(std::move(directory)), bytes_(bytes) {
    if (directory_.empty()) {
        bytes_ = std::min(bytes_, physical_memory_bytes() / 4);
        return;
    }
    std::error_code error;
    const bool fresh = fs::create_directories(directory_, error);
    if (fresh) fs::permissions(directory_, fs::perms::owner_all, error);
    if (!fs::is_directory(directory_, error) || access(directory_.c_str(), W_OK | X_OK) != 0) {
        throw Error(ErrorSource::kConfig, "cache_directory",
                    "cannot use the reference cache folder: " +
                        std::string(error ? error.message() : std::strerror(errno)) + ": " +
                        directory_);
    }
}

std::string ReferenceStore::key_of(const Problem& problem, const std::string& seed_hex) const {
    std::string text = "accelopt reference 1\n" + problem.definition_sha256 + "\n" +
                       sha256_hex(seed_hex) + "\n" + reference_identity() + "\n";
    for (const auto& [name, value] : problem.sizes) {
        text += name + "=" + std::to_string(value) + "\n";
    }
    return sha256_hex(text);
}

std::string ReferenceStore::file_of(const Problem& problem, const std::string& key) const {
    // The id may come from anyone's problem.yaml: only plain characters reach a file name.
    std::string name;
    for (const char c : problem.id.substr(0, 40)) name += std::isalnum(c) || c == '_' ? c : '-';
    return directory_ + "/" + name + "-" + key.substr(0, 32);
}

Result<ReferenceStore::Data, std::string> ReferenceStore::get(const Problem& problem,
                                                              const std::string& seed_hex) {
    const std::string key = key_of(problem, seed_hex);
    for (auto it = warm_.begin(); it != warm_.end(); ++it) {
        if (it->key == key) {
            warm_.splice(warm_.begin(), warm_, it);
            return warm_.front().data;
        }
    }
    auto result = directory_.empty() ? compute(problem, seed_hex,
                                               ReferenceData::allocate(array_bytes_of(problem)), "")
                                     : compute_shared(problem, seed_hex, key);
    if (result) keep_warm(key, *result);
    return result;
}

ReferenceStore::Data ReferenceStore::open(const std::string& file, const std::string& key,
                                          const Problem& problem) {
    Data data = ReferenceData::open_file(file, key, array_bytes_of(problem));
    if (data) {
        ++loaded_;
        utimensat(AT_FDCWD, file.c_str(), nullptr, 0);  // marks it as used for make_room
    }
    return data;
}

Result<ReferenceStore::Data, std::string> ReferenceStore::compute_shared(
    const Problem& problem, const std::string& seed_hex, const std::string& key) {
    const std::string stem = file_of(problem, key);
    const std::string file = stem + kSuffix;
    if (Data data = open(file, key, problem)) return data;
    const KeyLock lock(stem + kLockSuffix);
    if (Data data = open(file, key, problem)) return data;  // made while we waited

    const std::vector<std::int64_t> sizes = array_bytes_of(problem);
    std::int64_t needed = 0;
    for (const std::int64_t bytes : sizes) needed += bytes;
    const std::string part = stem + "." + std::to_string(getpid()) + kPartSuffix;
    std::shared_ptr<ReferenceData> target;
    if (needed <= bytes_) {
        make_room(directory_, needed, bytes_);
        target = ReferenceData::create_file(part, sizes);
        if (!target) {  // the disk is fuller than our bound: give up our own files, then the cache
            make_room(directory_, needed, 0);
            target = ReferenceData::create_file(part, sizes);
        }
    }
    if (!target) {
        std::fprintf(stderr, "accelopt: no room for a reference of %s in the cache, kept private\n",
                     problem.id.c_str());
        return compute(problem, seed_hex, ReferenceData::allocate(sizes), "");
    }
    const PartFile cleanup{part};  // a no-op once the part has become the file
    auto result = compute(problem, seed_hex, target, key);
    if (result && std::rename(part.c_str(), file.c_str()) != 0) {
        std::fprintf(stderr, "accelopt: cannot publish a reference: %s: %s\n", std::strerror(errno),
                     file.c_str());
    }
    return result;
}

Result<ReferenceStore::Data, std::string> ReferenceStore::compute(
    const Problem& problem, const std::string& seed_hex, std::shared_ptr<ReferenceData> target,
    const std::string& key) {
    std::vector<std::span<float>> inputs, outputs;
    for (std::size_t i = 0; i < target->arrays(); ++i) {
        const bool output = i + problem.outputs.size() >= target->arrays();
        (output ? outputs : inputs).push_back(target->writable_array(i));
    }
    if (auto fault = compute_reference(problem, seed_hex, inputs, outputs)) return Failure{*fault};
    ++computed_;
    target->seal(key);
    return Data(target);
}

void ReferenceStore::keep_warm(const std::string& key, const Data& data) {
    warm_.push_front({key, data});
    std::int64_t total = 0;
    auto it = warm_.begin();
    for (; it != warm_.end(); ++it) {
        total += it->data->total_bytes();
        if (total > bytes_ && it != warm_.begin()) break;
    }
    warm_.erase(it, warm_.end());
}

}  // namespace accelopt::eval
