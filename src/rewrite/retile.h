#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/result.h"
#include "rewrite/kernel.h"

namespace accelopt::rewrite {

/// A loop that walks over neighbouring slices of the free dimension and treats every element of a
/// slice alike, so that fewer, wider slices compute the same.
struct TiledLoop {
    nki::Stmt* loop = nullptr;
    LoopRange range;
    std::int64_t width = 0;            ///< elements of one slice
    bool by_offset = false;            ///< the loop variable is the offset itself (range(0, n, w))
    bool touches_hbm = false;          ///< slices are loaded or stored in this loop
    std::set<std::string> wide_names;  ///< tiles of that width
    int elementwise_operations = 0;    ///< on wide tiles, per iteration
    bool has_parts = false;            ///< inner loops walk over parts of a slice
};

/// Says how `loop` is tiled, or why it may not be widened.
Result<TiledLoop, std::string> analyse_tiling(Kernel& kernel, nki::Stmt& loop);

/// Makes the slices `factor` times wider. The kernel is unchanged on failure only in the sense that
/// the caller must drop it. The result is checked: every statement does what it did, on wider
/// slices, and nothing else changed.
Result<Kernel, std::string> widen(Kernel kernel, const std::vector<std::size_t>& loop_path,
                                  std::int64_t factor);

/// Position of a statement as indices into nested blocks, stable across clones.
std::vector<std::size_t> path_to(Kernel& kernel, const nki::Stmt& stmt);
nki::Stmt* at_path(Kernel& kernel, const std::vector<std::size_t>& path);

}  // namespace accelopt::rewrite
