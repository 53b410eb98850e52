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
#include "eval/reference/pieces.h"
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

std::int64_t elements_of(const std::vector<std::int64_t>& shape) {
    std::int64_t count = 1;
    for (const std::int64_t extent : shape) count *= extent;
    return count;
}

/// Per output: float32 values and, for the conditioned rule, residual and scale.
std::vector<std::int64_t> result_bytes(const Problem& problem, ReferenceKind kind) {
    std::vector<std::int64_t> bytes;
    for (const OutputSpec& output : problem.outputs) {
        const std::int64_t count = elements_of(output.shape);
        bytes.push_back(count * static_cast<std::int64_t>(sizeof(float)));
        if (kind == ReferenceKind::kPublished) continue;
        bytes.insert(bytes.end(), 2, count * static_cast<std::int64_t>(sizeof(std::uint16_t)));
    }
    return bytes;
}

/// The id may come from anyone's problem.yaml: only plain characters reach a file name.
std::string file_name(const std::string& problem_id) {
    std::string name;
    for (const char c : problem_id.substr(0, 40)) name += std::isalnum(c) || c == '_' ? c : '-';
    return name;
}

std::optional<std::string> fill_published(const Problem& problem, const InputSet& set,
                                          const std::vector<std::span<const float>>& tensors,
                                          ReferenceData& target) {
    return call_reference(problem, "forward", Precision::kFloat32, set, tensors,
                          [&](std::size_t i, const ReferenceValues& values) {
                              std::copy(values.single.begin(), values.single.end(),
                                        target.writable_array(i).begin());
                          });
}

std::optional<std::string> fill_conditioned(const Problem& problem, const InputSet& set,
                                            const std::string& function,
                                            const std::vector<std::span<const float>>& tensors,
                                            ReferenceData& target) {
    std::optional<std::string> bad_scale;
    const PiecePlan plan(problem);
    const auto store = [&](std::size_t f, std::size_t i, const OutputPiece& piece) {
        const auto value = target.writable_array(3 * i);
        for_each_run(problem.outputs[i].shape, plan.output_axis(i), {piece.first, piece.count},
                     [&](std::size_t from, std::size_t to, std::size_t n) {
                         const auto run = piece.values.subspan(from, n);
                         if (f == 0) {
                             store_reference(run, value.subspan(to, n),
                                             target.writable_words(3 * i + 1).subspan(to, n));
                             return;
                         }
                         const auto bad =
                             store_scale(run, value.subspan(to, n),
                                         target.writable_words(3 * i + 2).subspan(to, n), to);
                         if (bad && !bad_scale) bad_scale = bad;
                     });
    };
    const auto fault = call_reference_in_pieces(problem, {function, "scale"}, set, tensors, store);
    return fault ? fault : bad_scale;
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

ExpectedOutput Reference::output(std::size_t i) const {
    if (!conditioned_) return {expected_->array(i), {}, {}};
    return {expected_->array(3 * i), expected_->words(3 * i + 1), expected_->words(3 * i + 2)};
}

Result<Reference, std::string> ReferenceStore::get(const Problem& problem, const InputSet& set,
                                                   ReferenceKind kind) {
    return obtain_results(problem, set, kind, "forward");
}

Result<Reference, std::string> ReferenceStore::get_variant(const Problem& problem,
                                                           const InputSet& set,
                                                           const std::string& function) {
    return obtain_results(problem, set, ReferenceKind::kConditioned, function);
}

ReferenceStore::Data ReferenceStore::obtain_input(const Problem& problem, const InputSet& set,
                                                  std::size_t index, std::string& key) {
    Wanted wanted;
    wanted.key = sha256_hex("accelopt input 2\n" + reference_identity() + "\n" +
                            sha256_hex(set.key_of(index)));
    key = wanted.key;
    wanted.name = file_name(problem.id) + "-input";
    wanted.array_bytes = {elements_of(set.inputs[index].shape) *
                          static_cast<std::int64_t>(sizeof(float))};
    wanted.fill = [&](ReferenceData& target) -> std::optional<std::string> {
        draw_input(set, index, target.writable_array(0));
        return std::nullopt;
    };
    wanted.computed = &inputs_drawn_;
    wanted.loaded = &inputs_loaded_;
    return std::move(obtain(wanted)).value();
}

Result<Reference, std::string> ReferenceStore::obtain_results(const Problem& problem,
                                                              const InputSet& set,
                                                              ReferenceKind kind,
                                                              const std::string& function) {
    std::string text = "accelopt reference 3\n" + problem.definition_sha256 + "\n" +
                       reference_identity() + "\n" + function + "\n" +
                       (kind == ReferenceKind::kPublished ? "float32\n" : "float64\n");
    for (const auto& [name, value] : problem.sizes) {
        text += name + "=" + std::to_string(value) + "\n";
    }
    std::vector<Data> inputs;
    std::vector<std::span<const float>> tensors;
    for (std::size_t i = 0; i < set.inputs.size(); ++i) {
        if (set.inputs[i].tensor) {
            std::string key;
            inputs.push_back(obtain_input(problem, set, i, key));
            tensors.push_back(inputs.back()->array(0));
            text += key + "\n";
        } else {
            char number[40];
            std::snprintf(number, sizeof number, "%.17g\n", set.inputs[i].scalar);
            text += number;
        }
    }
    Wanted wanted;
    wanted.key = sha256_hex(text);
    wanted.name = file_name(problem.id);
    wanted.array_bytes = result_bytes(problem, kind);
    wanted.fill = [&](ReferenceData& target) {
        return kind == ReferenceKind::kPublished
                   ? fill_published(problem, set, tensors, target)
                   : fill_conditioned(problem, set, function, tensors, target);
    };
    wanted.computed = &computed_;
    wanted.loaded = &loaded_;
    auto expected = obtain(wanted);
    if (!expected) return Failure{expected.error()};
    return Reference(std::move(inputs), std::move(*expected), kind == ReferenceKind::kConditioned);
}

Result<ReferenceStore::Data, std::string> ReferenceStore::obtain(const Wanted& wanted) {
    for (auto it = warm_.begin(); it != warm_.end(); ++it) {
        if (it->key == wanted.key) {
            warm_.splice(warm_.begin(), warm_, it);
            return warm_.front().data;
        }
    }
    auto result = directory_.empty() ? fill(wanted, ReferenceData::allocate(wanted.array_bytes), "")
                                     : obtain_shared(wanted);
    if (result) keep_warm(wanted.key, *result);
    return result;
}

ReferenceStore::Data ReferenceStore::open(const std::string& file, const Wanted& wanted) {
    Data data = ReferenceData::open_file(file, wanted.key, wanted.array_bytes);
    if (data) {
        ++*wanted.loaded;
        utimensat(AT_FDCWD, file.c_str(), nullptr, 0);  // marks it as used for make_room
    }
    return data;
}

Result<ReferenceStore::Data, std::string> ReferenceStore::obtain_shared(const Wanted& wanted) {
    const std::string stem = directory_ + "/" + wanted.name + "-" + wanted.key.substr(0, 32);
    const std::string file = stem + kSuffix;
    if (Data data = open(file, wanted)) return data;
    const KeyLock lock(stem + kLockSuffix);
    if (Data data = open(file, wanted)) return data;  // made while we waited

    std::int64_t needed = 0;
    for (const std::int64_t bytes : wanted.array_bytes) needed += bytes;
    const std::string part = stem + "." + std::to_string(getpid()) + kPartSuffix;
    std::shared_ptr<ReferenceData> target;
    if (needed <= bytes_) {
        make_room(directory_, needed, bytes_);
        target = ReferenceData::create_file(part, wanted.array_bytes);
        if (!target) {  // the disk is fuller than our bound: give up our own files, then the cache
            make_room(directory_, needed, 0);
            target = ReferenceData::create_file(part, wanted.array_bytes);
        }
    }
    if (!target) {
        std::fprintf(stderr, "accelopt: no room for a reference of %s in the cache, kept private\n",
                     wanted.name.c_str());
        return fill(wanted, ReferenceData::allocate(wanted.array_bytes), "");
    }
    const PartFile cleanup{part};  // a no-op once the part has become the file
    auto result = fill(wanted, target, wanted.key);
    if (result && std::rename(part.c_str(), file.c_str()) != 0) {
        std::fprintf(stderr, "accelopt: cannot publish a reference: %s: %s\n", std::strerror(errno),
                     file.c_str());
    }
    return result;
}

Result<ReferenceStore::Data, std::string> ReferenceStore::fill(
    const Wanted& wanted, std::shared_ptr<ReferenceData> target, const std::string& key) {
    if (auto fault = wanted.fill(*target)) return Failure{*fault};
    ++*wanted.computed;
    target->seal(key);
    return Data(target);
}

void ReferenceStore::keep_warm(const std::string& key, const Data& data) {
    warm_.push_front({key, data});
    // Files are there to be mapped again: several evaluators share this machine's memory.
    const std::int64_t bound = std::min(bytes_, physical_memory_bytes() / 4);
    std::int64_t total = 0;
    auto it = warm_.begin();
    for (; it != warm_.end(); ++it) {
        total += it->data->total_bytes();
        if (total > bound && it != warm_.begin()) break;
    }
    warm_.erase(it, warm_.end());
}

}  // namespace accelopt::eval
