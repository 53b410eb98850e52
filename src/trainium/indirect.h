#pragma once

#include <array>
#include <cstdint>

#include "nki/program.h"
#include "trainium/elementwise.h"
#include "trainium/iteration.h"
#include "trainium/written_map.h"

namespace accelopt::trainium::execution {

/// Thrown where an index known at run time only leaves its axis; caught by execute().
struct IndexOutOfBounds {
    std::int64_t index = 0;
    std::int64_t size = 0;
    int line = 0;
};

/// A gather or scatter bound to memory. `window` is the whole tile or tensor that is indexed
/// (strides unused), `dense` the operand that follows the space, `index` the indices.
struct Indirect {
    const nki::Operation* operation = nullptr;
    const nki::Extra* extra = nullptr;
    Operand window;
    Operand dense;
    std::array<Operand, 2> index;
    std::int64_t dense_offset = 0;  ///< of the first element of `dense` in its tensor
};

/// dense = window[index]. `written`, when not null, learns what was written. Throws
/// IndexOutOfBounds.
void run_gather(const Indirect& indirect, const Space& space, WrittenMap* written);
/// window[index] = dense, or += in float32, element after element. `written`, when not null, learns
/// what was written. Throws IndexOutOfBounds.
void run_scatter(const Indirect& indirect, const Space& space, WrittenMap* written);

/// Operations that know the position of an element: kRangeSelect, kRandom, kDropout. `sources` are
/// those of the operation, laid over the space.
void run_positional(const nki::Operation& operation, const nki::Extra& extra, const Space& space,
                    const std::array<Operand, 3>& sources, const Operand& threshold,
                    const Operand& target);

/// A number in [0, 1), a pure function of its arguments: 24 bits of a mixed 64-bit hash.
float uniform_at(std::uint64_t seed, std::uint64_t draw, std::int64_t position);

}  // namespace accelopt::trainium::execution
