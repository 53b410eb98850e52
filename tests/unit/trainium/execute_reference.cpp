#include "unit/trainium/execute_reference.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "trainium/number_format.h"

namespace accelopt::trainium::testing {

using nki::ActFunction;
using nki::AluOp;
using nki::DType;
using nki::Opcode;
using nki::Operation;
using nki::View;

namespace {

double f32(double x) { return static_cast<float>(x); }

double as_integer(double x) { return static_cast<double>(to_integer(DType::kInt32, float(x))); }

double bitwise(AluOp op, double x, double y) {
    const auto a = static_cast<std::int64_t>(as_integer(x));
    const auto b = static_cast<std::int64_t>(as_integer(y));
    switch (op) {
        case AluOp::kBitwiseAnd:
            return static_cast<double>(a & b);
        case AluOp::kBitwiseOr:
            return static_cast<double>(a | b);
        case AluOp::kBitwiseXor:
            return static_cast<double>(a ^ b);
        case AluOp::kShiftLeft:
            return static_cast<double>(b < 0 || b > 31 ? 0 : std::int32_t(std::uint32_t(a) << b));
        default:
            return static_cast<double>(b < 0 || b > 31 ? (a < 0 ? -1 : 0) : a >> b);
    }
}

}  // namespace

double alu(AluOp op, double a, double b) {
    if (std::isnan(a) || std::isnan(b)) {
        if (op == AluOp::kMax || op == AluOp::kMin || op == AluOp::kAbsMax) return NAN;
    }
    switch (op) {
        case AluOp::kNone:
        case AluOp::kBypass:
            return a;
        case AluOp::kAdd:
            return a + b;
        case AluOp::kSubtract:
            return a - b;
        case AluOp::kMultiply:
            return a * b;
        case AluOp::kDivide:
            return a / b;
        case AluOp::kMax:
            return std::max(a, b);
        case AluOp::kMin:
            return std::min(a, b);
        case AluOp::kPower:
            return std::pow(a, b);
        case AluOp::kMod:
            return b == 0 ? NAN : a - b * std::floor(a / b);
        case AluOp::kEqual:
            return a == b;
        case AluOp::kNotEqual:
            return a != b;
        case AluOp::kLess:
            return a < b;
        case AluOp::kLessEqual:
            return a <= b;
        case AluOp::kGreater:
            return a > b;
        case AluOp::kGreaterEqual:
            return a >= b;
        case AluOp::kLogicalAnd:
            return a != 0 && b != 0;
        case AluOp::kLogicalOr:
            return a != 0 || b != 0;
        case AluOp::kAbsMax:
            return std::max(std::fabs(a), std::fabs(b));
        case AluOp::kLogicalXor:
            return (a != 0) != (b != 0);
        case AluOp::kFmod:
            return std::fmod(a, b);
        case AluOp::kRsqrt:
            return 1 / std::sqrt(a);
        default:
            return bitwise(op, a, b);
    }
}

double activation(ActFunction function, double x) {
    const double pi = 3.14159265358979323846;
    const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
    const auto cdf = [](double v) { return 0.5 * std::erfc(-v / std::sqrt(2.0)); };
    switch (function) {
        case ActFunction::kCopy:
            return x;
        case ActFunction::kExp:
            return std::exp(x);
        case ActFunction::kLog:
            return std::log(x);
        case ActFunction::kSin:
            return std::sin(x);
        case ActFunction::kCos:
            return std::cos(x);
        case ActFunction::kTan:
            return std::tan(x);
        case ActFunction::kArctan:
            return std::atan(x);
        case ActFunction::kTanh:
            return std::tanh(x);
        case ActFunction::kErf:
            return std::erf(x);
        case ActFunction::kErfDx:
            return 2 / std::sqrt(pi) * std::exp(-x * x);
        case ActFunction::kSigmoid:
            return sigmoid(x);
        case ActFunction::kRelu:
            return x < 0 ? 0.0 : x;
        case ActFunction::kGelu:
            return x * cdf(x);
        case ActFunction::kGeluDx:
            return cdf(x) + x * std::exp(-x * x / 2) / std::sqrt(2 * pi);
        case ActFunction::kGeluApproxTanh:
            // Written with the sigmoid: 1 + tanh(u) cancels for negative u even in double.
            return x * sigmoid(2 * std::sqrt(2 / pi) * (x + 0.044715 * x * x * x));
        case ActFunction::kGeluApproxSigmoid:
            return x * sigmoid(1.702 * x);
        case ActFunction::kSilu:
            return x * sigmoid(x);
        case ActFunction::kSiluDx:
            return sigmoid(x) * (1 + x * sigmoid(-x));
        case ActFunction::kMish:
            return x * std::tanh(x > 30 ? x : std::log1p(std::exp(x)));
        case ActFunction::kSoftplus:
            return x > 30 ? x + std::exp(-x) : std::log1p(std::exp(x));
        case ActFunction::kSqrt:
            return std::sqrt(x);
        case ActFunction::kRsqrt:
            return 1 / std::sqrt(x);
        case ActFunction::kReciprocal:
            return 1 / x;
        case ActFunction::kSquare:
            return x * x;
        case ActFunction::kAbs:
            return std::fabs(x);
        case ActFunction::kSign:
            return x > 0 ? 1 : (x < 0 ? -1 : x);
        case ActFunction::kFloor:
            return std::floor(x);
        case ActFunction::kCeil:
            return std::ceil(x);
        case ActFunction::kTrunc:
            return std::trunc(x);
        case ActFunction::kInvert:
            return static_cast<double>(~static_cast<std::int64_t>(as_integer(x)));
        case ActFunction::kLogicalNot:
            return x == 0;
    }
    throw std::logic_error("activation");
}

ReferenceMachine::ReferenceMachine(const nki::Program& program,
                                   const std::vector<std::vector<double>>& inputs)
    : program_(program) {
    for (const nki::Tensor& tensor : program.tensors) {
        for (std::int64_t b = 0; b < tensor.blocks; ++b) {
            auto& tile = tiles_[{tensor.id, b}];
            tile.assign(static_cast<std::size_t>(tensor.partitions * tensor.free_elements), NAN);
            if (tensor.role == nki::TensorRole::kInput) tile = inputs.at(tensor.argument);
            if (tensor.role == nki::TensorRole::kConstant) {
                tile.assign(tensor.constant_data.begin(), tensor.constant_data.end());
            }
        }
    }
}

const std::vector<double>& ReferenceMachine::values(nki::TensorId tensor, std::int64_t block) {
    return tiles_.at({tensor, block});
}

namespace {

std::int64_t address_of(const View& view, const std::array<std::int64_t, nki::kMaxDims>& index) {
    std::int64_t address = view.offset;
    for (int d = 0; d < view.rank; ++d) {
        address += view.dims[d].stride * (view.dims[d].count == 1 ? 0 : index[d]);
    }
    return address;
}

}  // namespace

double ReferenceMachine::read(const View& view, const Index& index) {
    return tiles_.at({view.tensor, view.block}).at(address_of(view, index));
}

double ReferenceMachine::scalar(const nki::ScalarOperand& operand, const Index& index) {
    return operand.vector ? read(operand.view, index) : operand.immediate;
}

void ReferenceMachine::write(const View& view, std::int64_t address, double value) {
    const DType dtype = program_.tensors[view.tensor].dtype;
    double rounded = value;
    if (is_integer(dtype)) {
        rounded = dtype == DType::kBool
                      ? value != 0
                      : std::clamp(std::isnan(value) ? 0.0 : std::nearbyint(value),
                                   double(integer_min(dtype)), double(integer_max(dtype)));
    } else {
        rounded = round_to(dtype, static_cast<float>(value));
    }
    tiles_.at({view.tensor, view.block}).at(address) = rounded;
}

std::vector<ReferenceMachine::Index> ReferenceMachine::active(const Operation& operation,
                                                              const View& space) const {
    std::vector<Index> indices;
    Index index{};
    const std::int64_t total = space.count();
    for (std::int64_t i = 0; i < total; ++i) {
        std::int64_t rest = i;
        for (int d = space.rank - 1; d >= 0; --d) {
            index[d] = rest % space.dims[d].count;
            rest /= space.dims[d].count;
        }
        bool on = true;
        for (const nki::MaskTerm& term : operation.mask) {
            std::int64_t sum = term.constant;
            for (int d = 0; d < space.rank; ++d) sum += term.coefficients[d] * index[d];
            on = on && sum >= 0;
        }
        if (on) indices.push_back(index);
    }
    return indices;
}

double ReferenceMachine::element(const Operation& op, const Index& i) {
    const auto step = [](AluOp alu_op, bool reverse, double value, double operand) {
        return f32(reverse ? alu(alu_op, operand, value) : alu(alu_op, value, operand));
    };
    switch (op.opcode) {
        case Opcode::kMemset:
            return op.operand0.immediate;
        case Opcode::kIota: {
            double value = op.operand0.immediate;
            for (int d = 0; d < nki::kMaxDims; ++d) value += double(op.iota[d] * i[d]);
            return value;
        }
        case Opcode::kActivation: {
            double x = read(op.src[0], i);
            x = f32(x * f32(scalar(op.scale, i)));
            x = f32(x + f32(scalar(op.bias, i)));
            return activation(op.function, x);
        }
        case Opcode::kTensorScalar: {
            double x = step(op.op0, op.reverse0, read(op.src[0], i), f32(scalar(op.operand0, i)));
            if (op.op1 != AluOp::kNone) {
                x = step(op.op1, op.reverse1, x, f32(scalar(op.operand1, i)));
            }
            return x;
        }
        case Opcode::kTensorTensor:
            return step(op.op0, op.reverse0, read(op.src[0], i), read(op.src[1], i));
        case Opcode::kScalarTensorTensor: {
            const double x =
                step(op.op0, op.reverse0, read(op.src[0], i), f32(scalar(op.operand0, i)));
            return step(op.op1, op.reverse1, x, read(op.src[1], i));
        }
        case Opcode::kReciprocal:
            return 1 / read(op.src[0], i);
        case Opcode::kSelect:
            return read(op.src[0], i) != 0 ? read(op.src[1], i) : read(op.src[2], i);
        default:
            return read(op.src[0], i);
    }
}

void ReferenceMachine::run_reduce(const Operation& op) {
    // Results are found by the kept indices, in the order of the destination's elements.
    std::map<Index, std::vector<double>> groups;
    for (const Index& index : active(op, op.src[0])) {
        Index kept = index;
        for (int d = 0; d < op.src[0].rank; ++d) {
            if (((op.axes >> d) & 1) != 0) kept[d] = 0;
        }
        groups[kept].push_back(read(op.src[0], index));
    }
    for (const auto& [kept, values] : groups) {
        double result = values[0];
        for (std::size_t k = 1; k < values.size(); ++k) result = alu(op.op0, result, values[k]);
        if (op.op0 == AluOp::kAbsMax || op.op0 == AluOp::kLogicalAnd ||
            op.op0 == AluOp::kLogicalOr || op.op0 == AluOp::kLogicalXor) {
            result = alu(op.op0, result, result);
        }
        // The destination has the kept dims only, or the reduced ones with count 1.
        std::int64_t address = op.dst.offset;
        int at = 0;
        for (int d = 0; d < op.src[0].rank; ++d) {
            const bool reduced = ((op.axes >> d) & 1) != 0;
            if (op.dst.rank == op.src[0].rank) {
                if (!reduced) address += op.dst.dims[d].stride * kept[d];
            } else if (!reduced) {
                address += op.dst.dims[at++].stride * kept[d];
            }
        }
        write(op.dst, address, op.negate ? -result : result);
    }
}

void ReferenceMachine::run_scan(const Operation& op) {
    std::map<std::int64_t, double> state;
    std::vector<std::pair<std::int64_t, double>> results;
    for (const Index& index : active(op, op.dst)) {
        auto found = state.find(index[0]);
        if (found == state.end()) {
            Index start{};
            start[0] = index[0];
            found = state.emplace(index[0], f32(scalar(op.operand0, start))).first;
        }
        const double a = read(op.src[0], index);
        const double b = read(op.src[1], index);
        double& value = found->second;
        value = f32(op.reverse0 ? alu(op.op0, value, a) : alu(op.op0, a, value));
        value = f32(op.reverse1 ? alu(op.op1, b, value) : alu(op.op1, value, b));
        results.emplace_back(address_of(op.dst, index), value);
    }
    for (const auto& [address, value] : results) write(op.dst, address, value);
}

namespace {

/// The k-th index of the dims [first, rank) of a view, row-major.
std::array<std::int64_t, nki::kMaxDims> unflatten(const View& view, int first, std::int64_t k) {
    std::array<std::int64_t, nki::kMaxDims> index{};
    for (int d = view.rank - 1; d >= first; --d) {
        index[d] = k % view.dims[d].count;
        k /= view.dims[d].count;
    }
    return index;
}

}  // namespace

void ReferenceMachine::run_matmul(const Operation& op) {
    const std::int64_t columns = op.src[0].free_count();
    std::vector<char> on(static_cast<std::size_t>(op.src[0].partitions() * columns), 0);
    for (const Index& index : active(op, op.src[0])) {
        std::int64_t m = 0;
        for (int d = 1; d < op.src[0].rank; ++d) m = m * op.src[0].dims[d].count + index[d];
        on[index[0] * columns + m] = 1;
    }
    std::vector<std::pair<std::int64_t, double>> results;
    for (std::int64_t m = 0; m < columns; ++m) {
        bool any = false;
        for (std::int64_t k = 0; k < op.src[0].partitions(); ++k) any = any || on[k * columns + m];
        if (!any) continue;
        for (std::int64_t n = 0; n < op.src[1].free_count(); ++n) {
            Index to = unflatten(op.dst, 1, n);
            to[0] = m;
            double sum = op.accumulate ? read(op.dst, to) : 0.0;
            for (std::int64_t k = 0; k < op.src[0].partitions(); ++k) {
                if (on[k * columns + m] == 0) continue;
                Index left = unflatten(op.src[0], 1, m);
                Index right = unflatten(op.src[1], 1, n);
                left[0] = right[0] = k;
                sum += read(op.src[0], left) * read(op.src[1], right);
            }
            results.emplace_back(address_of(op.dst, to), sum);
        }
    }
    for (const auto& [address, value] : results) write(op.dst, address, value);
}

void ReferenceMachine::run_transpose(const Operation& op) {
    std::vector<std::pair<std::int64_t, double>> results;
    for (const Index& index : active(op, op.dst)) {
        std::int64_t p = 0;
        for (int d = 1; d < op.dst.rank; ++d) p = p * op.dst.dims[d].count + index[d];
        Index from = unflatten(op.src[0], 1, index[0]);
        from[0] = p;
        results.emplace_back(address_of(op.dst, index), read(op.src[0], from));
    }
    for (const auto& [address, value] : results) write(op.dst, address, value);
}

void ReferenceMachine::run() {
    for (const Operation& operation : program_.operations) {
        switch (operation.opcode) {
            case Opcode::kReduce:
                run_reduce(operation);
                break;
            case Opcode::kScan:
                run_scan(operation);
                break;
            case Opcode::kMatmul:
                run_matmul(operation);
                break;
            case Opcode::kTranspose:
                run_transpose(operation);
                break;
            default: {
                std::vector<std::pair<std::int64_t, double>> results;
                for (const Index& index : active(operation, operation.dst)) {
                    results.emplace_back(address_of(operation.dst, index),
                                         element(operation, index));
                }
                for (const auto& [address, value] : results) write(operation.dst, address, value);
            }
        }
    }
}

}  // namespace accelopt::trainium::testing
