#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <string>

#include "trainium/number_format.h"
#include "unit/trainium/execute_builder.h"
#include "unit/trainium/execute_reference.h"

using namespace accelopt;
using namespace accelopt::trainium;
using namespace accelopt::trainium::testing;
using nki::ActFunction;
using nki::AluOp;
using nki::Buffer;
using nki::DType;
using nki::Opcode;
using nki::View;

namespace {

constexpr DType kDTypes[] = {
    DType::kFloat32,  DType::kFloat32,    DType::kFloat32,    DType::kBFloat16, DType::kFloat16,
    DType::kTFloat32, DType::kFloat8E4M3, DType::kFloat8E5M2, DType::kInt32,    DType::kInt8,
    DType::kInt16,    DType::kUInt8,      DType::kUInt16,     DType::kUInt32,   DType::kBool};

/// Relative spacing of a dtype's values: what one rounding flip may change.
double spacing(DType dtype) {
    switch (dtype) {
        case DType::kBFloat16:
            return std::ldexp(1.0, -7);
        case DType::kFloat16:
        case DType::kTFloat32:
            return std::ldexp(1.0, -10);
        case DType::kFloat8E4M3:
            return std::ldexp(1.0, -3);
        case DType::kFloat8E5M2:
            return std::ldexp(1.0, -2);
        default:
            return std::ldexp(1.0, -23);
    }
}

/// A program of one interesting operation between loads and stores of whole tiles.
class Trial {
  public:
    explicit Trial(RandomStream& random) : random_(random) {}

    /// A view with these counts into a new tile that holds random values.
    View source(const std::vector<std::int64_t>& counts, DType dtype,
                std::function<double(double)> map = nullptr) {
        std::int64_t partitions = 0;
        std::int64_t free = 0;
        View view = random_view(random_, counts, partitions, free);
        const auto hbm = builder.input({partitions, free}, dtype);
        std::vector<double> values = random_values(random_, dtype, partitions * free);
        if (map) {
            for (double& value : values) value = map(value);
        }
        inputs_.push_back(encode_array(dtype, values));
        const std::int64_t blocks = pick(random_, 1, 3);
        const auto tile = builder.tile(random_.below(4) == 0 ? Buffer::kPsum : Buffer::kSbuf,
                                       partitions, free, dtype, blocks);
        view.tensor = tile;
        view.block = pick(random_, 0, blocks - 1);
        builder.add(Opcode::kLoad, builder.whole(tile, view.block), {builder.whole(hbm)});
        return view;
    }

    /// The same straight in HBM.
    View hbm_source(const std::vector<std::int64_t>& counts, DType dtype) {
        std::int64_t partitions = 0;
        std::int64_t free = 0;
        View view = random_view(random_, counts, partitions, free);
        view.tensor = builder.input({partitions, free}, dtype);
        inputs_.push_back(encode_array(dtype, random_values(random_, dtype, partitions * free)));
        return view;
    }

    /// A view with these counts into a new tile filled with a constant, and stored afterwards.
    View target(const std::vector<std::int64_t>& counts, DType dtype) {
        std::int64_t partitions = 0;
        std::int64_t free = 0;
        View view = random_view(random_, counts, partitions, free);
        view.tensor = builder.tile(Buffer::kSbuf, partitions, free, dtype);
        builder.memset(builder.whole(view.tensor), 3);
        return view;
    }

    /// Sometimes turns a full-size view into one that broadcasts some free dims.
    View maybe_broadcast(View view) {
        for (int d = 1; d < view.rank; ++d) {
            if (random_.below(6) == 0) view.dims[d].stride = 0;
        }
        return view;
    }

    nki::ScalarOperand operand(std::int64_t partitions, int rank, double low, double high) {
        nki::ScalarOperand operand;
        operand.immediate = std::round((low + random_.uniform() * (high - low)) * 8) / 8;
        if (random_.below(2) == 0) return operand;
        operand.vector = true;
        std::vector<std::int64_t> counts(random_.below(2) == 0 ? 2 : rank, 1);
        counts[0] = partitions;
        operand.view = source(counts, DType::kFloat32,
                              [&](double x) { return low + (x + 4) / 8 * (high - low); });
        return operand;
    }

    /// Adds random mask terms over a space of these counts.
    void mask(nki::Operation& operation, const std::vector<std::int64_t>& counts) {
        if (random_.below(2) == 0) return;
        const std::int64_t terms = pick(random_, 1, 3);
        for (std::int64_t t = 0; t < terms; ++t) {
            nki::MaskTerm term;
            const bool coupled = random_.below(2) == 0;
            const auto rank = static_cast<std::int64_t>(counts.size());
            const std::int64_t only = pick(random_, 0, rank - 1);
            std::int64_t reach = 0;
            for (std::int64_t d = 0; d < rank; ++d) {
                if (!coupled && d != only) continue;
                term.coefficients[d] = pick(random_, -3, 3);
                reach += term.coefficients[d] * (counts[d] - 1);
            }
            const std::int64_t low = std::min<std::int64_t>(reach, 0);
            const std::int64_t high = std::max<std::int64_t>(reach, 0);
            term.constant = -pick(random_, low - 1, high);
            operation.mask.push_back(term);
        }
    }

    /// Stores the tile of `view`, runs both machines and compares every element.
    void check(const View& view, double relative, double absolute) {
        const nki::Tensor tile = builder.program.tensors[view.tensor];
        nki::TensorId result = view.tensor;
        if (tile.buffer != Buffer::kHbm) {
            result = builder.output({tile.partitions, tile.free_elements}, tile.dtype);
            builder.add(Opcode::kStore, builder.whole(result), {builder.whole(view.tensor)});
        }
        std::vector<InputArray> arrays;
        std::vector<std::vector<double>> numbers;
        for (const HostArray& input : inputs_) {
            arrays.push_back(input.as_input());
            numbers.push_back(input.values);
        }
        const auto computed = execute(builder.program, arrays, {});
        REQUIRE(computed.ok());
        ReferenceMachine reference(builder.program, numbers);
        reference.run();
        const std::vector<double> got = decode_array(tile.dtype, computed->at(0).bytes);
        const std::vector<double>& want = reference.values(result);
        REQUIRE(got.size() == want.size());
        for (std::size_t i = 0; i < got.size(); ++i) {
            if (std::isnan(want[i]) && std::isnan(got[i])) continue;
            if (want[i] == got[i]) continue;
            const double bound =
                relative * std::max(std::fabs(want[i]), std::fabs(got[i])) + absolute;
            if (std::fabs(want[i] - got[i]) <= bound) continue;
            INFO("element " << i << " of " << nki::to_string(tile.dtype));
            REQUIRE(got[i] == want[i]);
        }
    }

    ProgramBuilder builder;

  private:
    RandomStream& random_;
    std::vector<HostArray> inputs_;
};

/// [partitions, free...] of at most some 10,000 elements.
std::vector<std::int64_t> random_counts(RandomStream& random) {
    std::vector<std::int64_t> counts{random.below(6) == 0 ? 128 : pick(random, 1, 9)};
    const std::int64_t free_dims = pick(random, 1, 3);
    std::int64_t size = counts[0];
    for (std::int64_t d = 0; d < free_dims; ++d) {
        const bool longer = size < 100 && random.below(3) == 0;
        counts.push_back(longer ? pick(random, 30, 150) : pick(random, 1, size < 1000 ? 8 : 2));
        size *= counts.back();
    }
    // At times a run longer than the pieces that are handled at once.
    if (free_dims == 1 && counts[0] < 4 && random.below(3) == 0) {
        counts.back() = pick(random, 2000, 5000);
    }
    return counts;
}

DType random_dtype(RandomStream& random) { return kDTypes[random.below(std::size(kDTypes))]; }

AluOp random_alu(RandomStream& random, bool bitwise) {
    if (bitwise) {
        return static_cast<AluOp>(pick(random, static_cast<int>(AluOp::kBitwiseAnd),
                                       static_cast<int>(AluOp::kShiftRight)));
    }
    AluOp op = AluOp::kBitwiseAnd;
    while (op >= AluOp::kBitwiseAnd && op <= AluOp::kShiftRight) {
        op = static_cast<AluOp>(
            pick(random, static_cast<int>(AluOp::kAdd), static_cast<int>(AluOp::kBypass)));
    }
    return op;
}

double tolerance(AluOp op, DType dtype) {
    return op == AluOp::kPower || op == AluOp::kMod ? 2 * spacing(dtype) : 0.0;
}

}  // namespace

TEST_CASE("random tensor-tensor operations match plain loops") {
    auto random = RandomStream::keyed(1, "tensor_tensor");
    for (int trial = 0; trial < 600; ++trial) {
        INFO("trial " << trial);
        Trial t(random);
        const auto counts = random_counts(random);
        const bool bitwise = random.below(6) == 0;
        const DType in = bitwise ? DType::kInt32 : random_dtype(random);
        const DType out = bitwise ? DType::kInt32 : random_dtype(random);
        const View a = t.maybe_broadcast(t.source(counts, in));
        const View b = t.maybe_broadcast(t.source(counts, bitwise ? in : random_dtype(random)));
        const View dst = t.target(counts, out);
        auto& operation = t.builder.add(Opcode::kTensorTensor, dst, {a, b});
        operation.op0 = random_alu(random, bitwise);
        t.mask(operation, counts);
        INFO(nki::to_string(operation.op0));
        // A result rounded to an integer or a short float may flip when the operation is inexact.
        const double relative = tolerance(operation.op0, out);
        t.check(dst, relative, relative > 0 ? (is_integer(out) ? 1.0 : 1e-6) : 0.0);
    }
}

TEST_CASE("random tensor-scalar operations match plain loops") {
    auto random = RandomStream::keyed(1, "tensor_scalar");
    for (int trial = 0; trial < 600; ++trial) {
        INFO("trial " << trial);
        Trial t(random);
        const auto counts = random_counts(random);
        const int rank = static_cast<int>(counts.size());
        const DType out = random_dtype(random);
        const bool three = random.below(2) == 0;
        const View a = t.maybe_broadcast(t.source(counts, random_dtype(random)));
        const auto operand0 = t.operand(counts[0], rank, -3, 3);
        const auto operand1 = t.operand(counts[0], rank, -3, 3);
        std::vector<View> sources{a};
        if (three) sources.push_back(t.source(counts, random_dtype(random)));
        const View dst = t.target(counts, out);
        auto& operation = t.builder.add(three ? Opcode::kScalarTensorTensor : Opcode::kTensorScalar,
                                        dst, sources);
        // Inexact operations before a discontinuous one would only test luck.
        const auto exact = [&] {
            AluOp op = AluOp::kPower;
            while (op == AluOp::kPower || op == AluOp::kMod) op = random_alu(random, false);
            return op;
        };
        operation.op0 = exact();
        operation.op1 = !three && random.below(3) == 0 ? AluOp::kNone : exact();
        operation.reverse0 = random.below(3) == 0;
        operation.reverse1 = random.below(3) == 0;
        operation.operand0 = operand0;
        operation.operand1 = operand1;
        if (three) operation.operand1 = {};
        t.mask(operation, counts);
        INFO(nki::to_string(operation.op0) << ", " << nki::to_string(operation.op1));
        t.check(dst, 0, 0);
    }
}

TEST_CASE("random activations with scale and bias match plain loops") {
    auto random = RandomStream::keyed(1, "activation");
    for (int trial = 0; trial < 600; ++trial) {
        INFO("trial " << trial);
        Trial t(random);
        const auto counts = random_counts(random);
        const int rank = static_cast<int>(counts.size());
        const DType out = random.below(2) == 0 ? DType::kFloat32 : DType::kBFloat16;
        const auto function = static_cast<ActFunction>(trial % 30);
        const bool positive = function == ActFunction::kLog || function == ActFunction::kSqrt ||
                              function == ActFunction::kRsqrt;
        const View a = t.source(counts, DType::kFloat32,
                                [&](double x) { return positive ? std::fabs(x) + 0.25 : x; });
        const auto scale = t.operand(counts[0], rank, 0.5, 1.5);
        const auto bias = t.operand(counts[0], rank, positive ? 0.5 : -1, 1);
        const View dst = t.target(counts, out);
        auto& operation = t.builder.add(Opcode::kActivation, dst, {a});
        operation.function = function;
        operation.scale = scale;
        operation.bias = bias;
        t.mask(operation, counts);
        INFO(nki::to_string(function));
        t.check(dst, 1e-6 + (out == DType::kBFloat16 ? spacing(out) : 0), 2e-6);
    }
}

TEST_CASE("random copies, casts and memory traffic match plain loops") {
    auto random = RandomStream::keyed(1, "copies");
    for (int trial = 0; trial < 600; ++trial) {
        INFO("trial " << trial);
        Trial t(random);
        const auto counts = random_counts(random);
        const DType in = random_dtype(random);
        const DType out = random.below(2) == 0 ? in : random_dtype(random);
        const bool from_hbm = random.below(2) == 0;
        View source = from_hbm ? t.hbm_source(counts, in) : t.source(counts, in);
        source = t.maybe_broadcast(source);
        if (random.below(5) == 0 && counts[0] > 1) source.dims[0].stride = 0;
        const View dst = t.target(counts, out);
        auto& operation = t.builder.add(from_hbm ? Opcode::kLoad : Opcode::kCopy, dst, {source});
        t.mask(operation, counts);
        t.check(dst, 0, 0);
    }
}

TEST_CASE("random strided stores match plain loops") {
    auto random = RandomStream::keyed(1, "stores");
    for (int trial = 0; trial < 200; ++trial) {
        INFO("trial " << trial);
        Trial t(random);
        const auto counts = random_counts(random);
        const DType out = random_dtype(random);
        const View source = t.source(counts, random_dtype(random));
        std::int64_t partitions = 0;
        std::int64_t free = 0;
        View dst = random_view(random, counts, partitions, free);
        dst.tensor = t.builder.output({partitions, free}, out);
        t.builder.memset(t.builder.whole(dst.tensor), 7);
        auto& operation = t.builder.add(Opcode::kStore, dst, {source});
        t.mask(operation, counts);
        t.check(dst, 0, 0);
    }
}

TEST_CASE("random selections, reciprocals and index patterns match plain loops") {
    auto random = RandomStream::keyed(1, "select");
    for (int trial = 0; trial < 300; ++trial) {
        INFO("trial " << trial);
        Trial t(random);
        const auto counts = random_counts(random);
        const DType out = random_dtype(random);
        const View predicate = t.maybe_broadcast(t.source(counts, random_dtype(random)));
        const View a = t.maybe_broadcast(t.source(counts, random_dtype(random)));
        const View b = t.source(counts, random_dtype(random));
        const View dst = t.target(counts, out);
        if (trial % 3 == 0) {
            auto& operation = t.builder.add(Opcode::kSelect, dst, {predicate, a, b});
            t.mask(operation, counts);
        } else if (trial % 3 == 1) {
            auto& operation = t.builder.add(Opcode::kReciprocal, dst, {b});
            t.mask(operation, counts);
        } else {
            auto& operation = t.builder.add(Opcode::kIota, dst);
            operation.operand0.immediate = static_cast<double>(pick(random, -5, 5));
            for (std::size_t d = 0; d < counts.size(); ++d) operation.iota[d] = pick(random, -4, 4);
            t.mask(operation, counts);
        }
        t.check(dst, 0, 0);
    }
}

TEST_CASE("random reductions over any free axes match plain loops") {
    auto random = RandomStream::keyed(1, "reduce");
    constexpr AluOp kOps[] = {AluOp::kAdd,       AluOp::kAdd,        AluOp::kMax,
                              AluOp::kMin,       AluOp::kMultiply,   AluOp::kAbsMax,
                              AluOp::kLogicalOr, AluOp::kLogicalAnd, AluOp::kBitwiseXor};
    for (int trial = 0; trial < 600; ++trial) {
        INFO("trial " << trial);
        Trial t(random);
        const auto counts = random_counts(random);
        const AluOp op = kOps[random.below(std::size(kOps))];
        unsigned axes = 0;
        while (axes == 0) {
            axes = static_cast<unsigned>(random.below(1u << counts.size())) & ~1u;
        }
        const DType in = op == AluOp::kBitwiseXor ? DType::kInt32
                         : random.below(4) == 0   ? DType::kBFloat16
                                                  : DType::kFloat32;
        // Factors near 1 keep long products finite.
        const View source = t.maybe_broadcast(t.source(
            counts, in, [&](double x) { return op == AluOp::kMultiply ? 1 + x / 64 : x; }));
        const bool keep_dims = random.below(2) == 0;
        std::vector<std::int64_t> kept;
        std::int64_t terms = 1;
        for (std::size_t d = 0; d < counts.size(); ++d) {
            const bool reduced = ((axes >> d) & 1u) != 0;
            if (!reduced || keep_dims) kept.push_back(reduced ? 1 : counts[d]);
            if (reduced) terms *= counts[d];
        }
        if (kept.size() == 1) kept.push_back(1);
        const View dst = t.target(kept, DType::kFloat32);
        auto& operation = t.builder.add(Opcode::kReduce, dst, {source});
        operation.op0 = op;
        operation.axes = static_cast<std::uint8_t>(axes);
        operation.negate = random.below(4) == 0;
        t.mask(operation, counts);
        INFO(nki::to_string(op) << " axes " << axes);
        // Each of the terms is at most 4: the error bound of any summation order.
        const double eps = std::ldexp(1.0, -24);
        const double absolute = op == AluOp::kAdd ? eps * static_cast<double>(terms) * 4 * 16 : 0.0;
        t.check(dst, op == AluOp::kMultiply ? eps * static_cast<double>(terms + 2) : eps, absolute);
    }
}

TEST_CASE("random scans match plain loops") {
    auto random = RandomStream::keyed(1, "scan");
    for (int trial = 0; trial < 200; ++trial) {
        INFO("trial " << trial);
        Trial t(random);
        auto counts = random_counts(random);
        const bool common = random.below(2) == 0;
        // Factors below 1 keep the recurrence tame.
        const View a = t.source(counts, DType::kFloat32, [](double x) { return x / 4.5; });
        const View b = t.source(counts, random.below(4) == 0 ? DType::kBFloat16 : DType::kFloat32);
        const auto initial = t.operand(counts[0], static_cast<int>(counts.size()), -1, 1);
        const View dst = t.target(counts, DType::kFloat32);
        auto& operation = t.builder.add(Opcode::kScan, dst, {a, b});
        operation.operand0 = initial;
        operation.op0 = common ? AluOp::kMultiply : AluOp::kMax;
        operation.op1 = common ? AluOp::kAdd : AluOp::kSubtract;
        operation.reverse1 = !common && random.below(2) == 0;
        t.mask(operation, counts);
        t.check(dst, 1e-5, 1e-5);
    }
}

TEST_CASE("random transposes and partition broadcasts match plain loops") {
    auto random = RandomStream::keyed(1, "transpose");
    for (int trial = 0; trial < 300; ++trial) {
        INFO("trial " << trial);
        Trial t(random);
        const std::int64_t rows = pick(random, 1, 128);
        const std::int64_t first = pick(random, 1, 16);
        const std::int64_t second = pick(random, 1, 8);
        if (trial % 3 == 0) {
            const View source = t.source({1, first, second}, random_dtype(random));
            const View dst = t.target({rows, first, second}, random_dtype(random));
            auto& operation = t.builder.add(Opcode::kPartitionBroadcast, dst, {source});
            t.mask(operation, {rows, first, second});
            t.check(dst, 0, 0);
        } else if (trial % 3 == 1) {
            const View source = t.source({rows, first * second}, random_dtype(random));
            const View dst = t.target({first * second, rows}, random_dtype(random));
            auto& operation = t.builder.add(Opcode::kTranspose, dst, {source});
            t.mask(operation, {first * second, rows});
            t.check(dst, 0, 0);
        } else {
            const View source = t.source({rows, first, second}, random_dtype(random));
            const View dst = t.target({first * second, rows}, random_dtype(random));
            t.builder.add(Opcode::kTranspose, dst, {source});
            t.check(dst, 0, 0);
        }
    }
}
