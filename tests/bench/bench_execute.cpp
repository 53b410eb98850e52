// Measures the arithmetic of the Trainium model: GFLOP/s of matmul tiles, elements per second of
// elementwise operations, and the cost of checking legality. Prints one line per measurement.
#include <chrono>
#include <cstdio>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "trainium/execute.h"

namespace {

using namespace accelopt;
using namespace accelopt::trainium;
using nki::AluOp;
using nki::Opcode;

/// A program on whole tiles of [128, columns].
class TileProgram {
  public:
    nki::TensorId add_tensor(nki::Buffer buffer, nki::TensorRole role, std::int64_t columns) {
        nki::Tensor tensor;
        tensor.id = static_cast<nki::TensorId>(program.tensors.size());
        tensor.buffer = buffer;
        tensor.role = role;
        tensor.shape = {128, columns};
        tensor.partitions = 128;
        tensor.free_elements = columns;
        if (role == nki::TensorRole::kInput) tensor.argument = arguments_++;
        if (role == nki::TensorRole::kOutput) program.outputs.push_back(tensor.id);
        program.tensors.push_back(tensor);
        return tensor.id;
    }

    nki::TensorId add_tile(std::int64_t columns, nki::Buffer buffer = nki::Buffer::kSbuf) {
        return add_tensor(buffer, nki::TensorRole::kOnChip, columns);
    }

    nki::View whole(nki::TensorId id) const {
        nki::View view;
        view.tensor = id;
        view.rank = 2;
        view.dims[0] = {program.tensors[id].free_elements, 128};
        view.dims[1] = {1, program.tensors[id].free_elements};
        return view;
    }

    nki::Operation& add(Opcode opcode, nki::TensorId dst, const std::vector<nki::TensorId>& src) {
        nki::Operation operation;
        operation.opcode = opcode;
        operation.dst = whole(dst);
        operation.scale.immediate = 1;
        for (const nki::TensorId id : src) operation.src[operation.sources++] = whole(id);
        program.operations.push_back(operation);
        return program.operations.back();
    }

    nki::Program program;

  private:
    int arguments_ = 0;
};

double seconds_of(const std::function<void()>& body) {
    double best = 1e9;
    for (int repeat = 0; repeat < 5; ++repeat) {
        const auto begin = std::chrono::steady_clock::now();
        body();
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
        best = std::min(best, took.count());
    }
    return best;
}

constexpr int kRepeats = 400;

/// Time of one operation, from a program that repeats it between a load and a store.
double operation_seconds(
    std::int64_t columns, const std::vector<int>& sources,
    const std::function<nki::Operation&(TileProgram&, const std::vector<nki::TensorId>&)>& add) {
    TileProgram p;
    const auto in = p.add_tensor(nki::Buffer::kHbm, nki::TensorRole::kInput, columns);
    const auto out = p.add_tensor(nki::Buffer::kHbm, nki::TensorRole::kOutput, columns);
    std::vector<nki::TensorId> tiles;
    for (std::size_t k = 0; k < sources.size(); ++k) {
        tiles.push_back(p.add_tile(columns));
        p.add(Opcode::kLoad, tiles.back(), {in});
    }
    const std::size_t before = p.program.operations.size();
    for (int k = 0; k < kRepeats; ++k) add(p, tiles);
    const auto result = p.program.operations[before].dst.tensor;
    if (p.program.tensors[result].free_elements == columns) p.add(Opcode::kStore, out, {result});
    const std::vector<float> values(static_cast<std::size_t>(128 * columns), 0.7f);
    const std::vector<InputArray> inputs{
        {values.data(), static_cast<std::int64_t>(values.size() * sizeof(float))}};
    return seconds_of([&] {
               if (!execute(p.program, inputs, {}).ok()) std::puts("failed");
           }) /
           kRepeats;
}

void report_elements(const char* name, std::int64_t columns, double seconds) {
    std::printf("%-44s %8.2f G elements/s\n", name, 128.0 * columns / seconds * 1e-9);
}

void bench_elementwise(std::int64_t columns) {
    std::printf("[128, %ld] float32 tiles\n", static_cast<long>(columns));
    const auto activation = [&](const char* name, nki::ActFunction function) {
        report_elements(name, columns,
                        operation_seconds(
                            columns, {1}, [&](auto& p, auto& t) -> auto& {
                                auto& operation =
                                    p.add(Opcode::kActivation, p.add_tile(columns), {t[0]});
                                operation.function = function;
                                return operation;
                            }));
    };
    activation("  exp", nki::ActFunction::kExp);
    activation("  log", nki::ActFunction::kLog);
    activation("  tanh", nki::ActFunction::kTanh);
    activation("  gelu", nki::ActFunction::kGelu);
    activation("  sin", nki::ActFunction::kSin);
    activation("  silu", nki::ActFunction::kSilu);
    activation("  rsqrt", nki::ActFunction::kRsqrt);
    for (const auto& [name, op] :
         {std::pair{"  add", AluOp::kAdd}, std::pair{"  multiply", AluOp::kMultiply},
          std::pair{"  max", AluOp::kMax}}) {
        report_elements(name, columns,
                        operation_seconds(
                            columns, {1, 1}, [&](auto& p, auto& t) -> auto& {
                                auto& operation =
                                    p.add(Opcode::kTensorTensor, p.add_tile(columns), {t[0], t[1]});
                                operation.op0 = op;
                                return operation;
                            }));
    }
    report_elements("  (x * [P,1]) + 2", columns,
                    operation_seconds(
                        columns, {1}, [&](auto& p, auto& t) -> auto& {
                            auto& operation =
                                p.add(Opcode::kTensorScalar, p.add_tile(columns), {t[0]});
                            operation.op0 = AluOp::kMultiply;
                            operation.operand0.vector = true;
                            operation.operand0.view = p.whole(t[0]);
                            operation.operand0.view.edit().dims[1].count = 1;
                            operation.op1 = AluOp::kAdd;
                            operation.operand1.immediate = 2;
                            return operation;
                        }));
    report_elements("  sum over the free axis", columns,
                    operation_seconds(
                        columns, {1}, [&](auto& p, auto& t) -> auto& {
                            auto& operation = p.add(Opcode::kReduce, p.add_tile(1), {t[0]});
                            operation.op0 = AluOp::kAdd;
                            operation.axes = 2;
                            return operation;
                        }));
    report_elements(
        "  scan (multiply, add)", columns,
        operation_seconds(
            columns, {1, 1}, [&](auto& p, auto& t) -> auto& {
                auto& operation = p.add(Opcode::kScan, p.add_tile(columns), {t[0], t[1]});
                operation.op0 = AluOp::kMultiply;
                operation.op1 = AluOp::kAdd;
                return operation;
            }));
    report_elements("  load from HBM", columns,
                    operation_seconds(
                        columns, {1}, [&](auto& p, auto&) -> auto& {
                            return p.add(Opcode::kLoad, p.add_tile(columns), {0});
                        }));
}

void bench_matmul(std::int64_t columns) {
    for (const bool accumulate : {false, true}) {
        TileProgram p;
        const auto in = p.add_tensor(nki::Buffer::kHbm, nki::TensorRole::kInput, 128);
        const auto right = p.add_tensor(nki::Buffer::kHbm, nki::TensorRole::kInput, columns);
        const auto out = p.add_tensor(nki::Buffer::kHbm, nki::TensorRole::kOutput, columns);
        const auto a = p.add_tile(128);
        const auto b = p.add_tile(columns);
        const auto c = p.add_tile(columns, nki::Buffer::kPsum);
        p.add(Opcode::kLoad, a, {in});
        p.add(Opcode::kLoad, b, {right});
        for (int k = 0; k < kRepeats; ++k) {
            p.add(Opcode::kMatmul, c, {a, b}).accumulate = accumulate && k > 0;
        }
        p.add(Opcode::kStore, out, {c});
        const std::vector<float> left(128 * 128, 0.01f);
        const std::vector<float> moving(static_cast<std::size_t>(128 * columns), 0.5f);
        const std::vector<InputArray> inputs{
            {left.data(), static_cast<std::int64_t>(left.size() * 4)},
            {moving.data(), static_cast<std::int64_t>(moving.size() * 4)}};
        const double seconds = seconds_of([&] {
                                   if (!execute(p.program, inputs, {}).ok()) std::puts("failed");
                               }) /
                               kRepeats;
        std::printf("matmul 128 x 128 x %-4ld %-22s %8.1f GFLOP/s\n", static_cast<long>(columns),
                    accumulate ? "accumulating" : "overwriting",
                    2.0 * 128 * 128 * static_cast<double>(columns) / seconds * 1e-9);
    }
    const double seconds = operation_seconds(
        128, {1}, [&](auto& p, auto& t) -> auto& {
            return p.add(Opcode::kTranspose, p.add_tile(128), {t[0]});
        });
    std::printf("transpose 128 x 128 %37.2f G elements/s\n", 128.0 * 128 / seconds * 1e-9);
}

void bench_legality() {
    TileProgram p;
    const auto in = p.add_tensor(nki::Buffer::kHbm, nki::TensorRole::kInput, 1024);
    const auto out = p.add_tensor(nki::Buffer::kHbm, nki::TensorRole::kOutput, 1024);
    constexpr int kOperations = 10'000;
    for (int k = 0; k < kOperations / 5; ++k) {
        const auto a = p.add_tile(1024);
        const auto b = p.add_tile(1024);
        // Halves of tiles, every second column, and whole tiles.
        for (const std::int64_t half : {0, 1}) {
            auto& load = p.add(Opcode::kLoad, a, {in});
            for (nki::View* view : {&load.dst, &load.src[0]}) {
                view->offset = 512 * half;
                view->dims[1].count = 512;
            }
        }
        for (const std::int64_t odd : {0, 1}) {
            auto& add = p.add(Opcode::kTensorTensor, b, {a, a});
            add.op0 = AluOp::kAdd;
            for (nki::View* view : {&add.dst, &add.src[0], &add.src[1]}) {
                view->offset = odd;
                view->dims[1] = {2, 512};
            }
        }
        p.add(Opcode::kStore, out, {b});
    }
    Machine machine;
    machine.sbuf_partition_bytes = 192 * 1024;
    machine.psum_partition_bytes = 16 * 1024;
    machine.psum_bank_bytes = 2 * 1024;
    const double seconds = seconds_of([&] {
        if (check_legality(p.program, machine)) std::puts("rejected");
    });
    std::printf("legality of %d operations on 512 KiB tiles %11.2f ms\n", kOperations,
                seconds * 1e3);
}

}  // namespace

int main(int argc, char** argv) {
    if (argc > 1 && !limit_simd(argv[1])) {
        std::fprintf(stderr, "no level '%s' here (avx512, avx2, sse4)\n", argv[1]);
        return 2;
    }
    std::printf("vector level reached: %s\n", simd_target().c_str());
    bench_matmul(512);
    bench_elementwise(512);
    bench_elementwise(2048);
    bench_legality();
    return 0;
}
