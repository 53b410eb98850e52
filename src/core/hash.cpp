#include "core/hash.h"

#include <openssl/sha.h>

#include <array>

namespace accelopt {
namespace {

std::array<unsigned char, SHA256_DIGEST_LENGTH> sha256(std::string_view bytes) {
    std::array<unsigned char, SHA256_DIGEST_LENGTH> digest{};
    SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest.data());
    return digest;
}

std::array<std::uint32_t, 256> make_crc_table() {
    std::array<std::uint32_t, 256> table{};
    for (std::uint32_t i = 0; i < 256; ++i) {
        std::uint32_t c = i;
        for (int k = 0; k < 8; ++k) c = (c & 1U) ? 0xEDB88320U ^ (c >> 1U) : c >> 1U;
        table[i] = c;
    }
    return table;
}

}  // namespace

std::string sha256_hex(std::string_view bytes) {
    static constexpr char kDigits[] = "0123456789abcdef";
    std::string text;
    for (unsigned char byte : sha256(bytes)) {
        text += kDigits[byte >> 4];
        text += kDigits[byte & 15];
    }
    return text;
}

std::uint64_t stable_hash64(std::string_view bytes) {
    auto digest = sha256(bytes);
    std::uint64_t value = 0;
    for (int i = 0; i < 8; ++i) value = (value << 8) | digest[i];
    return value;
}

std::uint32_t crc32(std::string_view bytes) {
    static const auto kTable = make_crc_table();
    std::uint32_t c = 0xFFFFFFFFU;
    for (unsigned char byte : bytes) c = kTable[(c ^ byte) & 255U] ^ (c >> 8U);
    return c ^ 0xFFFFFFFFU;
}

}  // namespace accelopt
