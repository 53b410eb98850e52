#include "eval/reference/reference_data.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <new>

#include "core/error.h"

namespace accelopt::eval {

namespace {

constexpr std::int64_t kPage = 4096;
constexpr char kMagic[8] = {'A', 'C', 'C', 'R', 'E', 'F', '1', '\n'};

/// First bytes of a cache file; the rest of the first page is zero.
struct Header {
    char magic[8];
    std::int64_t total_bytes;
    std::int64_t arrays;
    char key[64];
    std::uint64_t payload_checksum;
    std::uint64_t header_checksum;  ///< of everything above
};
static_assert(sizeof(Header) <= kPage);

/// Every byte of a mapping is touched at once, to fill or to check it: faulting all pages in as one
/// batch takes a fraction of the time of one fault per page.
constexpr int kPopulate = MAP_POPULATE;

std::int64_t page_up(std::int64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

std::int64_t mapping_bytes(const std::vector<std::int64_t>& array_bytes) {
    std::int64_t total = kPage;
    for (const std::int64_t bytes : array_bytes) total += page_up(bytes);
    return total;
}

/// A checksum against torn and rotten files, at memory speed: four multiplicative lanes over
/// 8-byte words. Not a defence against forgery (files are the owner's).
std::uint64_t fast_checksum(const std::byte* data, std::int64_t bytes) {
    constexpr std::uint64_t kPrime = 0x9E3779B97F4A7C15ull;
    std::uint64_t lanes[4] = {1, 2, 3, 4};
    std::int64_t at = 0;
    for (; at + 32 <= bytes; at += 32) {
        std::uint64_t words[4];
        std::memcpy(words, data + at, 32);
        for (int i = 0; i < 4; ++i) lanes[i] = std::rotl((lanes[i] ^ words[i]) * kPrime, 29);
    }
    std::uint64_t sum = static_cast<std::uint64_t>(bytes);
    for (; at < bytes; ++at) sum = (sum ^ static_cast<std::uint64_t>(data[at])) * kPrime;
    for (const std::uint64_t lane : lanes) sum = std::rotl((sum ^ lane) * kPrime, 31);
    return sum;
}

std::uint64_t checksum_of(const Header& header) {
    return fast_checksum(reinterpret_cast<const std::byte*>(&header),
                         offsetof(Header, header_checksum));
}

/// Closes a descriptor at the end of a scope; a mapping outlives its descriptor.
struct Descriptor {
    int fd;
    ~Descriptor() {
        if (fd >= 0) close(fd);
    }
};

[[noreturn]] void throw_io(const std::string& what, const std::string& path, int code) {
    throw Error(ErrorSource::kExternal, "reference_cache",
                "cannot " + what + " a reference cache file: " + std::strerror(code) + ": " + path,
                true);
}

}  // namespace

ReferenceData::ReferenceData(std::byte* base, const std::vector<std::int64_t>& array_bytes)
    : base_(base), total_bytes_(mapping_bytes(array_bytes)), bytes_(array_bytes) {
    std::int64_t offset = kPage;
    for (const std::int64_t bytes : array_bytes) {
        offsets_.push_back(offset);
        offset += page_up(bytes);
    }
}

ReferenceData::~ReferenceData() { munmap(base_, static_cast<std::size_t>(total_bytes_)); }

std::shared_ptr<ReferenceData> ReferenceData::allocate(
    const std::vector<std::int64_t>& array_bytes) {
    void* base = mmap(nullptr, static_cast<std::size_t>(mapping_bytes(array_bytes)),
                      PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | kPopulate, -1, 0);
    if (base == MAP_FAILED) throw std::bad_alloc();
    return std::shared_ptr<ReferenceData>(
        new ReferenceData(static_cast<std::byte*>(base), array_bytes));
}

std::shared_ptr<ReferenceData> ReferenceData::create_file(
    const std::string& path, const std::vector<std::int64_t>& array_bytes) {
    unlink(path.c_str());  // a left-over of a killed process
    const Descriptor file{open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600)};
    if (file.fd < 0) {
        if (errno == ENOSPC || errno == EDQUOT) return nullptr;
        throw_io("create", path, errno);
    }
    const std::int64_t total = mapping_bytes(array_bytes);
    // Blocks are reserved first: writing a hole of a full disk through a mapping would be fatal.
    const int reserved = posix_fallocate(file.fd, 0, total);
    if (reserved != 0) {
        unlink(path.c_str());
        if (reserved == ENOSPC || reserved == EDQUOT || reserved == EFBIG) return nullptr;
        throw_io("reserve room for", path, reserved);
    }
    void* base = mmap(nullptr, static_cast<std::size_t>(total), PROT_READ | PROT_WRITE,
                      MAP_SHARED | kPopulate, file.fd, 0);
    if (base == MAP_FAILED) {
        const int code = errno;
        unlink(path.c_str());
        throw_io("map", path, code);
    }
    return std::shared_ptr<ReferenceData>(
        new ReferenceData(static_cast<std::byte*>(base), array_bytes));
}

std::shared_ptr<const ReferenceData> ReferenceData::open_file(
    const std::string& path, const std::string& key, const std::vector<std::int64_t>& array_bytes) {
    const Descriptor file{open(path.c_str(), O_RDONLY | O_CLOEXEC)};
    struct stat status {};
    const std::int64_t total = mapping_bytes(array_bytes);
    if (file.fd < 0 || fstat(file.fd, &status) != 0 || status.st_size != total) return nullptr;
    void* base = mmap(nullptr, static_cast<std::size_t>(total), PROT_READ, MAP_SHARED | kPopulate,
                      file.fd, 0);
    if (base == MAP_FAILED) return nullptr;
    std::shared_ptr<ReferenceData> data(
        new ReferenceData(static_cast<std::byte*>(base), array_bytes));
    if (!data->header_matches(key)) return nullptr;
    return data;
}

std::span<const float> ReferenceData::array(std::size_t index) const {
    return {reinterpret_cast<const float*>(base_ + offsets_.at(index)),
            static_cast<std::size_t>(bytes_.at(index)) / sizeof(float)};
}

std::span<const std::uint16_t> ReferenceData::words(std::size_t index) const {
    return {reinterpret_cast<const std::uint16_t*>(base_ + offsets_.at(index)),
            static_cast<std::size_t>(bytes_.at(index)) / sizeof(std::uint16_t)};
}

std::span<std::uint16_t> ReferenceData::writable_words(std::size_t index) {
    return {reinterpret_cast<std::uint16_t*>(base_ + offsets_.at(index)),
            static_cast<std::size_t>(bytes_.at(index)) / sizeof(std::uint16_t)};
}

std::span<float> ReferenceData::writable_array(std::size_t index) {
    return {reinterpret_cast<float*>(base_ + offsets_.at(index)),
            static_cast<std::size_t>(bytes_.at(index)) / sizeof(float)};
}

std::uint64_t ReferenceData::payload_checksum() const {
    return fast_checksum(base_ + kPage, total_bytes_ - kPage);
}

void ReferenceData::seal(const std::string& key) {
    if (!key.empty()) {
        Header header{};
        std::memcpy(header.magic, kMagic, sizeof kMagic);
        header.total_bytes = total_bytes_;
        header.arrays = static_cast<std::int64_t>(offsets_.size());
        std::memcpy(header.key, key.data(), std::min(key.size(), sizeof header.key));
        header.payload_checksum = payload_checksum();
        header.header_checksum = checksum_of(header);
        std::memcpy(base_, &header, sizeof header);
    }
    require(mprotect(base_, static_cast<std::size_t>(total_bytes_), PROT_READ) == 0,
            "cannot make a reference read-only");
}

bool ReferenceData::header_matches(const std::string& key) const {
    Header header{};
    std::memcpy(&header, base_, sizeof header);
    return std::memcmp(header.magic, kMagic, sizeof kMagic) == 0 &&
           header.header_checksum == checksum_of(header) && header.total_bytes == total_bytes_ &&
           header.arrays == static_cast<std::int64_t>(offsets_.size()) &&
           key == std::string(header.key, strnlen(header.key, sizeof header.key)) &&
           header.payload_checksum == payload_checksum();
}

}  // namespace accelopt::eval
