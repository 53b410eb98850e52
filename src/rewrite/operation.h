#pragma once

#include <string>

namespace accelopt::rewrite {

/// What an API call does to tiles, as far as rewrites care.
enum class CallKind {
    kElementwise,  ///< every element of the result depends on the same element of the operands
    kLoad,
    kStore,
    kReduce,  ///< along the free axis
    kMatmul,
    kTranspose,
    kFill,  ///< makes a constant tile
    kAllocate,
    kOther
};

/// Classifies a canonical callee ("nl.exp", "nisa.activation", ...).
CallKind call_kind(const std::string& path);

}  // namespace accelopt::rewrite
