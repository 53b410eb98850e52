#include "trainium/completion_order.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <map>

#include "core/rng.h"
#include "timing_programs.h"
#include "trainium/execution_plan.h"
#include "trainium/executor.h"
#include "trainium/passes.h"

namespace accelopt::trainium {
namespace {

using nki::AluOp;
using nki::Opcode;
using nki::TensorId;
using nki::View;
using testing::ProgramBuilder;

/// Random inputs of a program, kept alive for as long as they are used.
class Inputs {
  public:
    explicit Inputs(const nki::Program& program, std::uint64_t seed = 1) {
        RandomStream random(seed);
        for (const nki::Tensor& tensor : program.tensors) {
            if (tensor.role != nki::TensorRole::kInput) continue;
            const auto at = static_cast<std::size_t>(tensor.argument);
            if (arrays_.size() <= at) arrays_.resize(at + 1);
            auto& values = arrays_[at];
            values.resize(static_cast<std::size_t>(tensor.partitions * tensor.free_elements));
            for (float& value : values) value = static_cast<float>(random.uniform() * 2 - 1);
        }
    }
    std::vector<InputArray> arrays() const {
        std::vector<InputArray> result;
        for (const auto& values : arrays_) {
            result.push_back({values.data(), static_cast<std::int64_t>(values.size() * 4)});
        }
        return result;
    }

  private:
    std::vector<std::vector<float>> arrays_;
};

std::optional<nki::Finding> hazard_of(const nki::Program& program, const CompiledKernel& kernel) {
    const Inputs inputs(program);
    const auto arrays = inputs.arrays();
    auto expected = execute(program, arrays, {});
    REQUIRE(expected.ok());
    return find_hazard(program, kernel, arrays, {}, *expected);
}

std::optional<nki::Finding> hazard_of(const nki::Program& program,
                                      const Machine& machine = testing::trn1()) {
    return hazard_of(program, compile_kernel(program, machine));
}

void require_agreement(const nki::Program& program, const Machine& machine = testing::trn1()) {
    const auto hazard = hazard_of(program, machine);
    INFO((hazard ? hazard->message : ""));
    REQUIRE_FALSE(hazard.has_value());
}

/// Lines of a program are the positions of its operations, from 1.
nki::Program numbered(ProgramBuilder& b) {
    int line = 0;
    for (nki::Operation& operation : b.program.operations) operation.line = ++line;
    return b.program;
}

// What a broken compiler pass or timing model would do.

/// Forgets that `to` waits for `from`.
void drop_dependency(Schedule& schedule, std::int32_t from, std::int32_t to) {
    for (Adjacency* edges : {&schedule.after_result, &schedule.after_issue}) {
        for (std::int32_t e = edges->first[from]; e < edges->first[from + 1]; ++e) {
            if (edges->items[e] != to) continue;
            edges->items.erase(edges->items.begin() + e);
            for (std::size_t n = from + 1; n < edges->first.size(); ++n) --edges->first[n];
            --schedule.pending[to];
            --e;
        }
    }
}

void simulate_again(CompiledKernel& kernel, const Machine& machine) {
    kernel.order.clear();
    simulate(kernel.stream, kernel.schedule, machine, &kernel.order);
}

std::int32_t node_at(const Stream& stream, int line) {
    for (std::size_t k = 0; k < stream.instructions.size(); ++k) {
        if (stream.instructions[k].line == line) return static_cast<std::int32_t>(k);
    }
    return -1;
}

bool mentions(const nki::Finding& finding, const std::string& text) {
    return finding.message.find(text) != std::string::npos;
}

// Programs.

/// y = exp(x) + x by tiles, each loaded, computed and stored.
nki::Program streaming_program(int tiles) {
    ProgramBuilder b;
    const TensorId in = b.input({128, tiles * 64});
    const TensorId out = b.output({128, tiles * 64});
    for (int t = 0; t < tiles; ++t) {
        const TensorId x = b.tile(128, 64, 1);
        const TensorId e = b.tile(128, 64, 2);
        const TensorId y = b.tile(128, 64, 3);
        b.load(b.whole(x), b.window(in, 0, 128, t * 64, 64));
        b.activation(b.whole(e), nki::ActFunction::kExp, b.whole(x));
        b.tensor_tensor(b.whole(y), AluOp::kAdd, b.whole(e), b.whole(x));
        b.store(b.window(out, 0, 128, t * 64, 64), b.whole(y));
    }
    return numbered(b);
}

/// Accumulates products over k in PSUM, from implicit zeros.
nki::Program product_program(bool zeros) {
    ProgramBuilder b;
    const TensorId a = b.input({512, 128});
    const TensorId w = b.input({512, 256});
    const TensorId out = b.output({128, 512});
    for (int n = 0; n < 2; ++n) {
        const TensorId sum = b.psum(128, 256, 9);
        if (zeros) b.add(Opcode::kMemset, b.whole(sum)).implicit = true;
        for (int k = 0; k < 4; ++k) {
            const TensorId left = b.tile(128, 128, 1);
            const TensorId right = b.tile(128, 256, 2);
            b.load(b.whole(left), b.window(a, 128 * k, 128, 0, 128));
            b.load(b.whole(right), b.window(w, 128 * k, 128, 0, 256));
            b.matmul(b.whole(sum), b.whole(left), b.whole(right), zeros || k > 0);
        }
        const TensorId y = b.tile(128, 256, 3);
        b.copy(b.whole(y), b.whole(sum));
        b.store(b.window(out, 0, 128, 256 * n, 256), b.whole(y));
    }
    return numbered(b);
}

/// Loads many tiles, then uses them all twice: more than a small SBUF holds.
nki::Program crowded_program(bool computed) {
    ProgramBuilder b;
    const int tiles = 12;
    const TensorId in = b.input({128, tiles * 256});
    const TensorId out = b.output({128, tiles * 256});
    std::vector<TensorId> held;
    for (int t = 0; t < tiles; ++t) {
        const TensorId x = b.tile(128, 256, computed ? t : 1);
        b.load(b.whole(x), b.window(in, 0, 128, t * 256, 256));
        if (computed) b.scalar(b.whole(x), AluOp::kMultiply, b.whole(x), 1.0 + t);
        held.push_back(x);
    }
    for (int t = 0; t < tiles; ++t) {
        const TensorId y = b.tile(128, 256, 30);
        const TensorId z = b.tile(128, 256, 31);
        b.tensor_tensor(b.whole(y), AluOp::kSubtract, b.whole(held[t]),
                        b.whole(held[tiles - 1 - t]));
        b.tensor_tensor(b.whole(z), AluOp::kMultiply, b.whole(y),
                        b.whole(held[(5 * t + 3) % tiles]));
        b.store(b.window(out, 0, 128, t * 256, 256), b.whole(z));
    }
    return numbered(b);
}

Machine small_machine() {
    Machine machine = testing::trn1();
    machine.streamed_partition_bytes = machine.resident_partition_bytes = 6 * 1024;
    machine.sbuf_partition_bytes = 9 * 1024;
    machine.hoist_partition_bytes = 5 * 1024;
    return machine;
}

std::int64_t count_of(const CompiledKernel& kernel, StreamOp op) {
    return std::count_if(kernel.stream.instructions.begin(), kernel.stream.instructions.end(),
                         [op](const Instruction& i) { return i.op == op; });
}

}  // namespace

TEST_CASE("Program order and completion order agree on tiled kernels", "[completion_order]") {
    require_agreement(streaming_program(24));
    require_agreement(product_program(false));
    require_agreement(product_program(true));
    require_agreement(crowded_program(false));
    require_agreement(crowded_program(true));
}

TEST_CASE("Instructions do complete in another order than the program's", "[completion_order]") {
    const nki::Program program = streaming_program(24);
    const CompiledKernel kernel = compile_kernel(program, testing::trn1());
    std::vector<std::int32_t> completed;
    for (const OrderStep& step : kernel.order) {
        if (step.kind == OrderStep::Kind::kComplete) completed.push_back(step.index);
    }
    REQUIRE(completed.size() == kernel.stream.instructions.size());
    CHECK_FALSE(std::is_sorted(completed.begin(), completed.end()));
}

TEST_CASE("Products of an accumulation group complete in program order", "[completion_order]") {
    const nki::Program program = product_program(false);
    const CompiledKernel kernel = compile_kernel(program, testing::trn1());
    std::map<std::int32_t, std::vector<std::int32_t>> groups;  // by PSUM tile
    for (const OrderStep& step : kernel.order) {
        if (step.kind != OrderStep::Kind::kComplete) continue;
        const Instruction& instruction = kernel.stream.instructions[step.index];
        if (instruction.op == StreamOp::kMatmul) {
            groups[instruction.dst.tile].push_back(step.index);
        }
    }
    REQUIRE(groups.size() == 2);
    for (const auto& [tile, products] : groups) {
        REQUIRE(products.size() == 4);
        CHECK(std::is_sorted(products.begin(), products.end()));
    }
}

TEST_CASE("Spilled and reloaded tiles keep their values", "[completion_order]") {
    const nki::Program program = crowded_program(true);
    const CompiledKernel kernel = compile_kernel(program, small_machine());
    REQUIRE(count_of(kernel, StreamOp::kSpill) > 0);
    REQUIRE(count_of(kernel, StreamOp::kReload) > 0);
    CHECK_FALSE(hazard_of(program, kernel).has_value());
}

TEST_CASE("Tiles that are loaded slice by slice keep their values", "[completion_order]") {
    const nki::Program program = crowded_program(false);
    Machine machine = small_machine();
    machine.stream_reuse_instructions = 2;
    const CompiledKernel kernel = compile_kernel(program, machine);
    REQUIRE_FALSE(kernel.stream.slices.empty());
    CHECK_FALSE(hazard_of(program, kernel).has_value());
}

TEST_CASE("A slice of a buffer that was loaded again holds the later values",
          "[completion_order]") {
    ProgramBuilder b;
    const TensorId in = b.input({128, 4 * 2048});
    const TensorId out = b.output({128, 4 * 128});
    const TensorId buffer = b.tile(128, 2048, 1);
    for (int t = 0; t < 4; ++t) {
        for (int half = 0; half < 2; ++half) {
            b.load(b.window(buffer, 0, 128, 1024 * half, 1024),
                   b.window(in, 0, 128, 2048 * t + 1024 * half, 1024));
        }
        const TensorId y = b.tile(128, 128, 2);
        // Reads a part of each half: one slice, brought by two loads.
        b.scalar(b.whole(y), AluOp::kAdd, b.window(buffer, 0, 128, 960, 128), 1.0);
        b.store(b.window(out, 0, 128, 128 * t, 128), b.whole(y));
    }
    const nki::Program program = numbered(b);
    const CompiledKernel kernel = compile_kernel(program, small_machine());
    REQUIRE_FALSE(kernel.stream.slices.empty());
    CHECK_FALSE(hazard_of(program, kernel).has_value());
}

TEST_CASE("A part of PSUM that nothing writes holds zeros before the other part is written",
          "[completion_order]") {
    ProgramBuilder b;
    const TensorId in = b.input({31, 25});
    const TensorId out = b.output({114, 25});
    const TensorId x = b.tile(31, 25, 1);
    const TensorId p = b.psum(114, 25, 2);
    b.load(b.whole(x), b.whole(in));
    b.add(Opcode::kMemset, b.whole(p)).implicit = true;
    b.activation(b.window(p, 0, 31, 0, 25), nki::ActFunction::kExp, b.whole(x));
    b.store(b.window(out, 0, 83, 0, 25), b.window(p, 0, 83, 0, 25));
    b.store(b.window(out, 83, 31, 0, 25), b.window(p, 83, 31, 0, 25));
    require_agreement(numbered(b));
}

TEST_CASE("A DMA can be the first to use a part of PSUM", "[completion_order]") {
    ProgramBuilder b;
    const TensorId in = b.input({128 * 12, 512});
    const TensorId out = b.output({128 * 12, 512});
    for (int step = 0; step < 12; ++step) {  // more than the eight banks
        const TensorId p = b.psum(128, 512, 1);
        const TensorId y = b.tile(128, 512, 2);
        b.load(b.whole(p), b.window(in, 128 * step, 128, 0, 512));
        b.scalar(b.whole(y), AluOp::kMultiply, b.whole(p), 0.5);
        b.store(b.window(out, 128 * step, 128, 0, 512), b.whole(y));
    }
    const nki::Program program = numbered(b);
    require_agreement(program);
    const CompiledKernel kernel = compile_kernel(program, testing::trn1());
    const auto given = std::count_if(
        kernel.order.begin(), kernel.order.end(),
        [](const OrderStep& step) { return step.kind == OrderStep::Kind::kAllocate; });
    CHECK(static_cast<std::size_t>(given) == kernel.schedule.allocations.size());
}

TEST_CASE("Values of a rewritten buffer keep apart when they get tiles of their own",
          "[completion_order]") {
    ProgramBuilder b;
    const TensorId in = b.input({128 * 16, 200});
    const TensorId out = b.output({128 * 16, 200});
    const TensorId buffer = b.tile(128, 256, 1);
    for (int step = 0; step < 16; ++step) {
        const TensorId y = b.tile(128, 200, 2);
        b.load(b.window(buffer, 0, 128, 0, 200), b.window(in, 128 * step, 128, 0, 200));
        b.scalar(b.whole(y), AluOp::kMultiply, b.window(buffer, 0, 128, 0, 200), 0.5);
        b.store(b.window(out, 128 * step, 128, 0, 200), b.whole(y));
    }
    require_agreement(numbered(b));
}

TEST_CASE("Broadcasts that are read in PSUM keep their values", "[completion_order]") {
    ProgramBuilder b;
    const TensorId rows = b.input({24, 300});
    const TensorId in = b.input({128, 300});
    const TensorId out = b.output({128 * 24, 300});
    const TensorId x = b.tile(128, 300, 1);
    b.load(b.whole(x), b.whole(in));
    for (int step = 0; step < 24; ++step) {
        const TensorId row = b.tile(1, 300, 2);
        const TensorId wide = b.tile(128, 300, 3);
        const TensorId y = b.tile(128, 300, 4);
        b.load(b.whole(row), b.window(rows, step, 1, 0, 300));
        b.add(Opcode::kPartitionBroadcast, b.whole(wide), {b.whole(row)});
        b.tensor_tensor(b.whole(y), AluOp::kMultiply, b.whole(x), b.whole(wide));
        b.store(b.window(out, 128 * step, 128, 0, 300), b.whole(y));
    }
    require_agreement(numbered(b));
}

TEST_CASE("Broadcasts wider than a PSUM bank and merged transposes keep their values",
          "[completion_order]") {
    ProgramBuilder b;
    const TensorId row = b.input({1, 1200});
    const TensorId in = b.input({64, 96});
    const TensorId out = b.output({128, 1200});
    const TensorId turned = b.output({96, 128});
    const TensorId g = b.tile(1, 1200, 1);
    b.load(b.whole(g), b.whole(row));
    const TensorId wide = b.tile(128, 1200, 2);
    b.add(Opcode::kPartitionBroadcast, b.whole(wide), {b.whole(g)});
    b.store(b.whole(out), b.whole(wide));
    for (int t = 0; t < 2; ++t) {
        const TensorId x = b.tile(64, 96, 3);
        const TensorId p = b.psum(96, 64, 4);
        const TensorId y = b.tile(96, 64, 5);
        b.load(b.whole(x), b.whole(in));
        b.transpose(b.whole(p), b.whole(x), t == 1);
        b.copy(b.whole(y), b.whole(p));
        b.store(b.window(turned, 0, 96, 64 * t, 64), b.whole(y));
    }
    require_agreement(numbered(b));
}

TEST_CASE("Two stores to one output element keep their order", "[completion_order][X01]") {
    ProgramBuilder b;
    const TensorId in = b.input({128, 512});
    const TensorId out = b.output({128, 512});
    const TensorId zero = b.tile(128, 512, 1);
    b.add(Opcode::kMemset, b.whole(zero));
    // A large store first, then small ones over it that would finish earlier.
    b.store(b.whole(out), b.whole(zero));
    for (int t = 0; t < 4; ++t) {
        const TensorId x = b.tile(128, 64, 2);
        b.load(b.whole(x), b.window(in, 0, 128, 64 * t, 64));
        b.store(b.window(out, 0, 128, 64 * t, 64), b.whole(x));
    }
    require_agreement(numbered(b));
}

TEST_CASE("A carried dependency is timed as one whatever the loop is called",
          "[completion_order][X21]") {
    const auto prefix_sums = [](const char* kind) {
        ProgramBuilder b;
        b.program.loops.push_back({-1, "i", kind, 32, 1});
        const TensorId in = b.input({128, 32});
        const TensorId out = b.output({128, 32});
        const TensorId x = b.tile(128, 32, 1);
        const TensorId y = b.tile(128, 32, 2);
        b.load(b.whole(x), b.whole(in));
        b.copy(b.window(y, 0, 128, 0, 1), b.window(x, 0, 128, 0, 1));
        for (int i = 1; i < 32; ++i) {
            b.tensor_tensor(b.window(y, 0, 128, i, 1), AluOp::kAdd, b.window(y, 0, 128, i - 1, 1),
                            b.window(x, 0, 128, i, 1))
                .loop = 0;
        }
        b.store(b.whole(out), b.whole(y));
        return numbered(b);
    };
    const Machine machine = testing::trn1();
    const nki::Program affine = prefix_sums("affine_range");
    require_agreement(affine);
    const CompiledKernel a = compile_kernel(affine, machine);
    const CompiledKernel s = compile_kernel(prefix_sums("sequential_range"), machine);
    CHECK(simulate(a.stream, a.schedule, machine).latency_ns ==
          simulate(s.stream, s.schedule, machine).latency_ns);
    // A model that believed the annotation would show here.
    CompiledKernel broken = a;
    for (int line = 3; line < 33; ++line) {
        drop_dependency(broken.schedule, node_at(broken.stream, line),
                        node_at(broken.stream, line + 1));
    }
    // The engine would still take them in order; a model of many lanes would not.
    for (std::size_t k = 2; k < broken.stream.instructions.size() - 1; k += 2) {
        broken.stream.instructions[k].requested = nki::Engine::kGpSimd;
    }
    simulate_again(broken, machine);
    const auto hazard = hazard_of(affine, broken);
    REQUIRE(hazard.has_value());
    CHECK(hazard->outcome == "rejected");
    CHECK(hazard->code == "hazard");
}

TEST_CASE("Both executions agree whichever mechanism is off", "[completion_order]") {
    const auto agrees = [](const nki::Program& program, const Machine& machine, Mechanisms on) {
        return !hazard_of(program, compile_kernel(program, machine, on)).has_value();
    };
    const nki::Program streaming = streaming_program(3);
    const nki::Program crowded = crowded_program(true);
    for (const MechanismInfo& info : kMechanisms) {
        CAPTURE(info.name);
        const Mechanisms on = Mechanisms().without(info.mechanism);
        CHECK(agrees(streaming, testing::trn1(), on));
        CHECK(agrees(crowded, small_machine(), on));
    }
    CHECK(agrees(crowded, testing::trn1(), Mechanisms::none()));
}

TEST_CASE("A dropped read-after-write dependency is a hazard", "[completion_order]") {
    const nki::Program program = streaming_program(3);
    const Machine machine = testing::trn1();
    CompiledKernel kernel = compile_kernel(program, machine);
    // Line 6 is the exponential of the second tile, line 5 its load.
    drop_dependency(kernel.schedule, node_at(kernel.stream, 5), node_at(kernel.stream, 6));
    simulate_again(kernel, machine);
    const auto hazard = hazard_of(program, kernel);
    REQUIRE(hazard.has_value());
    CHECK(hazard->code == "hazard");
    CHECK(hazard->line == 6);
    INFO(hazard->message);
    CHECK(mentions(*hazard, "'[0, 64]"));
    CHECK(mentions(*hazard, "activation (line 6) reads before load (line 5) has written"));
}

TEST_CASE("A dropped write-after-read dependency is a hazard", "[completion_order]") {
    ProgramBuilder b;
    const TensorId in = b.input({128, 64});
    const TensorId out = b.output({128, 128});
    const TensorId x = b.tile(128, 64, 1);
    const TensorId slow = b.tile(128, 2048, 2);
    const TensorId y = b.tile(128, 64, 3);
    b.load(b.whole(x), b.whole(in));                      // 1
    b.add(Opcode::kMemset, b.whole(slow));                // 2
    b.tensor_tensor(b.whole(y), AluOp::kAdd, b.whole(x),  // 3: waits for 2
                    b.window(slow, 0, 128, 0, 64));
    b.scalar(b.whole(x), AluOp::kMultiply, b.whole(x), 3.0);  // 4: overwrites x
    b.store(b.window(out, 0, 128, 0, 64), b.whole(y));        // 5
    b.store(b.window(out, 0, 128, 64, 64), b.whole(x));       // 6
    const nki::Program program = numbered(b);
    const Machine machine = testing::trn1();
    CompiledKernel kernel = compile_kernel(program, machine);
    REQUIRE_FALSE(hazard_of(program, kernel).has_value());
    drop_dependency(kernel.schedule, node_at(kernel.stream, 3), node_at(kernel.stream, 4));
    simulate_again(kernel, machine);
    const auto hazard = hazard_of(program, kernel);
    REQUIRE(hazard.has_value());
    INFO(hazard->message);
    CHECK(hazard->line == 3);
    CHECK(mentions(*hazard, "reads after tensor_scalar (line 4) has overwritten it"));
}

TEST_CASE("Loads merged across a store to their tensor are a hazard", "[completion_order]") {
    ProgramBuilder b;
    const TensorId in = b.input({128, 64});
    const TensorId scratch = b.hbm({128, 64}, nki::TensorRole::kScratch);
    const TensorId out = b.output({128, 128});
    for (int t = 0; t < 2; ++t) {
        const TensorId x = b.tile(128, 64, 1);
        const TensorId y = b.tile(128, 64, 2);
        const TensorId again = b.tile(128, 64, 3);
        b.load(b.whole(x), b.whole(in));
        b.scalar(b.whole(y), AluOp::kMultiply, b.whole(x), 2.0 + t);
        b.store(b.whole(scratch), b.whole(y));
        b.load(b.whole(again), b.whole(scratch));
        b.store(b.window(out, 0, 128, 64 * t, 64), b.whole(again));
    }
    const nki::Program program = numbered(b);
    const Machine machine = testing::trn1();
    require_agreement(program);
    CompiledKernel kernel;
    kernel.stream = lower(program, machine);
    for (Tile& tile : kernel.stream.tiles) {
        if (tile.tensor == scratch) tile.read_only = true;  // what a careless pass would believe
    }
    compile(kernel.stream, machine);
    kernel.schedule = make_schedule(kernel.stream, machine);
    simulate_again(kernel, machine);
    const auto hazard = hazard_of(program, kernel);
    REQUIRE(hazard.has_value());
    INFO(hazard->message);
    CHECK(hazard->line == 10);
    CHECK(mentions(*hazard, "what load (line 4) wrote instead of what load (line 9) wrote"));
}

TEST_CASE("A reload before the spill is a hazard", "[completion_order]") {
    const nki::Program program = crowded_program(true);
    const Machine machine = small_machine();
    CompiledKernel kernel = compile_kernel(program, machine);
    std::int32_t spill = -1;
    std::int32_t reload = -1;
    for (std::size_t k = 0; k < kernel.stream.instructions.size(); ++k) {
        const Instruction& instruction = kernel.stream.instructions[k];
        if (instruction.op != StreamOp::kReload) continue;
        reload = static_cast<std::int32_t>(k);
        for (std::size_t s = 0; s < k; ++s) {
            const Instruction& earlier = kernel.stream.instructions[s];
            if (earlier.op == StreamOp::kSpill && earlier.dst.tile == instruction.src[0].tile)
                spill = static_cast<std::int32_t>(s);
        }
        break;
    }
    REQUIRE(spill >= 0);
    // A pass that loses the dependency and puts the reload first.
    kernel.order.erase(std::remove_if(kernel.order.begin(), kernel.order.end(),
                                      [&](const OrderStep& step) {
                                          return step.kind == OrderStep::Kind::kComplete &&
                                                 step.index == spill;
                                      }),
                       kernel.order.end());
    const auto at = std::find_if(kernel.order.begin(), kernel.order.end(), [&](const auto& step) {
        return step.kind == OrderStep::Kind::kComplete && step.index == reload;
    });
    kernel.order.insert(at + 1, OrderStep{OrderStep::Kind::kComplete, spill});
    const auto hazard = hazard_of(program, kernel);
    REQUIRE(hazard.has_value());
    INFO(hazard->message);
    CHECK(mentions(*hazard, "is loaded again before it is spilled"));
}

TEST_CASE("Memory that is given to another tile too early is a hazard", "[completion_order]") {
    const nki::Program program = streaming_program(12);
    Machine machine = testing::trn1();
    machine.rotation_extra_buffers = 0;
    CompiledKernel kernel = compile_kernel(program, machine);
    // The tiles of x are forgotten after their first reader: rotation gives them away too early.
    for (Allocation& allocation : kernel.schedule.allocations) {
        if (kernel.stream.tiles[allocation.tile].tensor % 3 == 2) allocation.users = 2;
    }
    simulate_again(kernel, machine);
    const auto hazard = hazard_of(program, kernel);
    REQUIRE(hazard.has_value());
    INFO(hazard->message);
    CHECK(mentions(*hazard, "was given to another tile too early"));
}

TEST_CASE("Placed tiles that share bytes agree, unless one is written before the other is read",
          "[completion_order]") {
    ProgramBuilder b;
    const TensorId in = b.input({128, 1024});
    const TensorId out = b.output({128, 1024});
    for (int step = 0; step < 4; ++step) {  // every second tile is half over the one before it
        const TensorId x = b.tile(128, 256, 1);
        b.program.tensors[x].placements.push_back({0, 4096 + 512 * (step % 2)});
        b.load(b.whole(x), b.window(in, 0, 128, 256 * step, 256));
        TensorId y = x;
        for (int k = 0; k < 16; ++k) {  // longer than a transfer
            const TensorId product = b.tile(128, 256, 2);
            b.program.tensors[product].placements.push_back({0, 16384 + 1024 * (k + 16 * step)});
            b.tensor_tensor(b.whole(product), AluOp::kMultiply, b.whole(x), b.whole(y));
            y = product;
        }
        b.store(b.window(out, 0, 128, 256 * step, 256), b.whole(y));
    }
    const nki::Program program = numbered(b);
    const Machine machine = testing::trn1();
    require_agreement(program);
    CompiledKernel kernel = compile_kernel(program, machine);
    const std::int32_t load = node_at(kernel.stream, 19);
    REQUIRE(kernel.stream.instructions[load].op == StreamOp::kLoad);
    for (std::int32_t reader = 1; reader < load; ++reader)
        drop_dependency(kernel.schedule, reader, load);
    simulate_again(kernel, machine);
    CHECK(hazard_of(program, kernel).has_value());
}

TEST_CASE("The memory limit also holds for the execution in completion order",
          "[completion_order]") {
    const nki::Program program = crowded_program(true);
    const CompiledKernel kernel = compile_kernel(program, testing::trn1());
    const Inputs inputs(program);
    ExecutionLimits limits;
    limits.memory_bytes = 1'000'000;
    const auto result = execute_completion_order(program, kernel, inputs.arrays(), limits);
    REQUIRE_FALSE(result.ok());
    CHECK(result.error().outcome == "resource_limit");
    CHECK(result.error().code == "memory");
}

namespace {

/// A random program over a handful of buffers that are rewritten, updated in place, written in
/// parts, accumulated into, spilled to scratch tensors and read back.
nki::Program random_program(std::uint64_t seed) {
    RandomStream random(seed);
    const auto draw = [&](int n) {
        return static_cast<int>(random.below(static_cast<std::uint64_t>(n)));
    };
    ProgramBuilder b;
    const TensorId in = b.input({256, 512});
    const TensorId scratch = b.hbm({128, 512}, nki::TensorRole::kScratch);
    const TensorId out = b.output({128, 1024});
    std::vector<TensorId> tiles;
    for (int t = 0; t < 6; ++t) {
        tiles.push_back(b.tile(128, 256, 1 + draw(4)));
        b.load(b.whole(tiles.back()), b.window(in, 128 * draw(2), 128, draw(257), 256));
    }
    const TensorId first = b.tile(128, 512, 20);
    b.add(Opcode::kMemset, b.whole(first));
    b.store(b.whole(scratch), b.whole(first));
    const auto any = [&] {
        return tiles[static_cast<std::size_t>(draw(static_cast<int>(tiles.size())))];
    };
    const auto part = [&](TensorId tile, int width) {
        return b.window(tile, 0, 128, draw(257 - width), width);
    };
    for (int step = 0; step < 60; ++step) {
        const int width = 1 << draw(9);
        switch (draw(9)) {
            case 0:
                b.load(part(any(), width),
                       b.window(in, 128 * draw(2), 128, draw(513 - width), width));
                break;
            case 1:
                b.scalar(part(any(), width), AluOp::kMultiply, part(any(), width), 0.5);
                break;
            case 2:
                b.tensor_tensor(part(any(), width), AluOp::kSubtract, part(any(), width),
                                part(any(), width));
                break;
            case 3:
                b.store(b.window(scratch, 0, 128, draw(513 - width), width), part(any(), width));
                break;
            case 4:
                b.load(part(any(), width), b.window(scratch, 0, 128, draw(513 - width), width));
                break;
            case 5: {
                const TensorId sum = b.psum(128, 128, 30);
                for (int k = 0; k < 1 + draw(3); ++k) {
                    b.matmul(b.whole(sum), part(any(), 128), part(any(), 128), k > 0);
                }
                b.scalar(part(any(), 128), AluOp::kMultiply, b.whole(sum), 0.01);
                break;
            }
            case 6: {
                tiles[static_cast<std::size_t>(draw(6))] = b.tile(128, 256, 1 + draw(4));
                const TensorId fresh = any();
                b.load(b.whole(fresh), b.window(in, 0, 128, draw(257), 256));
                for (const TensorId tile : tiles) {
                    if (tile != fresh && draw(3) == 0) b.copy(b.whole(tile), b.whole(fresh));
                }
                break;
            }
            case 7: {
                const TensorId turned = b.psum(128, 128, 31);
                b.transpose(b.whole(turned), part(any(), 128), draw(2) == 0);
                b.copy(part(any(), 128), b.whole(turned));
                break;
            }
            case 8:
                b.store(b.window(out, 0, 128, draw(1025 - width), width), part(any(), width));
                break;
        }
    }
    for (int t = 0; t < 4; ++t) {
        b.store(b.window(out, 0, 128, 256 * t, 256), b.whole(tiles[static_cast<std::size_t>(t)]));
    }
    return numbered(b);
}

}  // namespace

TEST_CASE("Execution on demand gives the same bits as program order", "[execution_plan]") {
    for (std::uint64_t seed = 1; seed <= 60; ++seed) {
        const nki::Program program = random_program(seed);
        const Inputs inputs(program, seed);
        const auto arrays = inputs.arrays();
        auto expected = execute(program, arrays, {});
        REQUIRE(expected.ok());
        const auto order = execution::demand_order(program);
        REQUIRE_FALSE(order.empty());
        const execution::SingleThread single_thread;
        const execution::TileTable tiles(program, order);
        execution::TileMemory memory(program, tiles, arrays, 1 << 30);
        execution::Executor executor(program, memory);
        for (std::size_t i = 0; i < order.size(); ++i) {
            executor.run(program.operations[static_cast<std::size_t>(order[i])]);
            memory.release(static_cast<std::int64_t>(i));
        }
        const auto outputs = executor.take_outputs();
        INFO("seed " << seed);
        REQUIRE(outputs.size() == expected->size());
        CHECK(outputs[0].bytes == (*expected)[0].bytes);
        CHECK(outputs[0].unwritten_elements == (*expected)[0].unwritten_elements);
    }
}

TEST_CASE("Intermediate results far beyond inputs and outputs need little memory",
          "[execution_plan][N13]") {
    // All scores first, all uses later, as an attention does: 160 MiB of intermediate results
    // between 1 MiB of inputs and outputs.
    ProgramBuilder b;
    const TensorId in = b.input({128, 1024});
    const TensorId out = b.output({128, 640});
    const TensorId x = b.tile(128, 1024, 1);
    b.load(b.whole(x), b.whole(in));
    const TensorId score = b.tile(128, 512, 2, nki::Buffer::kSbuf, 640);
    for (int t = 0; t < 640; ++t) {
        b.scalar(b.whole(score, t), AluOp::kMultiply, b.window(x, 0, 128, t % 512, 512), 1.0 + t);
    }
    for (int t = 0; t < 640; ++t) {
        const TensorId sum = b.tile(128, 1, 3);
        b.reduce(b.whole(sum), AluOp::kAdd, b.whole(score, t));
        b.store(b.window(out, 0, 128, t, 1), b.whole(sum));
    }
    const nki::Program program = numbered(b);
    const Inputs inputs(program);
    ExecutionLimits limits;
    limits.memory_bytes = 8 << 20;
    const auto frugal = execute(program, inputs.arrays(), limits);
    REQUIRE(frugal.ok());
    limits.program_order = true;
    const auto refused = execute(program, inputs.arrays(), limits);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().code == "memory");
    limits.memory_bytes = 1 << 30;
    const auto plain = execute(program, inputs.arrays(), limits);
    REQUIRE(plain.ok());
    CHECK((*frugal)[0].bytes == (*plain)[0].bytes);
}

TEST_CASE("Both orders agree on random programs", "[completion_order]") {
    std::vector<Machine> machines(3, testing::trn1());
    machines[1].streamed_partition_bytes = machines[1].resident_partition_bytes = 4 * 1024;
    machines[1].hoist_partition_bytes = 8 * 1024;
    machines[1].stream_reuse_instructions = 3;
    machines[2].streamed_partition_bytes = machines[2].resident_partition_bytes = 3 * 1024;
    machines[2].sbuf_partition_bytes = 8 * 1024;
    machines[2].rotation_extra_buffers = 0;
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
        const nki::Program program = random_program(seed);
        for (std::size_t m = 0; m < machines.size(); ++m) {
            const auto hazard = hazard_of(program, machines[m]);
            INFO("seed " << seed << ", machine " << m << ": " << (hazard ? hazard->message : ""));
            REQUIRE_FALSE(hazard.has_value());
        }
    }
}

}  // namespace accelopt::trainium
