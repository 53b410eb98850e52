#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace accelopt {

/// Returns the SHA-256 of `bytes` as 64 lower-case hexadecimal digits (OpenSSL).
std::string sha256_hex(std::string_view bytes);

/// Returns a 64-bit hash made of the first 8 bytes of SHA-256; stable across machines.
std::uint64_t stable_hash64(std::string_view bytes);

/// Returns the CRC-32 (IEEE, zlib polynomial) of `bytes`.
std::uint32_t crc32(std::string_view bytes);

}  // namespace accelopt
