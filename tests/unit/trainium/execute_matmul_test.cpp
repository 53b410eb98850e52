#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "unit/trainium/execute_builder.h"
#include "unit/trainium/execute_reference.h"

using namespace accelopt;
using namespace accelopt::trainium;
using namespace accelopt::trainium::testing;
using nki::Buffer;
using nki::DType;
using nki::Opcode;
using nki::View;

namespace {

struct Product {
    ProgramBuilder builder;
    std::vector<HostArray> inputs;

    View matrix(RandomStream& random, const std::vector<std::int64_t>& counts, DType dtype) {
        std::int64_t partitions = 0;
        std::int64_t free = 0;
        View view = random_view(random, counts, partitions, free);
        const auto hbm = builder.input({partitions, free}, dtype);
        inputs.push_back(encode_array(dtype, random_values(random, dtype, partitions * free)));
        view.tensor = builder.tile(Buffer::kSbuf, partitions, free, dtype);
        builder.load(view.tensor, hbm);
        return view;
    }

    std::vector<OutputArray> run() {
        std::vector<InputArray> arrays;
        for (const HostArray& input : inputs) arrays.push_back(input.as_input());
        auto result = execute(builder.program, arrays, {});
        REQUIRE(result.ok());
        return std::move(result.value());
    }

    std::vector<double> expected(nki::TensorId id) {
        std::vector<std::vector<double>> numbers;
        for (const HostArray& input : inputs) numbers.push_back(input.values);
        ReferenceMachine reference(builder.program, numbers);
        reference.run();
        return reference.values(id);
    }
};

}  // namespace

TEST_CASE("random products match plain loops") {
    auto random = RandomStream::keyed(5, "matmul");
    for (int trial = 0; trial < 150; ++trial) {
        INFO("trial " << trial);
        Product p;
        const bool large = random.below(10) == 0;
        const std::int64_t k = large ? 128 : pick(random, 1, 40);
        const std::int64_t m = large ? 128 : pick(random, 1, 40);
        const std::int64_t n0 = pick(random, 1, large ? 256 : 20);
        const std::int64_t n1 = random.below(3) == 0 ? pick(random, 1, 4) : 1;
        const DType dtype = random.below(3) == 0 ? DType::kBFloat16 : DType::kFloat32;
        const View stationary = p.matrix(random, {k, m, 1}, dtype);
        const View moving = p.matrix(random, {k, n0, n1}, dtype);
        std::int64_t partitions = 0;
        std::int64_t free = 0;
        View dst = random_view(random, {m, n0, n1}, partitions, free);
        const DType result = random.below(5) == 0 ? DType::kBFloat16 : DType::kFloat32;
        dst.tensor = p.builder.tile(Buffer::kPsum, partitions, free, result);
        p.builder.memset(p.builder.whole(dst.tensor), 0.5);
        const std::int64_t repeats = pick(random, 1, 3);
        for (std::int64_t r = 0; r < repeats; ++r) {
            auto& operation = p.builder.add(Opcode::kMatmul, dst, {stationary, moving});
            operation.accumulate = r > 0 || random.below(2) == 0;
            if (random.below(3) == 0) {
                nki::MaskTerm term;
                term.constant = pick(random, 0, 2 * k);
                const bool coupled = random.below(2) == 0;
                term.coefficients[0] = coupled || random.below(2) == 0 ? -1 : 0;
                term.coefficients[1] = coupled || term.coefficients[0] == 0 ? -1 : 0;
                // Every column keeps its first row, so that masked columns do not differ.
                if (coupled) term.constant = std::max(term.constant, m);
                operation.mask.push_back(term);
            }
        }
        const auto out = p.builder.output({partitions, free}, result);
        p.builder.store(out, dst.tensor);
        const auto arrays = p.run();
        const auto got = decode_array(result, arrays[0].bytes);
        const auto want = p.expected(out);
        const double eps = result == DType::kBFloat16 ? std::ldexp(1.0, -7) : std::ldexp(1.0, -23);
        for (std::size_t i = 0; i < got.size(); ++i) {
            // |a| and |b| are at most 4: K * 16 bounds the sum of magnitudes.
            const double bound = eps * std::fabs(want[i]) * static_cast<double>(repeats) +
                                 std::ldexp(1.0, -24) * static_cast<double>(k * k + k) * 16.0;
            REQUIRE(std::fabs(got[i] - want[i]) <= bound);
        }
    }
}

TEST_CASE("products that accumulate over k equal the product of the long matrices") {
    auto random = RandomStream::keyed(5, "accumulate");
    Product p;
    const auto dst = p.builder.tile(Buffer::kPsum, 16, 32);
    for (int k = 0; k < 4; ++k) {
        const View stationary = p.matrix(random, {32, 16}, DType::kFloat32);
        const View moving = p.matrix(random, {32, 32}, DType::kFloat32);
        auto& operation =
            p.builder.add(Opcode::kMatmul, p.builder.whole(dst), {stationary, moving});
        operation.accumulate = k > 0;
    }
    const auto out = p.builder.output({16, 32});
    p.builder.store(out, dst);
    const auto got = decode_array(DType::kFloat32, p.run()[0].bytes);
    const auto want = p.expected(out);
    for (std::size_t i = 0; i < got.size(); ++i) {
        REQUIRE(std::fabs(got[i] - want[i]) <= 1e-5 * 128);
    }
}

TEST_CASE("a product reads its operands before it writes over them") {
    auto random = RandomStream::keyed(5, "in place");
    Product p;
    const View a = p.matrix(random, {8, 8}, DType::kFloat32);
    auto& operation = p.builder.add(Opcode::kMatmul, a, {a, a});
    operation.accumulate = false;
    const nki::Tensor tile = p.builder.program.tensors[a.tensor];
    const auto out = p.builder.output({tile.partitions, tile.free_elements});
    p.builder.store(out, a.tensor);
    const auto got = decode_array(DType::kFloat32, p.run()[0].bytes);
    const auto want = p.expected(out);
    for (std::size_t i = 0; i < got.size(); ++i) REQUIRE(got[i] == Approx(want[i]).margin(1e-5));
}

TEST_CASE("bits do not depend on the run or on the number of threads asked for") {
    auto random = RandomStream::keyed(5, "bits");
    Product p;
    const View a = p.matrix(random, {128, 128}, DType::kFloat32);
    const View b = p.matrix(random, {128, 512}, DType::kFloat32);
    const auto dst = p.builder.tile(Buffer::kPsum, 128, 512);
    p.builder.add(Opcode::kMatmul, p.builder.whole(dst), {a, b});
    const auto out = p.builder.output({128, 512});
    p.builder.store(out, dst);
    std::vector<InputArray> arrays;
    for (const HostArray& input : p.inputs) arrays.push_back(input.as_input());
    ExecutionLimits one;
    ExecutionLimits four;
    four.threads = 4;
    const auto first = execute(p.builder.program, arrays, one);
    const auto second = execute(p.builder.program, arrays, four);
    REQUIRE(first.ok());
    REQUIRE(second.ok());
    REQUIRE(first->at(0).bytes == second->at(0).bytes);
}
