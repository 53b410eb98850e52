#include "core/rng.h"

#include <string>
#include <utility>

#include "core/error.h"
#include "core/hash.h"

namespace accelopt {
namespace {

void philox4x32(std::uint64_t key, std::uint64_t counter, std::uint32_t out[4]) {
    std::uint32_t k0 = static_cast<std::uint32_t>(key);
    std::uint32_t k1 = static_cast<std::uint32_t>(key >> 32);
    std::uint32_t c[4] = {static_cast<std::uint32_t>(counter),
                          static_cast<std::uint32_t>(counter >> 32), 0, 0};
    for (int round = 0; round < 10; ++round) {
        const std::uint64_t p0 = 0xD2511F53ULL * c[0];
        const std::uint64_t p1 = 0xCD9E8D57ULL * c[2];
        const std::uint32_t n0 = static_cast<std::uint32_t>(p1 >> 32) ^ c[1] ^ k0;
        const std::uint32_t n2 = static_cast<std::uint32_t>(p0 >> 32) ^ c[3] ^ k1;
        c[1] = static_cast<std::uint32_t>(p1);
        c[3] = static_cast<std::uint32_t>(p0);
        c[0] = n0;
        c[2] = n2;
        k0 += 0x9E3779B9U;
        k1 += 0xBB67AE85U;
    }
    for (int i = 0; i < 4; ++i) out[i] = c[i];
}

}  // namespace

RandomStream RandomStream::keyed(std::uint64_t seed, std::string_view purpose) {
    return RandomStream(
        stable_hash64("accelopt-rng/" + std::to_string(seed) + "/" + std::string(purpose)));
}

std::uint32_t RandomStream::next_u32() {
    if (used_ == 4) {
        philox4x32(key_, counter_++, block_);
        used_ = 0;
    }
    return block_[used_++];
}

std::uint64_t RandomStream::next_u64() {
    const std::uint64_t high = next_u32();
    return (high << 32) | next_u32();
}

std::uint64_t RandomStream::below(std::uint64_t bound) {
    require(bound > 0, "RandomStream::below(0)");
    const std::uint64_t limit = UINT64_MAX - UINT64_MAX % bound;
    for (;;) {
        const std::uint64_t draw = next_u64();
        if (draw < limit) return draw % bound;
    }
}

double RandomStream::uniform() { return static_cast<double>(next_u64() >> 11) * 0x1.0p-53; }

std::vector<std::size_t> RandomStream::permutation(std::size_t n) {
    std::vector<std::size_t> order(n);
    for (std::size_t i = 0; i < n; ++i) order[i] = i;
    for (std::size_t i = n; i > 1; --i) std::swap(order[i - 1], order[below(i)]);
    return order;
}

}  // namespace accelopt
