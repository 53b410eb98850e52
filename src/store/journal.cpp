#include "store/journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <tuple>

#include "core/error.h"
#include "core/hash.h"

namespace accelopt::store {
namespace {

constexpr std::string_view kMagic("ACOJRN1\n", 8);
constexpr std::size_t kHeaderBytes = 12;
constexpr int kCompressionLevel = 3;
// A record holds one reply or one result; anything above this is damage, not data.
constexpr std::uint64_t kLargestPayload = std::uint64_t{1} << 30;

[[noreturn]] void fail(const std::string& what, const std::string& path, int error_number) {
    throw Error(ErrorSource::kExternal, "journal",
                what + " journal " + path + ": " + std::strerror(error_number),
                error_number == ENOSPC || error_number == EDQUOT);
}

void put_little_endian(std::string& bytes, std::uint64_t value, int width) {
    for (int i = 0; i < width; ++i) bytes += static_cast<char>((value >> (8 * i)) & 0xff);
}

std::uint32_t get_little_endian(const char* bytes, int width) {
    std::uint32_t value = 0;
    for (int i = 0; i < width; ++i) {
        value |= static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
    }
    return value;
}

std::uint32_t record_crc(std::uint16_t type, std::string_view compressed) {
    std::string covered;
    covered.reserve(compressed.size() + 2);
    put_little_endian(covered, type, 2);
    covered += compressed;
    return crc32(covered);
}

std::string encode(RecordType type, std::string_view payload) {
    if (payload.size() > kLargestPayload) {
        throw Error(ErrorSource::kInternal, "journal",
                    fmt::format("journal record of {} bytes is over the limit of {}",
                                payload.size(), kLargestPayload));
    }
    std::string compressed(ZSTD_compressBound(payload.size()), '\0');
    const std::size_t size = ZSTD_compress(compressed.data(), compressed.size(), payload.data(),
                                           payload.size(), kCompressionLevel);
    if (ZSTD_isError(size)) {
        throw Error(ErrorSource::kInternal, "journal",
                    std::string("cannot compress a journal record: ") + ZSTD_getErrorName(size));
    }
    compressed.resize(size);
    const auto type_code = static_cast<std::uint16_t>(type);
    std::string record;
    record.reserve(kHeaderBytes + size);
    put_little_endian(record, size, 4);
    put_little_endian(record, type_code, 2);
    put_little_endian(record, 0, 2);
    put_little_endian(record, record_crc(type_code, compressed), 4);
    record += compressed;
    return record;
}

/// Returns 0 or the errno of the write that failed.
int write_all(int fd, std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t n = ::write(fd, bytes.data(), bytes.size());
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return errno;
        if (n == 0) return ENOSPC;
        bytes.remove_prefix(static_cast<std::size_t>(n));
    }
    return 0;
}

int sync_file(int fd) {
    while (::fdatasync(fd) != 0) {
        if (errno != EINTR) return errno;
    }
    return 0;
}

void sync_folder(const std::string& folder) {
    const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    // Some network file systems refuse to sync a folder; the file itself is synced either way.
    (void)::fsync(fd);
    ::close(fd);
}

bool decompress(std::string_view compressed, std::string& payload) {
    const unsigned long long size = ZSTD_getFrameContentSize(compressed.data(), compressed.size());
    if (size == ZSTD_CONTENTSIZE_UNKNOWN || size == ZSTD_CONTENTSIZE_ERROR ||
        size > kLargestPayload) {
        return false;
    }
    payload.resize(size);
    const std::size_t n =
        ZSTD_decompress(payload.data(), payload.size(), compressed.data(), compressed.size());
    return !ZSTD_isError(n) && n == size;
}

struct JournalName {
    int launch = 0;
    int rank = 0;
    std::string path;
};

std::vector<JournalName> named_journals(const std::string& directory) {
    std::vector<JournalName> found;
    std::error_code error;
    for (std::filesystem::directory_iterator entry(directory, error), end; !error && entry != end;
         entry.increment(error)) {
        const std::string name = entry->path().filename().string();
        JournalName journal;
        int used = 0;
        if (std::sscanf(name.c_str(), "rank-%9d-launch-%9d.journal%n", &journal.rank,
                        &journal.launch, &used) != 2 ||
            used != static_cast<int>(name.size()) || journal.rank < 0 || journal.launch < 0) {
            continue;
        }
        journal.path = entry->path().string();
        found.push_back(std::move(journal));
    }
    if (error && error != std::errc::no_such_file_or_directory) {
        throw Error(ErrorSource::kExternal, "journal",
                    "cannot list " + directory + ": " + error.message());
    }
    std::sort(found.begin(), found.end(), [](const JournalName& a, const JournalName& b) {
        return std::tie(a.launch, a.rank) < std::tie(b.launch, b.rank);
    });
    return found;
}

}  // namespace

JournalWriter::JournalWriter(const std::string& directory, int rank, int launch)
    : path_(fmt::format("{}/rank-{:04d}-launch-{:04d}.journal", directory, rank, launch)) {
    std::error_code error;
    std::filesystem::create_directories(directory, error);
    if (error) {
        throw Error(ErrorSource::kExternal, "journal",
                    "cannot create " + directory + ": " + error.message());
    }
    fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644);
    if (fd_ < 0) {
        if (errno == EEXIST) {
            throw Error(ErrorSource::kUser, "journal_exists",
                        "journal " + path_ + " exists already: another launch wrote it");
        }
        fail("cannot create", path_, errno);
    }
    int failed = write_all(fd_, kMagic);
    if (failed == 0) failed = sync_file(fd_);
    if (failed != 0) {
        ::close(fd_);
        ::unlink(path_.c_str());
        fail("cannot write", path_, failed);
    }
    good_bytes_ = static_cast<std::int64_t>(kMagic.size());
    sync_folder(directory);
}

JournalWriter::~JournalWriter() {
    if (fd_ >= 0) ::close(fd_);
}

void JournalWriter::append(RecordType type, std::string_view payload) {
    const std::string record = encode(type, payload);
    const std::lock_guard<std::mutex> guard(mutex_);
    if (broken_) {
        throw Error(ErrorSource::kExternal, "journal",
                    "journal " + path_ + " failed before and takes no more records");
    }
    if (const int failed = write_all(fd_, record); failed != 0) {
        // A torn record in the middle would hide everything after it from the reader.
        broken_ = ::ftruncate(fd_, good_bytes_) != 0;
        fail("cannot write", path_, failed);
    }
    if (const int failed = sync_file(fd_); failed != 0) {
        // After a failed sync nothing is known about the pages of this file.
        broken_ = true;
        fail("cannot flush", path_, failed);
    }
    good_bytes_ += static_cast<std::int64_t>(record.size());
}

std::int64_t read_journal(const std::string& path, const std::function<void(Record)>& visit) {
    std::ifstream file(path, std::ios::binary);
    if (!file) fail("cannot read", path, errno);
    std::error_code error;
    const auto file_bytes = static_cast<std::int64_t>(std::filesystem::file_size(path, error));
    if (error) fail("cannot read", path, error.value());

    std::array<char, 8> magic{};
    file.read(magic.data(), magic.size());
    const std::string_view start(magic.data(), static_cast<std::size_t>(file.gcount()));
    if (start != kMagic.substr(0, start.size())) {
        throw Error(ErrorSource::kUser, "not_a_journal", path + " is not an accelopt journal");
    }
    if (start.size() < kMagic.size()) return 0;

    auto good = static_cast<std::int64_t>(kMagic.size());
    std::array<char, kHeaderBytes> header{};
    std::string compressed;
    while (file.read(header.data(), header.size())) {
        const std::int64_t length = get_little_endian(header.data(), 4);
        const auto type = static_cast<std::uint16_t>(get_little_endian(header.data() + 4, 2));
        const bool plausible = get_little_endian(header.data() + 6, 2) == 0 &&
                               length <= file_bytes - good - std::int64_t{kHeaderBytes};
        if (!plausible) break;
        compressed.resize(static_cast<std::size_t>(length));
        if (!file.read(compressed.data(), length)) break;
        if (record_crc(type, compressed) != get_little_endian(header.data() + 8, 4)) break;
        Record record{static_cast<RecordType>(type), {}};
        if (!decompress(compressed, record.payload)) break;
        visit(std::move(record));
        good += std::int64_t{kHeaderBytes} + length;
    }
    return good;
}

std::vector<std::string> journal_files(const std::string& directory) {
    std::vector<std::string> paths;
    for (auto& journal : named_journals(directory)) paths.push_back(std::move(journal.path));
    return paths;
}

int next_launch(const std::string& directory) {
    const auto journals = named_journals(directory);
    return journals.empty() ? 0 : journals.back().launch + 1;
}

}  // namespace accelopt::store
