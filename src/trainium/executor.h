#pragma once

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "nki/program.h"
#include "trainium/elementwise.h"
#include "trainium/execute.h"
#include "trainium/matmul.h"
#include "trainium/operands.h"
#include "trainium/storage.h"
#include "trainium/tile_memory.h"
#include "trainium/written_map.h"

namespace accelopt::trainium::execution {

/// What one operation read and left behind, as hashes of the bytes in iteration order.
struct Fingerprint {
    std::vector<std::uint64_t> reads;  ///< in the order of for_each_read
    std::uint64_t result = 0;
};

/// Runs operations one at a time on the arrays of a storage, in whatever order they are given.
class Executor {
  public:
    /// Throws Error(kInternal) for an output that is no tensor.
    Executor(const nki::Program& program, Storage& storage);

    /// Runs one operation; a fully masked one does nothing. Takes the fingerprint of its operands
    /// and its result when one is asked for.
    void run(const nki::Operation& operation, Fingerprint* fingerprint = nullptr);

    /// Takes the outputs in the order the kernel returns them, poisoned where nothing was stored.
    std::vector<OutputArray> take_outputs();

  private:
    /// An output, which holds zeros where nothing was stored until somebody looks.
    struct Output {
        WrittenMap written;
        bool poisoned = false;
    };

    void poison(nki::TensorId tensor);
    void compute(const nki::Operation& operation);
    Operand bind(const Access& access, std::byte* array) const;
    Operand target(const nki::Operation& operation);
    Operand source(const nki::Operation& operation, const Access& access, const Space& space);
    Operand source(const nki::Operation& operation, int k);
    Operand scalar(const nki::Operation& operation, const nki::ScalarOperand& operand,
                   const Access& access);
    Operand densely(const Operand& operand, const Space& space, const NumberFormat& format,
                    bool clear);
    std::uint64_t hash_of(const Access& access, const Space& space);
    void add_activation(Chain& chain, const nki::Operation& operation);
    void elementwise(const nki::Operation& operation);
    void reduce(const nki::Operation& operation);
    void scan(const nki::Operation& operation);
    // Operations whose operands have spaces of their own, or that know positions
    // (executor_apart.cpp).
    const nki::Extra& extra_of(const nki::Operation& operation) const;
    void indirect(const nki::Operation& operation);
    WrittenMap* written_map(const nki::Operation& operation);
    void positional(const nki::Operation& operation);
    void rows(const nki::Operation& operation);
    Matrix matrix_of(const Operand& operand, const Space& space);
    void matmul(const nki::Operation& operation);
    void require_onezero(const nki::Operation& operation, int k, const Matrix& matrix) const;

    const nki::Program& program_;
    Storage& storage_;
    std::map<nki::TensorId, Output> outputs_;
    std::vector<std::unique_ptr<ScratchBlock>> scratch_;  ///< of the current operation
    Resolved resolved_;
    int line_ = 0;
};

/// Row-major strides of a space.
Extents dense_strides(const Space& space);

/// The rejected/tensor_access_out_of_bound finding of an index that only the data decide.
struct IndexOutOfBounds;
nki::Finding index_finding(const IndexOutOfBounds& outside);

/// Thrown where an operand that the source declares to hold ones and zeros holds something else;
/// caught where IndexOutOfBounds is.
struct NotOneZero {
    const char* operand = "";
    double value = 0;
    int line = 0;
};
/// The rejected/not_onezero finding.
nki::Finding onezero_finding(const NotOneZero& broken);

/// The resource_limit/memory finding of an execution that ran out of memory.
nki::Finding memory_finding(const MemoryExhausted& exhausted, const ExecutionLimits& limits);

/// Runs `body`, and makes a finding of whatever an execution is ended by.
template <typename Body>
Result<std::vector<OutputArray>, nki::Finding> with_findings(const ExecutionLimits& limits,
                                                             Body body) {
    try {
        return body();
    } catch (const MemoryExhausted& exhausted) {
        return Failure{memory_finding(exhausted, limits)};
    } catch (const IndexOutOfBounds& outside) {
        return Failure{index_finding(outside)};
    } catch (const NotOneZero& broken) {
        return Failure{onezero_finding(broken)};
    } catch (const std::bad_alloc&) {
        return Failure{memory_finding({}, limits)};
    }
}

}  // namespace accelopt::trainium::execution
