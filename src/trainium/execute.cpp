#include "trainium/execute.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <new>

#include "core/error.h"
#include "trainium/bounds.h"
#include "trainium/elementwise.h"
#include "trainium/indirect.h"
#include "trainium/matmul.h"
#include "trainium/operands.h"
#include "trainium/reduction.h"
#include "trainium/row_operations.h"
#include "trainium/tile_memory.h"
#include "trainium/written_map.h"

namespace accelopt::trainium {
namespace execution {

using nki::AluOp;
using nki::DType;
using nki::Opcode;
using nki::Operation;
using Kind = ChainStep::Kind;

namespace {

/// Row-major strides of a space.
Extents dense_strides(const Space& space) {
    Extents stride{};
    std::int64_t step = 1;
    for (int d = space.rank - 1; d >= 0; --d) {
        stride[d] = step;
        step *= space.count[d];
    }
    return stride;
}

/// The number that turns x into ~x by exclusive or, for a dtype.
double inversion_mask(DType dtype) {
    if (dtype == DType::kBool) return 1;
    const bool is_unsigned = is_integer(dtype) && integer_min(dtype) == 0;
    return is_unsigned ? static_cast<double>(integer_max(dtype)) : -1.0;
}

/// Runs the operations of one program on one set of inputs.
class Executor {
  public:
    Executor(const nki::Program& program, const TileTable& tiles,
             std::span<const InputArray> inputs, const ExecutionLimits& limits)
        : program_(program), memory_(program, tiles, inputs, limits.memory_bytes) {
        for (const nki::TensorId id : program.outputs) {
            if (id < 0 || static_cast<std::size_t>(id) >= program.tensors.size()) {
                throw Error(ErrorSource::kInternal, "output", "an output that is no tensor");
            }
            const auto [output, made] =
                outputs_.try_emplace(id, Output{map_of(program.tensors[id])});
            if (program.tensors[id].is_mutable_parameter()) output->second.written.write_all();
        }
    }

    void run() {
        const auto count = static_cast<std::int64_t>(program_.operations.size());
        for (std::int64_t i = 0; i < count; ++i) {
            run_operation(program_.operations[i]);
            scratch_.clear();
            memory_.release(i);
        }
    }

    std::vector<OutputArray> take_outputs() {
        std::vector<OutputArray> arrays;
        for (const nki::TensorId id : program_.outputs) {
            const nki::Tensor& tensor = program_.tensors[id];
            OutputArray array;
            array.dtype = tensor.dtype;
            array.shape = tensor.shape;
            array.unwritten_elements = outputs_.at(id).written.unwritten();
            poison(id);
            const bool again = std::count(program_.outputs.begin(), program_.outputs.end(), id) > 1;
            array.bytes = again ? memory_.output(id) : std::move(memory_.output(id));
            arrays.push_back(std::move(array));
        }
        return arrays;
    }

  private:
    /// An output, which holds zeros where nothing was stored until somebody looks.
    struct Output {
        WrittenMap written;
        bool poisoned = false;
    };

    void poison(nki::TensorId tensor) {
        const auto found = outputs_.find(tensor);
        if (found == outputs_.end() || found->second.poisoned) return;
        memory_.fill_gaps(tensor, found->second.written);
        found->second.poisoned = true;
    }

    void run_operation(const Operation& operation) {
        resolve(operation, resolved_);
        const Space& target_space = resolved_.target_space(operation);
        if (resolved_.space.empty || target_space.empty) return;
        line_ = operation.line;
        require_inside(resolved_.target, target_space, program_.tensors[resolved_.target.tensor],
                       operation);
        compute(operation);
        const auto found = outputs_.find(resolved_.target.tensor);
        if (found != outputs_.end() && operation.opcode != Opcode::kScatter)
            found->second.written.write(resolved_.target, target_space);
    }

    void compute(const Operation& operation) {
        switch (operation.opcode) {
            case Opcode::kReduce:
                return reduce(operation);
            case Opcode::kScan:
                return scan(operation);
            case Opcode::kMatmul:
                return matmul(operation);
            case Opcode::kIota:
                return write_iota(operation.operand0.immediate, operation.iota, resolved_.space,
                                  target(operation));
            case Opcode::kGather:
            case Opcode::kScatter:
                return indirect(operation);
            case Opcode::kRangeSelect:
            case Opcode::kRandom:
            case Opcode::kDropout:
                return positional(operation);
            default:
                if (nki::has_own_spaces(operation.opcode)) return rows(operation);
                return elementwise(operation);
        }
    }

    const nki::Extra& extra_of(const Operation& operation) const {
        static const nki::Extra kNone;
        return operation.extra < 0 ? kNone : program_.extras.at(operation.extra);
    }

    void indirect(const Operation& operation) {
        Indirect work;
        work.operation = &operation;
        work.extra = &extra_of(operation);
        for (int k = 1; k < source_count(operation); ++k) work.index[k - 1] = source(operation, k);
        if (operation.opcode == Opcode::kGather) {
            work.window = source(operation, 0);
            work.dense = target(operation);
            return run_gather(work, resolved_.space);
        }
        work.dense = source(operation, 0);
        if (operation.op0 != AluOp::kNone) poison(resolved_.target.tensor);
        const Access& access = resolved_.target;
        work.window = bind(access, memory_.write(access.tensor, access.block, false, line_));
        const auto found = outputs_.find(access.tensor);
        run_scatter(work, resolved_.space,
                    found == outputs_.end() ? nullptr : &found->second.written);
    }

    void positional(const Operation& operation) {
        std::array<Operand, 3> sources;
        for (int k = 0; k < source_count(operation); ++k) sources[k] = source(operation, k);
        const Operand threshold = scalar(operation, operation.operand1, resolved_.operand1);
        run_positional(operation, extra_of(operation), resolved_.space, sources, threshold,
                       target(operation));
    }

    /// Operations on whole rows work on dense copies.
    void rows(const Operation& operation) {
        const bool moves = moves_elements(operation);
        const auto dense = [&](const Operand& operand, const Space& space, bool own_format) {
            const NumberFormat form = own_format ? operand.format : NumberFormat{};
            const std::int64_t partitions = space.rank > 0 ? space.count[0] : 1;
            return Rows{densely(operand, space, form, false).data, form, partitions,
                        space.size() / std::max<std::int64_t>(1, partitions)};
        };
        std::array<Rows, 3> sources;
        const int count = source_count(operation);
        for (int k = 0; k < count; ++k) {
            const Space& space = resolved_.source_space(operation, k);
            // Indices are integers, and stay exact as such.
            const bool index = moves && k == 1;
            sources[k] = dense(source(operation, k), space, index || (moves && k == 0));
        }
        const Space& space = resolved_.result_space;
        const Operand out = target(operation);
        Operand made;
        made.stride = dense_strides(space);
        if (operation.accumulate) {
            made = densely(out, space, out.format, false);
        } else {
            made.format = moves ? sources[0].format : NumberFormat{};
            made.data =
                scratch_
                    .emplace_back(std::make_unique<ScratchBlock>(
                        memory_.pool(), space.size() * storage_bytes(made.format.storage), line_))
                    ->data();
        }
        const std::int64_t partitions = space.rank > 0 ? space.count[0] : 1;
        run_rows(operation, extra_of(operation), {sources.data(), static_cast<std::size_t>(count)},
                 Rows{made.data, made.format, partitions,
                      space.size() / std::max<std::int64_t>(1, partitions)});
        Chain chain;
        chain.add_operand(made);
        run_chain(chain, space, out);
    }

    Operand bind(const Access& access, std::byte* array) const {
        Operand operand;
        operand.format = memory_.format(access.tensor);
        operand.stride = access.stride;
        operand.data = array + access.offset * storage_bytes(operand.format.storage);
        return operand;
    }

    Operand target(const Operation& operation) {
        const Access& access = resolved_.target;
        const Space& space = resolved_.target_space(operation);
        const nki::Tensor& tensor = program_.tensors[access.tensor];
        bool whole = space.coupled.empty() && operation.opcode != Opcode::kReduce &&
                     !operation.accumulate &&
                     space.size() == tensor.partitions * tensor.free_elements;
        for (int d = 0; whole && d < space.rank; ++d) {
            whole = space.count[d] == 1 || access.stride[d] != 0;
        }
        return bind(access, memory_.write(access.tensor, access.block, whole, line_));
    }

    /// Binds what an operation reads. A source that shares elements with the destination, but not
    /// one by one, is copied first: engines read their operands before they write.
    Operand source(const Operation& operation, const Access& access, const Space& space) {
        const nki::Tensor& tensor = program_.tensors[access.tensor];
        require_inside(access, space, tensor, operation);
        poison(access.tensor);
        const Operand operand = bind(access, memory_.read(access.tensor, access.block, line_));
        const Space& target_space = resolved_.target_space(operation);
        if (!may_overlap(resolved_.target, target_space, access, space, tensor.free_elements)) {
            return operand;
        }
        const bool one_by_one = operation.opcode != Opcode::kReduce &&
                                operation.opcode != Opcode::kMatmul &&
                                !nki::has_own_spaces(operation.opcode);
        if (one_by_one && coincide(resolved_.target, access, space)) return operand;
        return densely(operand, space, operand.format, false);
    }

    /// Copies an operand to scratch memory in row-major order.
    Operand densely(const Operand& operand, const Space& space, const NumberFormat& format,
                    bool clear) {
        Operand copy;
        copy.format = format;
        copy.stride = dense_strides(space);
        const std::int64_t bytes = space.size() * storage_bytes(format.storage);
        copy.data =
            scratch_.emplace_back(std::make_unique<ScratchBlock>(memory_.pool(), bytes, line_))
                ->data();
        if (clear) std::fill_n(copy.data, bytes, std::byte{0});
        Chain chain;
        chain.add_operand(operand);
        run_chain(chain, space, copy);
        return copy;
    }

    Operand scalar(const Operation& operation, const nki::ScalarOperand& operand,
                   const Access& access) {
        if (!operand.vector) return Operand::of(operand.immediate);
        return source(operation, access, resolved_.space);
    }

    Operand source(const Operation& operation, int k) {
        return source(operation, resolved_.source[k], resolved_.source_space(operation, k));
    }

    static void add_binary(Chain& chain, AluOp op, bool reverse, const Operand& operand) {
        if (op == AluOp::kNone || (op == AluOp::kBypass && !reverse)) return;
        ChainStep step;
        step.kind = reverse ? Kind::kReversed : Kind::kBinary;
        step.op = op;
        step.operand = chain.add_operand(operand);
        chain.add_step(step);
    }

    static void add_unary(Chain& chain, nki::ActFunction function) {
        ChainStep step;
        step.function = function;
        chain.add_step(step);
    }

    void add_activation(Chain& chain, const Operation& operation) {
        if (operation.scale.vector || operation.scale.immediate != 1.0) {
            add_binary(chain, AluOp::kMultiply, false,
                       scalar(operation, operation.scale, resolved_.scale));
        }
        if (operation.bias.vector || operation.bias.immediate != 0.0) {
            add_binary(chain, AluOp::kAdd, false,
                       scalar(operation, operation.bias, resolved_.bias));
        }
        if (operation.function == nki::ActFunction::kInvert && chain.step_count == 0) {
            // Bits of integers stay integers.
            add_binary(chain, AluOp::kBitwiseXor, false,
                       Operand::of(inversion_mask(chain.operands[0].format.value)));
        } else if (operation.function != nki::ActFunction::kCopy) {
            add_unary(chain, operation.function);
        }
    }

    void elementwise(const Operation& operation) {
        Chain chain;
        chain.add_operand(operation.opcode == Opcode::kMemset
                              ? Operand::of(operation.operand0.immediate)
                              : source(operation, 0));
        switch (operation.opcode) {
            case Opcode::kActivation:
                add_activation(chain, operation);
                break;
            case Opcode::kTensorScalar:
                add_binary(chain, operation.op0, operation.reverse0,
                           scalar(operation, operation.operand0, resolved_.operand0));
                add_binary(chain, operation.op1, operation.reverse1,
                           scalar(operation, operation.operand1, resolved_.operand1));
                break;
            case Opcode::kTensorTensor:
                add_binary(chain, operation.op0, operation.reverse0, source(operation, 1));
                break;
            case Opcode::kScalarTensorTensor:
                add_binary(chain, operation.op0, operation.reverse0,
                           scalar(operation, operation.operand0, resolved_.operand0));
                add_binary(chain, operation.op1, operation.reverse1, source(operation, 1));
                break;
            case Opcode::kReciprocal:
                add_unary(chain, nki::ActFunction::kReciprocal);
                break;
            case Opcode::kSelect: {
                ChainStep step;
                step.kind = Kind::kSelect;
                step.operand = chain.add_operand(source(operation, 1));
                chain.add_operand(source(operation, 2));
                chain.add_step(step);
                break;
            }
            default:
                break;  // memory traffic, transposes and broadcasts only copy
        }
        run_chain(chain, resolved_.space, target(operation));
    }

    void reduce(const Operation& operation) {
        const Operand from = source(operation, 0);
        run_reduce(operation.op0, operation.negate, operation.axes, resolved_.space, from,
                   target(operation));
    }

    void scan(const Operation& operation) {
        Scan scan;
        scan.op0 = operation.op0;
        scan.op1 = operation.op1;
        scan.reverse0 = operation.reverse0;
        scan.reverse1 = operation.reverse1;
        scan.a = source(operation, 0);
        scan.b = source(operation, 1);
        scan.initial = scalar(operation, operation.operand0, resolved_.operand0);
        run_scan(scan, resolved_.space, target(operation));
    }

    /// Reads an operand of a product as a float matrix of partitions by free elements, in place
    /// when it lies regularly.
    Matrix matrix_of(const Operand& operand, const Space& space) {
        Operand lying = operand;
        Space flat = space;
        const bool is_plain = operand.format.storage == DType::kFloat32 && space.coupled.empty();
        if (is_plain) {
            if (const auto matrix = flatten(lying, flat); matrix && matrix->regular()) {
                return *matrix;
            }
        }
        // Elements that a mask leaves out contribute nothing.
        lying = densely(operand, space, NumberFormat{}, !space.coupled.empty());
        flat.coupled.clear();
        return *flatten(lying, flat);
    }

    /// The operand as a matrix, if one stride leads through its free dims.
    static std::optional<Matrix> flatten(const Operand& operand, const Space& space) {
        Matrix matrix;
        matrix.data = reinterpret_cast<float*>(operand.data);
        matrix.rows = space.rank > 0 ? space.count[0] : 1;
        Extents count{};
        Extents stride{};
        int rank = 0;
        for (int d = 1; d < space.rank; ++d, ++rank) {
            count[rank] = space.count[d];
            stride[rank] = operand.stride[d];
        }
        Extents* strides[] = {&stride};
        collapse(rank, count, strides, 1);
        if (rank > 1) return std::nullopt;
        matrix.columns = rank == 1 ? count[0] : 1;
        matrix.column_stride = rank == 1 ? stride[0] : 1;
        matrix.row_stride = matrix.rows > 1 ? operand.stride[0] : matrix.columns;
        return matrix;
    }

    void matmul(const Operation& operation) {
        const Space& result_space = resolved_.result_space;
        const Matrix stationary =
            matrix_of(source(operation, resolved_.source[0], resolved_.space), resolved_.space);
        const Matrix moving = matrix_of(
            source(operation, resolved_.source[1], resolved_.moving_space), resolved_.moving_space);
        const Matrix left{stationary.data, stationary.columns, stationary.rows,
                          stationary.column_stride, stationary.row_stride};
        const Operand result = target(operation);
        if (result.format == NumberFormat{}) {
            const auto matrix = flatten(result, result_space);
            if (matrix && matrix->column_stride == 1 && matrix->regular()) {
                return multiply_matrices(left, moving, *matrix, operation.accumulate);
            }
        }
        const Operand sum = densely(result, result_space, NumberFormat{}, false);
        multiply_matrices(left, moving, *flatten(sum, result_space), operation.accumulate);
        Chain chain;
        chain.add_operand(sum);
        run_chain(chain, result_space, result);
    }

    const nki::Program& program_;
    TileMemory memory_;
    std::map<nki::TensorId, Output> outputs_;
    std::vector<std::unique_ptr<ScratchBlock>> scratch_;  ///< of the current operation
    Resolved resolved_;
    int line_ = 0;
};

nki::Finding memory_finding(const MemoryExhausted& exhausted, const ExecutionLimits& limits) {
    nki::Finding finding;
    finding.outcome = "resource_limit";
    finding.code = "memory";
    finding.message = fmt::format(
        "the values of the kernel need {} more bytes than the memory limit of {} bytes leaves",
        exhausted.bytes_wanted, limits.memory_bytes);
    finding.line = exhausted.line;
    finding.limit = limits.memory_bytes;
    finding.remedy = "use smaller HBM scratch tensors or fewer tiles at a time";
    return finding;
}

nki::Finding index_finding(const IndexOutOfBounds& outside) {
    nki::Finding finding;
    finding.outcome = "rejected";
    finding.code = "tensor_access_out_of_bound";
    finding.message =
        fmt::format("an index read from a tensor is {}, the axis it indexes has {} elements",
                    outside.index, outside.size);
    finding.line = outside.line;
    finding.limit = outside.size;
    finding.remedy = "correct the indices, or pass oob_mode=nisa.oob_mode.skip to nisa.dma_copy";
    return finding;
}

}  // namespace
}  // namespace execution

Result<std::vector<OutputArray>, nki::Finding> execute(const nki::Program& program,
                                                       std::span<const InputArray> inputs,
                                                       const ExecutionLimits& limits) {
    const execution::SingleThread single_thread;
    const execution::TileTable tiles(program);
    try {
        execution::Executor executor(program, tiles, inputs, limits);
        executor.run();
        return executor.take_outputs();
    } catch (const execution::MemoryExhausted& exhausted) {
        return Failure{execution::memory_finding(exhausted, limits)};
    } catch (const execution::IndexOutOfBounds& outside) {
        return Failure{execution::index_finding(outside)};
    } catch (const std::bad_alloc&) {
        return Failure{execution::memory_finding({}, limits)};
    }
}

}  // namespace accelopt::trainium
