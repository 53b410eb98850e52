#include "trainium/executor.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"
#include "trainium/bounds.h"
#include "trainium/reduction.h"

namespace accelopt::trainium::execution {

using nki::AluOp;
using nki::DType;
using nki::Opcode;
using nki::Operation;
using Kind = ChainStep::Kind;

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

namespace {

/// The number that turns x into ~x by exclusive or, for a dtype.
double inversion_mask(DType dtype) {
    if (dtype == DType::kBool) return 1;
    const bool is_unsigned = is_integer(dtype) && integer_min(dtype) == 0;
    return is_unsigned ? static_cast<double>(integer_max(dtype)) : -1.0;
}

void add_binary(Chain& chain, AluOp op, bool reverse, const Operand& operand) {
    if (op == AluOp::kNone || (op == AluOp::kBypass && !reverse)) return;
    ChainStep step;
    step.kind = reverse ? Kind::kReversed : Kind::kBinary;
    step.op = op;
    step.operand = chain.add_operand(operand);
    chain.add_step(step);
}

void add_unary(Chain& chain, nki::ActFunction function) {
    ChainStep step;
    step.function = function;
    chain.add_step(step);
}

/// The operand as a matrix, if one stride leads through its free dims.
std::optional<Matrix> flatten(const Operand& operand, const Space& space) {
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

std::uint64_t hash_bytes(const std::byte* data, std::size_t n) {
    std::uint64_t hash = 0xCBF29CE484222325u;
    for (std::size_t i = 0; i < n; ++i) {
        hash = (hash ^ static_cast<std::uint64_t>(data[i])) * 0x100000001B3u;
    }
    return hash;
}

}  // namespace

Executor::Executor(const nki::Program& program, Storage& storage)
    : program_(program), storage_(storage) {
    for (const nki::TensorId id : program.outputs) {
        if (id < 0 || static_cast<std::size_t>(id) >= program.tensors.size()) {
            throw Error(ErrorSource::kInternal, "output", "an output that is no tensor");
        }
        const auto [output, made] = outputs_.try_emplace(id, Output{map_of(program.tensors[id])});
        if (program.tensors[id].is_mutable_parameter()) output->second.written.write_all();
    }
}

void Executor::run(const Operation& operation, Fingerprint* fingerprint) {
    resolve(operation, resolved_);
    const Space& target_space = resolved_.target_space(operation);
    if (resolved_.space.empty || target_space.empty) return;
    line_ = operation.line;
    require_inside(resolved_.target, target_space, storage_.tensor(resolved_.target.tensor),
                   operation);
    if (fingerprint != nullptr) {
        for_each_read(operation, resolved_, [&](const Reference& read) {
            fingerprint->reads.push_back(hash_of(read.access, *read.space));
        });
    }
    compute(operation);
    const auto found = outputs_.find(resolved_.target.tensor);
    if (found != outputs_.end() && !writes_by_data(operation))
        found->second.written.write(resolved_.target, target_space);
    if (fingerprint != nullptr) fingerprint->result = hash_of(resolved_.target, target_space);
    scratch_.clear();
}

/// Hashes the elements of an access in iteration order, those that a mask leaves out as zeros.
std::uint64_t Executor::hash_of(const Access& access, const Space& space) {
    poison(access.tensor);
    const Operand operand = bind(access, storage_.read(access.tensor, access.block, line_));
    const Operand copy = densely(operand, space, operand.format, true);
    const auto bytes =
        static_cast<std::size_t>(space.size() * storage_bytes(operand.format.storage));
    return hash_bytes(copy.data, bytes);
}

std::vector<OutputArray> Executor::take_outputs() {
    std::vector<OutputArray> arrays;
    for (const nki::TensorId id : program_.outputs) {
        const nki::Tensor& tensor = program_.tensors[id];
        OutputArray array;
        array.dtype = tensor.dtype;
        array.shape = tensor.shape;
        array.unwritten_elements = outputs_.at(id).written.unwritten();
        poison(id);
        const bool again = std::count(program_.outputs.begin(), program_.outputs.end(), id) > 1;
        array.bytes = again ? storage_.output(id) : std::move(storage_.output(id));
        arrays.push_back(std::move(array));
    }
    return arrays;
}

void Executor::poison(nki::TensorId tensor) {
    const auto found = outputs_.find(tensor);
    if (found == outputs_.end() || found->second.poisoned) return;
    storage_.fill_gaps(tensor, found->second.written);
    found->second.poisoned = true;
}

void Executor::compute(const Operation& operation) {
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

Operand Executor::bind(const Access& access, std::byte* array) const {
    Operand operand;
    operand.format = format_of(storage_.tensor(access.tensor));
    operand.stride = access.stride;
    operand.data = array + access.offset * storage_bytes(operand.format.storage);
    return operand;
}

Operand Executor::target(const Operation& operation) {
    const Access& access = resolved_.target;
    const Space& space = resolved_.target_space(operation);
    const nki::Tensor& tensor = storage_.tensor(access.tensor);
    bool whole = space.coupled.empty() && operation.opcode != Opcode::kReduce &&
                 !operation.accumulate && space.size() == tensor.partitions * tensor.free_elements;
    for (int d = 0; whole && d < space.rank; ++d) {
        whole = space.count[d] == 1 || access.stride[d] != 0;
    }
    return bind(access, storage_.write(access.tensor, access.block, whole, line_));
}

/// Binds what an operation reads. A source that shares elements with the destination, but not
/// one by one, is copied first: engines read their operands before they write.
Operand Executor::source(const Operation& operation, const Access& access, const Space& space) {
    const nki::Tensor& tensor = storage_.tensor(access.tensor);
    require_inside(access, space, tensor, operation);
    poison(access.tensor);
    const Operand operand = bind(access, storage_.read(access.tensor, access.block, line_));
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
Operand Executor::densely(const Operand& operand, const Space& space, const NumberFormat& format,
                          bool clear) {
    Operand copy;
    copy.format = format;
    copy.stride = dense_strides(space);
    const std::int64_t bytes = space.size() * storage_bytes(format.storage);
    copy.data =
        scratch_.emplace_back(std::make_unique<ScratchBlock>(storage_.pool(), bytes, line_))
            ->data();
    if (clear) std::fill_n(copy.data, bytes, std::byte{0});
    Chain chain;
    chain.add_operand(operand);
    run_chain(chain, space, copy);
    return copy;
}

Operand Executor::scalar(const Operation& operation, const nki::ScalarOperand& operand,
                         const Access& access) {
    if (!operand.vector) return Operand::of(operand.immediate);
    return source(operation, access, resolved_.space);
}

Operand Executor::source(const Operation& operation, int k) {
    return source(operation, resolved_.source[k], resolved_.source_space(operation, k));
}

void Executor::add_activation(Chain& chain, const Operation& operation) {
    if (operation.scale.vector || operation.scale.immediate != 1.0) {
        add_binary(chain, AluOp::kMultiply, false,
                   scalar(operation, operation.scale, resolved_.scale));
    }
    if (operation.bias.vector || operation.bias.immediate != 0.0) {
        add_binary(chain, AluOp::kAdd, false, scalar(operation, operation.bias, resolved_.bias));
    }
    if (operation.function == nki::ActFunction::kInvert && chain.step_count == 0) {
        // Bits of integers stay integers.
        add_binary(chain, AluOp::kBitwiseXor, false,
                   Operand::of(inversion_mask(chain.operands[0].format.value)));
    } else if (operation.function != nki::ActFunction::kCopy) {
        add_unary(chain, operation.function);
    }
}

namespace {

/// 32-bit integer add, subtract and multiply run on GpSimd, exactly; everything else that is not
/// bitwise is float32 (nki.isa.tensor_tensor).
bool is_exact_integer_operation(const Operation& operation, const Chain& chain,
                                const Operand& target) {
    if (operation.op0 != AluOp::kAdd && operation.op0 != AluOp::kSubtract &&
        operation.op0 != AluOp::kMultiply) {
        return false;
    }
    if (operation.engine == nki::Engine::kVector) return false;
    const auto wide = [](const Operand& operand) {
        return is_integer(operand.format.value) && nki::size_of(operand.format.value) == 4;
    };
    return wide(chain.operands[0]) && wide(chain.operands[1]) && wide(target);
}

}  // namespace

void Executor::elementwise(const Operation& operation) {
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
            if (is_exact_integer_operation(operation, chain, target(operation))) {
                chain.arithmetic = Arithmetic::kIntegers;
            }
            break;
        case Opcode::kCopy:
            // "Scalar Engine on NeuronCore-v2 performs copy by first casting the input tile to
            // FP32" (nki.isa.tensor_copy).
            if (operation.engine == nki::Engine::kScalar) chain.arithmetic = Arithmetic::kFloats;
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

void Executor::reduce(const Operation& operation) {
    const Operand from = source(operation, 0);
    run_reduce(operation.op0, operation.negate, operation.axes, resolved_.space, from,
               target(operation));
}

void Executor::scan(const Operation& operation) {
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
Matrix Executor::matrix_of(const Operand& operand, const Space& space) {
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

/// "is_stationary_onezero: hints to the compiler whether the operand is a tile with ones/zeros only
/// ... no impact for non-float32" (nki.isa.nc_matmul): it halves the passes, so it must be true.
void Executor::require_onezero(const Operation& operation, int k, const Matrix& matrix) const {
    if (storage_.tensor(resolved_.source[k].tensor).dtype != DType::kFloat32) return;
    const bool by_rows = matrix.column_stride == 1;
    const std::int64_t lines = by_rows ? matrix.rows : matrix.columns;
    const std::int64_t length = by_rows ? matrix.columns : matrix.rows;
    const std::int64_t line_stride = by_rows ? matrix.row_stride : matrix.column_stride;
    const std::int64_t stride = by_rows ? matrix.column_stride : matrix.row_stride;
    for (std::int64_t i = 0; i < lines; ++i) {
        const float* at = matrix.data + i * line_stride;
        for (std::int64_t j = 0; j < length; ++j) {
            const float value = at[j * stride];
            if (value == 0.0F || value == 1.0F) continue;
            throw NotOneZero{k == 0 ? "stationary" : "moving", value, operation.line};
        }
    }
}

void Executor::matmul(const Operation& operation) {
    const Space& result_space = resolved_.result_space;
    const Matrix stationary =
        matrix_of(source(operation, resolved_.source[0], resolved_.space), resolved_.space);
    const Matrix moving = matrix_of(source(operation, resolved_.source[1], resolved_.moving_space),
                                    resolved_.moving_space);
    if (operation.stationary_onezero) require_onezero(operation, 0, stationary);
    if (operation.moving_onezero) require_onezero(operation, 1, moving);
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

}  // namespace accelopt::trainium::execution
