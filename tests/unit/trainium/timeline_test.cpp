#include "trainium/timeline.h"

#include <catch2/catch.hpp>
#include <map>

#include "timing_programs.h"
#include "trainium/timing_simulate.h"

using namespace accelopt;
using namespace accelopt::trainium;
using namespace accelopt::trainium::testing;
using nki::ActFunction;
using nki::AluOp;

namespace {

struct Recorded {
    Stream stream;
    Schedule schedule;
    SimulationResult result;
    Timeline timeline;
};

Recorded record(const ProgramBuilder& b, const Machine& machine = trn1()) {
    Recorded r;
    r.stream = lower(b.program, machine);
    r.schedule = make_schedule(r.stream, machine);
    r.timeline.keep_queues = true;
    r.result = simulate(r.stream, r.schedule, machine, nullptr, &r.timeline);
    return r;
}

/// What every timeline must satisfy.
void check_sound(const Recorded& r) {
    REQUIRE(r.timeline.spans.size() == r.stream.instructions.size());
    REQUIRE(r.timeline.issue_order.size() == r.stream.instructions.size());
    CHECK(r.timeline.latency_ns == r.result.latency_ns);
    std::vector<std::int32_t> place(r.timeline.spans.size(), -1);
    for (std::size_t i = 0; i < r.timeline.issue_order.size(); ++i) {
        place[r.timeline.issue_order[i]] = static_cast<std::int32_t>(i);
    }
    for (std::size_t k = 0; k < r.timeline.spans.size(); ++k) {
        const InstructionSpan& span = r.timeline.spans[k];
        CAPTURE(k);
        CHECK(span.start_ns >= r.timeline.startup_ns);
        CHECK(span.done_ns() <= r.timeline.latency_ns - r.timeline.startup_ns + 0.1);
        if (span.waited_for < 0) continue;
        CHECK(place[span.waited_for] < place[k]);  // walking back always ends
        CHECK(r.timeline.spans[span.waited_for].start_ns <= span.start_ns + 0.01);
    }
    for (const MemorySpan& memory : r.timeline.memory) {
        CHECK(memory.given_ns >= r.timeline.startup_ns);
        CHECK(memory.taken_ns >= memory.given_ns);
    }
    std::map<int, double> free_ns;
    double busy_ns = 0;
    for (const QueueSpan& queue : r.timeline.queues) {
        CHECK(queue.start_ns >= free_ns[queue.queue] - 0.01);
        free_ns[queue.queue] = queue.start_ns + static_cast<double>(queue.busy_ns);
        busy_ns += static_cast<double>(queue.busy_ns);
    }
    CHECK(busy_ns / 16 == Approx(r.result.busy_ns[static_cast<int>(Unit::kDma)]).margin(1e-6));
}

}  // namespace

TEST_CASE("a dependent chain is recorded end to end, each link waiting for the one before") {
    ProgramBuilder b;
    const auto in = b.input({128, 512});
    const auto out = b.output({128, 512});
    const auto x = b.tile(128, 512, 1);
    const auto y = b.tile(128, 512, 2);
    b.load(b.whole(x), b.whole(in));
    b.activation(b.whole(y), ActFunction::kExp, b.whole(x));
    b.store(b.whole(out), b.whole(y));
    const Recorded r = record(b);
    check_sound(r);
    const auto& spans = r.timeline.spans;
    CHECK(spans[0].start_ns == 4000);
    CHECK(spans[0].waited_for == -1);
    CHECK(spans[0].wait == Wait::kNothing);
    for (int k = 1; k < 3; ++k) {
        CHECK(spans[k].waited_for == k - 1);
        CHECK(spans[k].wait == Wait::kOperand);
        CHECK(spans[k].start_ns == Approx(spans[k - 1].done_ns()));
    }
    CHECK(spans[1].unit == Unit::kAct);
    CHECK(static_cast<double>(spans[1].busy_ns) == Approx((512 + 64) / 1.4));
    CHECK(spans[2].done_ns() + 4000 == Approx(r.result.latency_ns));
    // x lives from the start to the end of the activation, y until the store is done.
    REQUIRE(r.timeline.memory.size() == 2);
    CHECK(r.timeline.memory[0].given_ns == 4000);
    CHECK(r.timeline.memory[0].taken_ns == Approx(spans[1].done_ns()));
    CHECK(r.timeline.memory[1].taken_ns == Approx(spans[2].done_ns()));
}

TEST_CASE("a busy engine is what the next instruction waits for") {
    ProgramBuilder b;
    const auto x = b.tile(128, 512, 1);
    for (int i = 0; i < 3; ++i)
        b.activation(b.whole(b.tile(128, 512, 2)), ActFunction::kExp, b.whole(x));
    const Recorded r = record(b);
    check_sound(r);
    CHECK(r.timeline.spans[0].wait == Wait::kNothing);
    CHECK(r.timeline.spans[1].wait == Wait::kEngine);
    CHECK(r.timeline.spans[2].wait == Wait::kEngine);
    CHECK(r.timeline.spans[2].waited_for == 1);
}

TEST_CASE("a busy queue is what the next transfer waits for") {
    ProgramBuilder b;
    const auto in = b.input({256, 512});
    b.load(b.whole(b.tile(128, 512, 1)), b.window(in, 0, 128, 0, 512));
    b.load(b.whole(b.tile(128, 512, 2)), b.window(in, 128, 128, 0, 512));
    const Recorded r = record(b);
    check_sound(r);
    const InstructionSpan& second = r.timeline.spans[1];
    CHECK(second.wait == Wait::kQueue);
    CHECK(second.waited_for == 0);
    CHECK(second.issued_ns() == Approx(4000));
    CHECK(second.start_ns == Approx(r.timeline.spans[0].free_ns()));
    CHECK(r.timeline.queues.size() == 32);
}

TEST_CASE("transfers wait for the limit in flight, and name the one that made room") {
    Machine machine = trn1();
    machine.dma_in_flight = 1;
    ProgramBuilder b;
    const auto in = b.input({16, 512});
    b.load(b.whole(b.tile(8, 512, 1)), b.window(in, 0, 8, 0, 512));
    b.load(b.whole(b.tile(8, 512, 2)), b.window(in, 8, 8, 0, 512));
    const Recorded r = record(b, machine);
    check_sound(r);
    CHECK(r.timeline.spans[1].wait == Wait::kTransfers);
    CHECK(r.timeline.spans[1].waited_for == 0);
    CHECK(r.timeline.spans[1].start_ns == Approx(r.timeline.spans[0].done_ns()));
}

TEST_CASE("a load waits for the memory that the last user of a rotating buffer gives back") {
    Machine machine = trn1();
    machine.rotation_extra_buffers = 0;
    ProgramBuilder b;
    const auto in = b.input({384, 512});
    for (int i = 0; i < 3; ++i) {  // two buffers: the third load waits for the first
        const auto x = b.tile(128, 512, 1);
        b.load(b.whole(x), b.window(in, 128 * i, 128, 0, 512));
        b.activation(b.whole(b.tile(128, 512, 2)), ActFunction::kExp, b.whole(x));
    }
    const Recorded r = record(b, machine);
    check_sound(r);
    CHECK(r.timeline.spans[4].wait == Wait::kMemory);
    CHECK(r.timeline.spans[4].waited_for == 1);
    CHECK(r.timeline.memory[4].given_ns == Approx(r.timeline.memory[0].taken_ns));
}

TEST_CASE(
    "a reader of many joined writes waits for the last of them, and recording changes nothing") {
    const Machine machine = trn1();
    ProgramBuilder b;
    const int writes = 3 * static_cast<int>(Schedule::kMaxAccesses);
    const auto x = b.tile(128, writes, 1);
    const auto out = b.output({128, writes});
    for (int i = 0; i < writes; ++i) b.add(nki::Opcode::kMemset, b.window(x, 0, 128, i, 1));
    b.store(b.whole(out), b.whole(x));
    const Recorded r = record(b);
    check_sound(r);
    CHECK(r.schedule.nodes > r.schedule.instructions);
    CHECK(r.timeline.spans[writes].waited_for == writes - 1);
    CHECK(r.timeline.spans[writes].wait == Wait::kOperand);
    CHECK(simulate(r.stream, r.schedule, machine).latency_ns == r.result.latency_ns);
}

TEST_CASE(
    "a product waits for the PSUM bank that a slow reader gives back, not for its idle engine") {
    ProgramBuilder b;
    const auto x = b.tile(128, 512, 1);
    const int banks = 30;
    for (int i = 0; i < banks; ++i) {
        const auto p = b.psum(128, 512, 2);
        b.matmul(b.whole(p), b.window(x, 0, 128, 0, 128), b.whole(x));
        // Two readers that take longer than the product, so that banks are what is short.
        const auto y = b.tile(128, 512, 3);
        b.add(nki::Opcode::kReciprocal, b.whole(y), {b.whole(p)});
        b.tensor_tensor(b.whole(y), AluOp::kAdd, b.whole(y), b.whole(p));
    }
    const Recorded r = record(b);
    check_sound(r);
    int waits_for_engine = 0;
    int waits_for_memory = 0;
    for (std::size_t k = 0; k < r.timeline.spans.size(); ++k) {
        const InstructionSpan& span = r.timeline.spans[k];
        if (span.unit != Unit::kPe) continue;
        waits_for_engine += span.wait == Wait::kEngine ? 1 : 0;
        if (span.wait != Wait::kMemory) continue;
        ++waits_for_memory;
        CHECK(r.timeline.spans[span.waited_for].unit == Unit::kDve);
        CHECK(span.start_ns == Approx(r.timeline.spans[span.waited_for].done_ns()));
    }
    CHECK(waits_for_engine >= 6);  // the first banks are free: the array is what is busy
    CHECK(waits_for_memory >= 3);
}
