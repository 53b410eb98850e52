#pragma once

#include "trainium/mechanism.h"
#include "trainium/stream.h"

namespace accelopt::trainium {

/// Finds the tiles that the kernel places on the same bytes of SBUF or of PSUM, directly or through
/// others (partitions are left out of account), and sets Tile::shares of each. Who writes such a
/// tile is kept as written: no other tile can stand for it, since what lies there gets overwritten.
void share_places(Stream& stream);

/// The box of an operand in the memory itself where its tile shares bytes with others, under the
/// name that all of them have; any other operand is returned as it is.
inline Operand physical(const Stream& stream, Operand operand) {
    const Tile& tile = stream.tiles[operand.tile];
    if (tile.shares < 0 || tile.slice >= 0) return operand;
    operand.tile = tile.shares;
    operand.partition_lo += tile.partition;
    operand.partition_hi += tile.partition;
    operand.byte_lo += tile.byte;
    operand.byte_hi += tile.byte;
    return operand;
}

/// Returns the passes that the compiler runs on a stream. Where the kernel allocates, it is a
/// direct allocation that the compiler keeps: nothing moves to other memory or is spilled.
Mechanisms allowed_passes(const Stream& stream, Mechanisms mechanisms);

}  // namespace accelopt::trainium
