#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "nki/program.h"
#include "trainium/number_format.h"

namespace accelopt::trainium::execution {

/// A tile as dense rows: partitions by free elements.
struct Rows {
    std::byte* data = nullptr;
    NumberFormat format;
    std::int64_t rows = 0;
    std::int64_t columns = 0;
};

/// True when an operation moves elements or combines their bits: its first source and its result
/// have the format of the source's tensor. Those of other operations are float32.
bool moves_elements(const nki::Operation& operation);

/// Runs an operation whose operands have shapes of their own (not kGather and kScatter) on dense
/// operands. `extra` is that of the operation, or the default one.
void run_rows(const nki::Operation& operation, const nki::Extra& extra,
              std::span<const Rows> sources, const Rows& result);

}  // namespace accelopt::trainium::execution
