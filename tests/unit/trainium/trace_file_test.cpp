#include "trainium/trace_file.h"

#include <catch2/catch.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "timing_programs.h"
#include "trainium/timing.h"
#include "trainium/timing_simulate.h"

using namespace accelopt;
using namespace accelopt::trainium;
using namespace accelopt::trainium::testing;
using Json = nlohmann::json;

namespace {

/// `tiles` times: load (line 3), exp (line 4), product (line 5), store of it (line 6).
ProgramBuilder kernel(int tiles, const std::string& name = "nisa.activation") {
    ProgramBuilder b;
    b.program.api_names = {name};
    const auto in = b.input({128 * tiles, 512});
    const auto out = b.output({128 * tiles, 512});
    for (int i = 0; i < tiles; ++i) {
        const auto x = b.tile(128, 512, 1);
        b.load(b.whole(x), b.window(in, 128 * i, 128, 0, 512)).line = 3;
        const auto y = b.tile(128, 512, 2);
        auto& exp = b.activation(b.whole(y), nki::ActFunction::kExp, b.whole(x));
        exp.line = 4;
        exp.api = 0;
        const auto p = b.psum(128, 512, 3);
        b.matmul(b.whole(p), b.window(y, 0, 128, 0, 128), b.whole(y)).line = 5;
        b.store(b.window(out, 128 * i, 128, 0, 512), b.whole(p)).line = 6;
    }
    return b;
}

struct Written {
    TraceSummary summary;
    Json json;
};

Written write(const ProgramBuilder& b, TraceOptions options = {}) {
    std::ostringstream out;
    Written written;
    options.kernel = "kernel \"quoted\"\n";
    written.summary = trace_program(out, b.program, trn1(), options);
    written.json = Json::parse(out.str());  // throws when it is not JSON
    return written;
}

/// The same of the stream as written: the compiler would drop what nothing stores.
Written write_as_written(const ProgramBuilder& b, std::int64_t max_events) {
    const Stream stream = lower(b.program, trn1());
    const Schedule schedule = make_schedule(stream, trn1());
    Timeline timeline;
    timeline.keep_queues = true;
    simulate(stream, schedule, trn1(), nullptr, &timeline);
    TraceOptions options;
    options.max_events = max_events;
    std::ostringstream out;
    Written written;
    written.summary = write_trace(out, {b.program, stream, schedule, timeline}, trn1(), options);
    written.json = Json::parse(out.str());
    return written;
}

}  // namespace

TEST_CASE(
    "a trace is JSON with a track per engine and queue, blocks that do not overlap, counters") {
    const ProgramBuilder b = kernel(6);
    const Written written = write(b);
    const double latency_us = *predict(b.program, trn1()).compiled.latency * 1e3;
    std::set<std::string> tracks;
    std::map<int, double> free_us;
    std::map<std::string, double> most;
    int blocks = 0;
    bool named = false;
    for (const Json& event : written.json.at("traceEvents")) {
        const std::string kind = event.at("ph");
        if (kind == "M") {
            if (event.at("name") == "thread_name") tracks.insert(event.at("args").at("name"));
            continue;
        }
        const double ts = event.at("ts");
        CHECK(ts >= 0);
        CHECK(ts <= latency_us + 0.01);
        if (kind == "C") {
            for (const auto& [unit, value] : event.at("args").items()) {
                most[event.at("name")] = std::max(most[event.at("name")], value.get<double>());
            }
            continue;
        }
        REQUIRE(kind == "X");
        ++blocks;
        const int track = event.at("tid");
        CHECK(ts >= free_us[track] - 0.002);
        free_us[track] = ts + event.at("dur").get<double>();
        CHECK(free_us[track] <= latency_us + 0.01);
        named = named || event.at("name") == "nisa.activation:4";
        CHECK(event.at("args").at("line").get<int>() >= 3);
    }
    CHECK(named);
    CHECK(blocks > 6 * (1 + 1 + 2 * 16));
    for (const char* name :
         {"PE", "ACT", "DVE", "Pool", "DMA queue 00", "DMA queue 15", "critical path"}) {
        CHECK(tracks.count(name) == 1);
    }
    CHECK(most["PSUM banks"] >= 1);
    CHECK(most["SBUF KiB per partition"] >= 4);
    CHECK(written.summary.merged == 0);
    CHECK(written.summary.to_ns == written.summary.latency_ns);
}

TEST_CASE("the blocks of the critical path follow each other without a gap") {
    const Written written = write(kernel(6));
    double at_us = 4.0;
    for (const Json& event : written.json.at("traceEvents")) {
        if (event.at("ph") != "X" || event.at("tid") != 1) continue;
        CHECK(event.at("ts").get<double>() == Approx(at_us).margin(0.002));
        at_us = event.at("ts").get<double>() + event.at("dur").get<double>();
    }
    CHECK(at_us == Approx(written.summary.latency_ns / 1e3 - 4.0).margin(0.01));
}

TEST_CASE("a large trace merges neighbours of one line, and says how many") {
    ProgramBuilder b;
    const auto x = b.tile(128, 512, 1);
    for (int i = 0; i < 400; ++i) {
        b.activation(b.whole(b.tile(128, 512, 2)), nki::ActFunction::kExp, b.whole(x)).line = 9;
    }
    const Written written = write_as_written(b, 50);
    CHECK(written.summary.merged == 2 * 399);  // the engine and the critical path
    CHECK(written.json.at("otherData").at("merged_blocks") == 2 * 399);
    bool found = false;
    for (const Json& event : written.json.at("traceEvents")) {
        if (event.at("ph") != "X" || event.at("tid") != 3) continue;
        found = true;
        CHECK(event.at("args").at("instructions") == 400);
    }
    CHECK(found);
    CHECK(written.summary.to_ns == written.summary.latency_ns);
}

TEST_CASE("what does not fit even merged is cut off at the end, and the end is said") {
    ProgramBuilder b;
    const auto x = b.tile(128, 512, 1);
    for (int i = 0; i < 100; ++i) {
        b.activation(b.whole(b.tile(128, 512, 2)), nki::ActFunction::kExp, b.whole(x)).line =
            1 + i % 2;
    }
    const Written written = write_as_written(b, 60);
    CHECK(written.summary.to_ns < written.summary.latency_ns);
    std::int64_t blocks = 0;
    for (const Json& event : written.json.at("traceEvents")) {
        if (event.at("ph") != "X") continue;
        ++blocks;
        CHECK(event.at("ts").get<double>() * 1e3 <= written.summary.to_ns);
    }
    CHECK(blocks <= 60);
    CHECK(blocks > 50);
}

TEST_CASE("a part of the run can be asked for") {
    const ProgramBuilder b = kernel(20);
    TraceOptions options;
    options.from_ns = 20000;
    options.to_ns = 30000;
    const Written written = write(b, options);
    CHECK(written.summary.events > 0);
    for (const Json& event : written.json.at("traceEvents")) {
        if (event.at("ph") != "X") continue;
        const double ts = event.at("ts");
        CHECK(ts < 30);
        CHECK(ts + event.at("dur").get<double>() > 20);
    }
    CHECK(written.summary.events < write(b).summary.events);
}

TEST_CASE("names that JSON cannot hold as they are do not break a trace") {
    for (const std::string name : {"a\"b\\c\n", "\xff\xfe", "\xc3\xa9t\xc3\xa9"}) {
        CHECK(write(kernel(1, name)).json.contains("traceEvents"));
    }
    CHECK(write(ProgramBuilder{}).json.contains("traceEvents"));  // of a kernel without operations
}
