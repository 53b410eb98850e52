#pragma once

#include <cstdint>
#include <vector>

#include "nki/api.h"

/// What the reductions of the API share.
namespace accelopt::nki::interp::api {

/// Reads the `axis` argument: the free axes to reduce, as bits. An instruction takes the last axes
/// without gaps; for the functions of nki.language the compiler orders the axes.
std::uint8_t reduce_axes(const ApiCall& call, int k, const Tile& tile, bool instruction = false);
/// Shape of a reduction's result: the kept dims, at least [P, 1].
std::vector<std::int64_t> reduced_shape(const Tile& tile, std::uint8_t axes, bool keepdims);
/// How many elements become one under the mask of the call, which must then cut a box off.
std::int64_t reduced_count(ApiCall& call, const Tile& tile, std::uint8_t axes);

}  // namespace accelopt::nki::interp::api
