#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "core/rng.h"
#include "timing_programs.h"
#include "timing_structures.h"
#include "trainium/machine_fields.h"
#include "trainium/timing.h"
#include "trainium/timing_costs.h"
#include "trainium/timing_schedule.h"
#include "trainium/timing_simulate.h"

// A better machine, or less work, is not slower by more than a stated bound. It may be slower by a
// little: README.md says why (list scheduling has anomalies).

using namespace accelopt;
using namespace accelopt::trainium;
using namespace accelopt::trainium::testing;
using nki::ActFunction;
using nki::AluOp;

namespace {

/// Largest slow-down of a stream of a few hundred instructions by a change that should help it.
constexpr double kSteadyBound = 0.06;
/// The same of the structures of real kernels.
constexpr double kKernelBound = 0.01;

/// Loop bodies like those of kernels: loads, products, elementwise work on fresh tiles, stores.
ProgramBuilder random_kernel(std::uint64_t seed, int iterations) {
    RandomStream random = RandomStream::keyed(seed, "timing/random_kernel");
    ProgramBuilder b;
    const auto in = b.input({128 * iterations, 512});
    const auto out = b.output({128 * iterations, 512});
    const auto weights = b.tile(128, 512, 1);
    b.load(b.whole(weights), b.window(in, 0, 128, 0, 512));
    std::vector<int> body;
    const auto steps = 2 + random.below(10);
    for (std::uint64_t s = 0; s < steps; ++s) body.push_back(static_cast<int>(random.below(5)));
    const auto width = static_cast<std::int64_t>(64 << random.below(4));
    for (int i = 0; i < iterations; ++i) {
        auto x = b.tile(128, 512, 2);
        b.load(b.whole(x), b.window(in, 128 * i, 128, 0, 512));
        for (std::size_t s = 0; s < body.size(); ++s) {
            const auto y = b.tile(128, 512, static_cast<int>(10 + s));
            const auto part = [&](nki::TensorId t) { return b.window(t, 0, 128, 0, width); };
            switch (body[s]) {
                case 0: {
                    const auto p = b.psum(128, 512, static_cast<int>(40 + s));
                    b.matmul(part(p), b.window(weights, 0, 128, 0, 128), part(x));
                    b.copy(part(y), part(p));
                    break;
                }
                case 1:
                    b.activation(part(y), ActFunction::kExp, part(x));
                    break;
                case 2:
                    b.tensor_tensor(part(y), AluOp::kAdd, part(x), part(weights));
                    break;
                case 3:
                    b.scalar(part(y), AluOp::kMultiply, part(x), 0.5).engine = nki::Engine::kVector;
                    break;
                default:
                    b.tensor_tensor(part(y), AluOp::kAdd, part(x), part(weights)).engine =
                        nki::Engine::kGpSimd;
            }
            if (random.below(4) != 0) x = y;  // else a value nothing waits for
        }
        b.store(b.window(out, 128 * i, 128, 0, 512), b.whole(x));
    }
    return b;
}

double latency_ns(const Stream& stream, const Machine& machine) {
    return simulate(stream, make_schedule(stream, machine), machine).latency_ns;
}

struct Change {
    std::string name;
    void (*apply)(Machine&);
};
const Change kImprovements[] = {
    {"twice the DMA rate",
     [](Machine& m) {
         m.dma_queue_bytes_per_ns *= 2;
         m.dma_transfer_min_ns /= 2;
     }},
    {"a tenth more DMA rate", [](Machine& m) { m.dma_queue_bytes_per_ns *= 1.1; }},
    {"no time per descriptor", [](Machine& m) { m.dma_descriptor_ns = 0; }},
    {"half the DMA latency", [](Machine& m) { m.dma_fixed_ns /= 2; }},
    {"no result latency", [](Machine& m) { m.result_latency_ns = 0; }},
    {"a faster TensorE", [](Machine& m) { m.tensor_ghz *= 1.25; }},
    {"a faster VectorE", [](Machine& m) { m.vector_ghz *= 1.25; }},
    {"a faster ScalarE", [](Machine& m) { m.scalar_ghz *= 1.25; }},
    {"a wider window", [](Machine& m) { ++m.engine_window; }},
    {"one more buffer", [](Machine& m) { ++m.rotation_extra_buffers; }},
    {"more SBUF", [](Machine& m) { m.working_slack_bytes += 64 * 1024; }},
    {"ports of their own", [](Machine& m) { m.shared_sbuf_port = m.shared_psum_port = 0; }},
    {"twice the PSUM banks", [](Machine& m) { m.psum_partition_bytes *= 2; }},
};

/// Remembers the largest slow-down and where it was.
struct Worst {
    double slower = 0;
    std::string where;
    void see(double before, double after, const std::string& what) {
        if (after / before - 1 <= slower) return;
        slower = after / before - 1;
        where = what;
    }
};

}  // namespace

TEST_CASE("a better machine is not slower by more than the bound, on random kernels") {
    Worst worst;
    double faster = 0;
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
        const Stream stream = lower(random_kernel(seed, 24).program, trn1());
        const double before = latency_ns(stream, trn1());
        for (const Change& change : kImprovements) {
            Machine machine = trn1();
            change.apply(machine);
            const double after = latency_ns(stream, machine);
            worst.see(before, after, change.name + ", seed " + std::to_string(seed));
            faster = std::max(faster, before / after - 1);
        }
    }
    INFO("slower by " << worst.slower << ": " << worst.where);
    CHECK(worst.slower <= kSteadyBound);
    CHECK(faster > 0.3);  // the improvements do matter
}

TEST_CASE("one instruction fewer is not slower by more than the bound, on random kernels") {
    Worst worst;
    for (std::uint64_t seed = 0; seed < 60; ++seed) {
        const Stream stream = lower(random_kernel(seed, 24).program, trn1());
        const double before = latency_ns(stream, trn1());
        RandomStream random = RandomStream::keyed(seed, "timing/removed");
        for (int trial = 0; trial < 12; ++trial) {
            const auto at = random.below(stream.instructions.size());
            Stream shorter = stream;
            shorter.instructions.erase(shorter.instructions.begin() +
                                       static_cast<std::ptrdiff_t>(at));
            worst.see(before, latency_ns(shorter, trn1()),
                      "instruction " + std::to_string(at) + ", seed " + std::to_string(seed));
        }
    }
    INFO("slower by " << worst.slower << ": " << worst.where);
    CHECK(worst.slower <= kSteadyBound);
}

TEST_CASE("a better machine is hardly ever slower on the structures of published kernels") {
    Worst worst;
    for (auto* structure : {silu_structure, rope_structure, rmsnorm_matmul_structure}) {
        const Stream stream = lower(structure(), trn1());
        const double before = *predict_stream(stream, trn1()).compiled.latency;
        for (const Change& change : kImprovements) {
            Machine machine = trn1();
            change.apply(machine);
            worst.see(before, *predict_stream(stream, machine).compiled.latency, change.name);
        }
    }
    INFO("slower by " << worst.slower << ": " << worst.where);
    CHECK(worst.slower <= kKernelBound);
}

TEST_CASE("engines in order and DMAs one by one are never faster than the bounds allow") {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
        const Stream stream = lower(random_kernel(seed, 24).program, trn1());
        Machine in_order = trn1();
        in_order.engine_window = 1;
        in_order.dma_window = 1;
        in_order.dma_in_flight = 1;
        const SimulationResult loose = simulate(stream, make_schedule(stream, trn1()), trn1());
        const SimulationResult strict = simulate(stream, make_schedule(stream, in_order), in_order);
        const double busiest =
            *std::max_element(std::begin(loose.busy_ns), std::end(loose.busy_ns));
        CAPTURE(seed);
        // Busy times do not depend on the order.
        for (int u = 0; u < kUnits; ++u) CHECK(strict.busy_ns[u] == Approx(loose.busy_ns[u]));
        CHECK(loose.latency_ns >= busiest);
        CHECK(strict.latency_ns >= 0.98 * loose.latency_ns);
    }
}
