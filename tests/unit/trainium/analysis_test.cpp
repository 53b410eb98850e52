#include "trainium/analysis.h"

#include <catch2/catch.hpp>
#include <numeric>

#include "timing_programs.h"
#include "trainium/analysis_critical_path.h"
#include "trainium/analysis_lines.h"
#include "trainium/analysis_occupancy.h"
#include "trainium/analysis_roofline.h"
#include "trainium/analysis_traffic.h"
#include "trainium/passes.h"
#include "trainium/timing.h"
#include "trainium/timing_simulate.h"

using namespace accelopt;
using namespace accelopt::trainium;
using namespace accelopt::trainium::testing;
using nki::ActFunction;
using nki::AluOp;

namespace {

struct Simulated {
    const nki::Program& program;
    Machine machine;
    Stream stream;
    Schedule schedule;
    Timeline timeline;
    SimulationResult result;

    explicit Simulated(const ProgramBuilder& b, const Machine& m = trn1(), bool compiled = false)
        : program(b.program), machine(m), stream(lower(b.program, m)) {
        if (compiled) compile(stream, machine);
        schedule = make_schedule(stream, machine);
        result = simulate(stream, schedule, machine, nullptr, &timeline);
    }
    protocol::ProfileDetail analyse(int rows = -1) const {
        return trainium::analyse({program, stream, schedule, timeline}, machine, rows);
    }
    std::vector<PathStep> path() const { return critical_path(timeline); }
};

constexpr double kStartup_ns = 8000;
double act_ns(double n) { return (n + 64) / 1.4; }
double load_ns(double run_bytes) { return 8 * (run_bytes / 17.0 + 15); }

double total_ms(const std::vector<protocol::CriticalPart>& parts) {
    return std::accumulate(parts.begin(), parts.end(), 0.0,
                           [](double sum, const auto& part) { return sum + part.ms; });
}

const protocol::CriticalPart* find_part(const std::vector<protocol::CriticalPart>& parts, int line,
                                        const std::string& cause) {
    for (const auto& part : parts) {
        if (part.line == line && part.cause == cause) return &part;
    }
    return nullptr;
}

const protocol::LineProfile* find_line(const std::vector<protocol::LineProfile>& lines, int line) {
    for (const auto& l : lines) {
        if (l.line == line) return &l;
    }
    return nullptr;
}

/// A load on line 10, `middle` dependent activations on line 20, a store on line 30.
ProgramBuilder chain(int middle) {
    ProgramBuilder b;
    const auto in = b.input({128, 512});
    const auto out = b.output({128, 512});
    auto x = b.tile(128, 512, 1);
    b.load(b.whole(x), b.whole(in)).line = 10;
    for (int i = 0; i < middle; ++i) {
        const auto y = b.tile(128, 512, 2);
        b.activation(b.whole(y), ActFunction::kExp, b.whole(x)).line = 20;
        x = y;
    }
    b.store(b.whole(out), b.whole(x)).line = 30;
    return b;
}

}  // namespace

TEST_CASE("the critical path of a dependent chain is the chain, and its parts sum to the latency") {
    const ProgramBuilder b = chain(5);
    const Simulated s(b);
    CHECK(s.path().size() == 7);
    const auto detail = s.analyse();
    const auto& parts = detail.critical_path;
    CHECK(total_ms(parts) == Approx(s.result.latency_ns / 1e6).epsilon(1e-5));
    const auto* load = find_part(parts, 10, "operand");
    REQUIRE(load != nullptr);
    CHECK(load->unit == "DMA");
    CHECK(load->steps == 1);
    CHECK(load->ms == Approx((load_ns(2048) + 2000) / 1e6).epsilon(1e-5));
    const auto* exp = find_part(parts, 20, "operand");
    REQUIRE(exp != nullptr);
    CHECK(exp->unit == "ACT");
    CHECK(exp->steps == 5);
    CHECK(exp->ms == Approx(5 * (act_ns(512) + 160) / 1e6).epsilon(1e-5));
    const auto* store = find_part(parts, 30, "end");
    REQUIRE(store != nullptr);
    CHECK(store->ms == Approx((load_ns(2048) + 2000) / 1e6).epsilon(1e-5));
    const auto* startup = find_part(parts, 0, "startup");
    REQUIRE(startup != nullptr);
    CHECK(startup->ms == Approx(kStartup_ns / 1e6));
}

TEST_CASE("a busy engine is the cause on the path, and lines share its time by their work") {
    ProgramBuilder b;
    const auto x = b.tile(128, 512, 1);
    for (int i = 0; i < 4; ++i) {
        b.activation(b.whole(b.tile(128, 512, 2)), ActFunction::kExp, b.whole(x)).line = 7;
        b.activation(b.window(b.tile(128, 512, 3), 0, 128, 0, 128), ActFunction::kExp,
                     b.window(x, 0, 128, 0, 128))
            .line = 8;
    }
    const Simulated s(b);
    const auto detail = s.analyse();
    const auto* first = find_part(detail.critical_path, 7, "engine");
    REQUIRE(first != nullptr);
    CHECK(first->steps == 4);
    CHECK(first->ms == Approx(4 * act_ns(512) / 1e6).epsilon(1e-5));
    const auto* line = find_line(detail.lines, 8);
    REQUIRE(line != nullptr);
    CHECK(line->instructions == 4);
    CHECK(line->scalar_ms == Approx(4 * act_ns(128) / 1e6).epsilon(1e-5));
    CHECK(line->vector_ms == 0);
    CHECK(detail.lines[0].line == 7);
}

TEST_CASE("a copy bound by DMA queues has a path of transfers that wait for queues") {
    ProgramBuilder b;
    const auto in = b.input({128 * 64, 2048});
    const auto out = b.output({128 * 64, 2048});
    for (int i = 0; i < 64; ++i) {
        const auto x = b.tile(128, 2048, 1);
        b.load(b.whole(x), b.window(in, 128 * i, 128, 0, 2048)).line = 3;
        b.store(b.window(out, 128 * i, 128, 0, 2048), b.whole(x)).line = 4;
    }
    const Simulated s(b);
    const auto detail = s.analyse();
    double queue_ms = 0;
    for (const auto& part : detail.critical_path) {
        if (part.cause == "queue") queue_ms += part.ms;
        CHECK(part.ms >= 0);
    }
    CHECK(queue_ms > 0.9 * s.result.latency_ns / 1e6);
    CHECK(total_ms(detail.critical_path) == Approx(s.result.latency_ns / 1e6).epsilon(1e-4));
    CHECK_FALSE(detail.roofline);  // nothing is computed: there are no roofs to stand under
}

TEST_CASE("line times sum to the busy times of the engines and to the traffic") {
    const ProgramBuilder b = chain(3);
    const Simulated s(b);
    double scalar = 0, dma = 0, critical = 0;
    std::int64_t bytes = 0;
    for (const auto& line : s.analyse().lines) {
        scalar += line.scalar_ms;
        dma += line.dma_ms;
        bytes += line.dma_bytes;
        critical += line.critical_ms;
    }
    CHECK(scalar == Approx(s.result.busy_ns[static_cast<int>(Unit::kAct)] / 1e6).epsilon(1e-5));
    CHECK(dma == Approx(s.result.busy_ns[static_cast<int>(Unit::kDma)] / 1e6).epsilon(1e-5));
    CHECK(bytes == 2 * 128 * 512 * 4);
    CHECK(critical == Approx((s.result.latency_ns - kStartup_ns) / 1e6).epsilon(1e-5));
}

TEST_CASE("traffic counts every read of an input, and a partly loaded one below once") {
    ProgramBuilder b;
    const auto in = b.input({128, 512});
    const auto half = b.input({128, 512});
    const auto out = b.output({128, 512});
    b.program.tensors[in].name = "lhs";
    const auto y = b.tile(128, 512, 1);
    for (int i = 0; i < 3; ++i) b.load(b.whole(b.tile(128, 512, 2)), b.whole(in));
    b.load(b.window(y, 0, 128, 0, 256), b.window(half, 0, 128, 0, 256));
    b.store(b.whole(out), b.whole(y));
    const Simulated s(b);
    const auto tensors = tensor_traffic(s.program, s.stream);
    REQUIRE(tensors.size() == 3);
    CHECK(tensors[0].name == "lhs");
    CHECK(tensors[0].kind == "input");
    CHECK(tensors[0].bytes == 128 * 512 * 4);
    CHECK(tensors[0].read_bytes == 3 * 128 * 512 * 4);
    CHECK(tensors[0].reads_per_byte.value() == Approx(3));
    CHECK(tensors[1].kind == "output");
    CHECK(tensors[1].written_bytes == 128 * 512 * 4);
    CHECK_FALSE(tensors[1].reads_per_byte);
    CHECK(tensors[2].reads_per_byte.value() == Approx(0.5));
}

TEST_CASE("spills are traffic of the tensor on chip and a line of their own") {
    ProgramBuilder b;
    const auto in = b.input({128, 8192});
    const auto out = b.output({128, 8192});
    // Eight tiles of 32 KiB per partition are written first and used afterwards.
    std::vector<nki::TensorId> tiles;
    for (int i = 0; i < 8; ++i) {
        const auto x = b.tile(128, 8192, 1);
        b.program.tensors[x].name = "slab";
        b.program.tensors[x].line = 5;
        const auto raw = b.tile(128, 8192, 2);
        b.load(b.whole(raw), b.whole(in)).line = 6;
        auto& exp = b.activation(b.whole(x), ActFunction::kExp, b.whole(raw));
        exp.line = 7;
        exp.scale.immediate = i;  // or the compiler would compute it once
        tiles.push_back(x);
    }
    for (const auto x : tiles) b.store(b.whole(out), b.whole(x)).line = 9;
    const Simulated s(b, trn1(), true);
    const auto detail = s.analyse();
    std::int64_t saved = 0;
    int rows = 0;
    for (const auto& tensor : detail.tensors) {
        if (tensor.kind != "spilled" || tensor.written_bytes == 0) continue;
        CHECK(tensor.name == "slab");
        CHECK(tensor.line == 5);
        CHECK(tensor.bytes == tensor.written_bytes);
        saved += tensor.written_bytes;
        ++rows;
    }
    CHECK(rows == 1);  // eight tensors, one tile of the source
    CHECK(saved > 0);
    bool found = false;
    for (const auto& line : detail.lines) {
        if (line.operation != "spill of slab") continue;
        found = true;
        CHECK(line.line == 5);
        CHECK(line.dma_bytes == saved);
    }
    CHECK(found);
}

TEST_CASE("occupancy follows the tiles' lives exactly") {
    const ProgramBuilder b = chain(1);
    const Simulated s(b);
    // x lives from the start to the end of the activation, y until the store is done.
    const double latency = s.result.latency_ns;
    const double x_ns = load_ns(2048) + 2000 + act_ns(512) + 160;
    const auto sbuf = occupancy(s.schedule, s.timeline, s.machine, false, 10);
    CHECK(sbuf.capacity == 196608);
    CHECK(sbuf.peak == 4096);
    CHECK(sbuf.peak_at_ms == Approx(0.004));
    const double y_ns = latency - kStartup_ns;
    CHECK(sbuf.mean == Approx(2048 * (x_ns + y_ns) / latency));
    REQUIRE(sbuf.series.size() == 10);
    const double mean = std::accumulate(sbuf.series.begin(), sbuf.series.end(), 0.0) / 10;
    CHECK(mean == Approx(sbuf.mean));
    CHECK(sbuf.series[0] == 0);  // the start-up
    const auto psum = occupancy(s.schedule, s.timeline, s.machine, true, 4);
    CHECK(psum.capacity == 8);
    CHECK(psum.peak == 0);
    CHECK(psum.mean == 0);
}

TEST_CASE("PSUM occupancy counts banks") {
    ProgramBuilder b;
    const auto x = b.tile(128, 512, 1);
    for (int i = 0; i < 3; ++i) {
        const auto p = b.psum(128, 512, 2);
        b.matmul(b.whole(p), b.window(x, 0, 128, 0, 128), b.whole(x));
        b.copy(b.whole(b.tile(128, 512, 3)), b.whole(p));
    }
    const Simulated s(b);
    const auto psum = s.analyse().psum;
    REQUIRE(psum);
    CHECK(psum->peak == 2);  // banks are taken when a product starts, and copies keep up
    CHECK(psum->mean > 0);
}

TEST_CASE("the roofline places products and elementwise work at the peaks of their dtypes") {
    const Machine machine = trn1();
    ProgramBuilder b;
    const auto in = b.input({128, 512});
    const auto x = b.tile(128, 512, 1);
    b.load(b.whole(x), b.whole(in));
    const auto p = b.psum(128, 512, 2);
    b.matmul(b.whole(p), b.window(x, 0, 128, 0, 128), b.whole(x));
    b.activation(b.whole(b.tile(128, 512, 3)), ActFunction::kExp, b.whole(p));
    const Simulated s(b);
    const auto roof = roofline(s.stream, 1e6, machine);
    REQUIRE(roof);
    CHECK(roof->operations == "matmul");  // 16.8 M at 23.75 T/s against 65,536 at 286.8 G/s
    CHECK(roof->roof == "compute");
    const double flops = 2.0 * 128 * 128 * 512;
    CHECK(roof->flops == Approx(flops));
    CHECK(roof->bytes == Approx(128 * 512 * 4));
    CHECK(*roof->arithmetic_intensity == Approx(flops / (128 * 512 * 4)));
    CHECK(roof->peak_flops == Approx(23.75e12));
    CHECK(roof->ridge_intensity == Approx(23.75e12 / 440.2e9));
    CHECK(roof->achieved_flops == Approx(flops / 1e-3));
}

TEST_CASE("few rows are kept, and what is left out is said") {
    ProgramBuilder b;
    const auto x = b.tile(128, 512, 1);
    for (int i = 0; i < 10; ++i) {
        b.activation(b.whole(b.tile(128, 512, 2)), ActFunction::kExp, b.whole(x)).line = i + 1;
    }
    const Simulated s(b);
    const auto all = s.analyse(-1);
    CHECK(all.lines.size() == 10);
    CHECK(all.lines_left_out == 0);
    const auto few = s.analyse(3);
    CHECK(few.lines.size() == 3);
    CHECK(few.lines_left_out == 7);
    CHECK(few.critical_path.size() == 3);
    CHECK(few.critical_parts_left_out == 8);  // nine engine waits, the end, the start-up
    CHECK(total_ms(few.critical_path) + few.critical_left_out_ms ==
          Approx(s.result.latency_ns / 1e6).epsilon(1e-4));
}

TEST_CASE("a short list of lines keeps one that is busy beside the critical path") {
    ProgramBuilder b;
    const auto x = b.tile(128, 512, 1);
    // ScalarE is critical, on ten lines; VectorE works less, on one line that is never waited for.
    for (int i = 0; i < 10; ++i) {
        b.activation(b.whole(b.tile(128, 512, 2)), ActFunction::kExp, b.whole(x)).line = i + 1;
    }
    for (int i = 0; i < 3; ++i) {
        b.add(nki::Opcode::kMemset, b.whole(b.tile(128, 512, 3))).line = 50;
    }
    const Simulated s(b);
    const auto few = s.analyse(3);
    REQUIRE(few.lines.size() == 3);
    CHECK(few.lines_left_out == 8);
    const auto* busy = find_line(few.lines, 50);
    REQUIRE(busy != nullptr);
    CHECK(busy->critical_ms == 0);
    CHECK(busy->vector_ms == Approx(3 * (512 + 64) / 1.12 / 1e6).epsilon(1e-5));
    CHECK(few.lines[2].line == 50);  // the list is still by the critical path
}

TEST_CASE("an empty kernel has an empty analysis") {
    const ProgramBuilder b;
    const Simulated s(b);
    const auto detail = s.analyse(8);
    CHECK(detail.lines.empty());
    CHECK(detail.tensors.empty());
    CHECK_FALSE(detail.roofline);
    REQUIRE(detail.critical_path.size() == 1);
    CHECK(detail.critical_path[0].cause == "startup");
}

TEST_CASE("a prediction has the detail that was asked for, and the same figures with and without") {
    const ProgramBuilder b = chain(2);
    const auto plain = predict(b.program, trn1()).compiled;
    CHECK_FALSE(plain.detail);
    const auto detailed = predict_in_detail(b.program, trn1(), 8).compiled;
    REQUIRE(detailed.detail);
    CHECK(*plain.latency == *detailed.latency);
    CHECK(*detailed.latency_uncertainty == 0.20);
    CHECK_FALSE(predict_in_detail(b.program, trn1(), 8).as_written.detail);
}
