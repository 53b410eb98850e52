#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace accelopt::eval {

/// Arrays in one mapping, either anonymous memory or a cache file: one input tensor, or what the
/// reference makes of a set of inputs. Filled once, then read-only: a stray write faults instead of
/// changing a reference.
class ReferenceData {
  public:
    /// Anonymous memory. Throws std::bad_alloc.
    static std::shared_ptr<ReferenceData> allocate(const std::vector<std::int64_t>& array_bytes);
    /// A new file with all its blocks reserved, open to the owner only; nullptr when the disk has
    /// no room. Throws Error(kExternal, "reference_cache") for other failures.
    static std::shared_ptr<ReferenceData> create_file(const std::string& path,
                                                      const std::vector<std::int64_t>& array_bytes);
    /// Maps a complete file; nullptr when it is absent, torn, made for other sizes or another key,
    /// or fails its checksums.
    static std::shared_ptr<const ReferenceData> open_file(
        const std::string& path, const std::string& key,
        const std::vector<std::int64_t>& array_bytes);

    ~ReferenceData();
    ReferenceData(const ReferenceData&) = delete;
    ReferenceData& operator=(const ReferenceData&) = delete;

    std::size_t arrays() const { return offsets_.size(); }
    std::span<const float> array(std::size_t index) const;
    std::span<const std::uint16_t> words(std::size_t index) const;
    /// Only before seal().
    std::span<float> writable_array(std::size_t index);
    std::span<std::uint16_t> writable_words(std::size_t index);
    /// Writes the header with its checksums (when `key` is not empty) and makes the mapping
    /// read-only.
    void seal(const std::string& key);
    std::int64_t total_bytes() const { return total_bytes_; }

  private:
    ReferenceData(std::byte* base, const std::vector<std::int64_t>& array_bytes);

    std::uint64_t payload_checksum() const;
    bool header_matches(const std::string& key) const;

    std::byte* base_ = nullptr;
    std::int64_t total_bytes_ = 0;
    std::vector<std::int64_t> offsets_;
    std::vector<std::int64_t> bytes_;
};

}  // namespace accelopt::eval
