#pragma once

#include <cstdint>
#include <vector>

#include "trainium/stream.h"

namespace accelopt::trainium {

/// Lists of int32 per node, as one array cut by `first`.
struct Adjacency {
    std::vector<std::int32_t> first;  ///< size nodes + 1
    std::vector<std::int32_t> items;
};

/// One life of a tile in SBUF or PSUM, from its first use to its last (or to its eviction).
struct Allocation {
    bool psum = false;
    std::int64_t size = 0;  ///< to be waited for. SBUF: bytes per partition; PSUM: banks; 0 where
                            ///< the kernel places the tile: it waits for who used the bytes before
    std::int64_t occupied = 0;  ///< the size of every tile, placed or not
    std::int32_t tile = -1;     ///< into Stream::tiles
    std::int32_t site = -1;     ///< for the rotation limit; -1 = none
    std::int32_t first_user = 0;
    std::int32_t last_user = 0;
    std::int32_t users = 0;  ///< nodes that use it
};

/// Who waits for whom: the input of the event simulation. Nodes are the instructions in program
/// order, followed where needed by joins: nodes without cost that stand for many dependencies.
struct Schedule {
    /// Longest list of accesses of one tile that is searched; longer ones are joined, which keeps
    /// the work per instruction bounded at the price of a stricter order.
    static constexpr std::size_t kMaxAccesses = 256;

    std::int32_t instructions = 0;
    std::int32_t nodes = 0;
    std::vector<std::int32_t> pending;  ///< per node: dependencies
    Adjacency after_result;             ///< successors that wait for the result
    Adjacency after_issue;  ///< successors that wait for the engine only (accumulation in PSUM)
    Adjacency after_allocation;  ///< per allocation: nodes that wait for nothing but its memory
    Adjacency uses;              ///< per node: allocations used
    std::vector<Allocation> allocations;   ///< in program order of first use
    std::vector<std::int32_t> site_limit;  ///< live SBUF allocations allowed; -1 = no limit
};

/// Finds dependencies (read after write, write after read, write after write, on boxes of bytes;
/// of the memory itself where the kernel places several tiles on the same bytes) and lifetimes.
/// Sites that DMAs touch may hold twice the tiles that program order needs, or
/// `rotation_extra_buffers` more where that is more.
Schedule make_schedule(const Stream& stream, const Machine& machine);

}  // namespace accelopt::trainium
