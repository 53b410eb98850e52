#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace accelopt {

/// A counter-based random stream (Philox 4x32-10, Salmon et al., SC'11): the n-th draw is a pure
/// function of (key, n), so results do not depend on which rank draws or in what order.
class RandomStream {
  public:
    explicit RandomStream(std::uint64_t key) : key_(key) {}

    /// Builds the stream of a named purpose: key = stable hash of seed and `purpose`, where purpose
    /// spells every coordinate, e.g. "silu/round=3/candidate=ab12/plan=4/sample=0/planner".
    static RandomStream keyed(std::uint64_t seed, std::string_view purpose);

    /// Returns the next 32 uniformly distributed bits.
    std::uint32_t next_u32();
    /// Returns the next 64 uniformly distributed bits.
    std::uint64_t next_u64();
    /// Returns an unbiased integer in [0, bound); bound > 0.
    std::uint64_t below(std::uint64_t bound);
    /// Returns a double in [0, 1) with 53 random bits.
    double uniform();
    /// Returns a random permutation of 0..n-1 (Fisher-Yates).
    std::vector<std::size_t> permutation(std::size_t n);

  private:
    std::uint64_t key_;
    std::uint64_t counter_ = 0;
    std::uint32_t block_[4] = {};
    int used_ = 4;
};

}  // namespace accelopt
