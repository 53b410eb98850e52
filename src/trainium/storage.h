#pragma once

#include <cstddef>
#include <cstdint>

#include "nki/program.h"
#include "trainium/output_bytes.h"
#include "trainium/written_map.h"

namespace accelopt::trainium::execution {

class BlockPool;

/// Where the arrays of an execution live. A view names an array by its tensor, which says how the
/// array is laid out, and its block; what the two mean beyond that is the storage's business.
class Storage {
  public:
    virtual ~Storage() = default;

    /// Layout of the arrays of a tensor.
    virtual const nki::Tensor& tensor(nki::TensorId tensor) const = 0;
    /// Returns an array for reading; poisoned where nothing was written yet.
    virtual std::byte* read(nki::TensorId tensor, std::int64_t block, int line) = 0;
    /// The same for writing; `whole` tells that every element will be written at once. Throws
    /// Error(kInternal) for an input or a constant.
    virtual std::byte* write(nki::TensorId tensor, std::int64_t block, bool whole, int line) = 0;
    /// Poisons the elements of an output that `map` says were never written.
    virtual void fill_gaps(nki::TensorId output, const WrittenMap& map) = 0;
    /// The array of an output; moved out by the caller at the end. Throws Error(kInternal) for a
    /// tensor of another role.
    virtual OutputBytes& output(nki::TensorId tensor) = 0;
    /// Scratch memory under the limit of the execution.
    virtual BlockPool& pool() = 0;
};

}  // namespace accelopt::trainium::execution
