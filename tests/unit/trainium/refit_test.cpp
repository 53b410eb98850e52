#include "trainium/refit.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "core/error.h"
#include "timing_programs.h"
#include "trainium/calibration.h"

using namespace accelopt;
using namespace accelopt::trainium;
using namespace accelopt::trainium::testing;
using nki::ActFunction;
using nki::AluOp;

namespace {

/// Trainium 1 without a price per row, which would hide what short descriptors cost.
Machine base() {
    Machine machine = trn1();
    machine.dma_descriptor_min_ns = 0;
    return machine;
}

/// Copies `tiles` tiles of 128 x `columns` through SBUF.
nki::Program copies(int tiles, std::int64_t columns) {
    ProgramBuilder b;
    const auto in = b.input({128 * tiles, columns});
    const auto out = b.output({128 * tiles, columns});
    for (int i = 0; i < tiles; ++i) {
        const auto x = b.tile(128, columns, 1);
        b.load(b.whole(x), b.window(in, 128 * i, 128, 0, columns));
        b.store(b.window(out, 128 * i, 128, 0, columns), b.whole(x));
    }
    return b.program;
}

/// One load, then `count` reciprocals of it, four of them stored.
nki::Program reciprocals(int count, std::int64_t columns) {
    ProgramBuilder b;
    const auto in = b.input({128, columns});
    const auto out = b.output({128, 4 * columns});
    const auto x = b.tile(128, columns, 1);
    b.load(b.whole(x), b.whole(in));
    const nki::TensorId y[] = {b.tile(128, columns, 2), b.tile(128, columns, 3),
                               b.tile(128, columns, 4), b.tile(128, columns, 5)};
    for (int i = 0; i < 4; ++i) b.copy(b.whole(y[i]), b.whole(x));
    for (int i = 0; i < count; ++i)
        b.add(nki::Opcode::kReciprocal, b.whole(y[i % 4]), {b.whole(y[i % 4])});
    for (int i = 0; i < 4; ++i) b.store(b.window(out, 0, 128, i * columns, columns), b.whole(y[i]));
    return b.program;
}

/// A matmul pipeline of `products` products of 128 x 128 x `columns`.
nki::Program products(int count, std::int64_t columns) {
    ProgramBuilder b;
    const auto in = b.input({128, 512});
    const auto out = b.output({128, columns});
    const auto x = b.tile(128, 512, 1);
    b.load(b.whole(x), b.whole(in));
    const auto p = b.psum(128, columns, 2);
    for (int i = 0; i < count; ++i)
        b.matmul(b.whole(p), b.window(x, 0, 128, 0, 128), b.window(x, 0, 128, 0, columns), i > 0);
    const auto y = b.tile(128, columns, 3);
    b.copy(b.whole(y), b.whole(p));
    b.store(b.whole(out), b.whole(y));
    return b.program;
}

/// A chain of `count` activations, each waiting for the one before.
nki::Program chain(int count, std::int64_t columns) {
    ProgramBuilder b;
    const auto in = b.input({128, columns});
    const auto out = b.output({128, columns});
    auto x = b.tile(128, columns, 1);
    b.load(b.whole(x), b.whole(in));
    for (int i = 0; i < count; ++i) {
        const auto y = b.tile(128, columns, 2);
        b.activation(b.whole(y), ActFunction::kExp, b.whole(x));
        x = y;
    }
    b.store(b.whole(out), b.whole(x));
    return b.program;
}

const std::vector<std::pair<std::string, nki::Program>>& suite() {
    static const std::vector<std::pair<std::string, nki::Program>> kernels = {
        {"copy_64", copies(64, 16)},
        {"copy_1k", copies(64, 256)},
        {"copy_8k", copies(48, 2048)},
        {"reciprocal_64", reciprocals(400, 64)},
        {"reciprocal_512", reciprocals(400, 512)},
        {"product_128", products(600, 128)},
        {"product_512", products(600, 512)},
        {"chain_64", chain(200, 64)},
        {"chain_512", chain(200, 512)},
    };
    return kernels;
}

/// The kernels as `device` would run them, with latencies off by `noise` in turn.
CalibrationSet measured_on(const Machine& device, double noise = 0) {
    std::vector<CalibrationCase> cases;
    double sign = 1;
    for (const auto& [name, program] : suite()) {
        CalibrationCase one{name, lower(program, base()), predict(program, device).compiled};
        *one.measured.latency *= 1 + sign * noise;
        sign = -sign;
        cases.push_back(std::move(one));
    }
    return {std::move(cases), 2};
}

const std::vector<std::string> kKeys = {"dma_queue_bytes_per_ns",  "dma_descriptor_ns",
                                        "tensor_overhead_columns", "reciprocal_factor",
                                        "result_latency_ns",       "gpsimd_overhead_cycles"};

/// A device whose constants differ from trn1 by 12 to 60 %.
Machine other_device() {
    Machine device = base();
    device.dma_queue_bytes_per_ns = 21;
    device.dma_descriptor_ns = 24;
    device.tensor_overhead_columns = 64;
    device.reciprocal_factor = 3.2;
    device.result_latency_ns = 180;
    return device;
}

}  // namespace

TEST_CASE("a refit recovers the constants of the machine that made the measurements") {
    const CalibrationSet set = measured_on(other_device());
    Refitter refitter(set, base(), fit_constants(base(), kKeys));
    const RefitResult result = refitter.fit({});
    CHECK(result.objective_before > 0.05);
    CHECK(result.objective_after < 0.1 * result.objective_before);
    REQUIRE(result.changes.size() == kKeys.size());
    for (const FitChange& change : result.changes) {
        CAPTURE(change.key, change.before, change.after, result.evaluations);
        const double truth = get_field(other_device(), *find_field(change.key));
        CHECK(change.after == Approx(truth).epsilon(0.05));
        CHECK(change.identified == (change.key != "gpsimd_overhead_cycles"));
        CHECK(get_field(result.machine, *find_field(change.key)) == change.after);
    }
    const ErrorSummary after = summarise(set.errors(result.machine));
    CHECK(after.mean < 0.01);
    CHECK(after.worst < 0.03);
}

TEST_CASE("a refit with 3 % noise finds the constants within 15 %") {
    const CalibrationSet set = measured_on(other_device(), 0.03);
    Refitter refitter(set, base(), fit_constants(base(), kKeys));
    const RefitResult result = refitter.fit({});
    for (const FitChange& change : result.changes) {
        CAPTURE(change.key, change.before, change.after);
        const double truth = get_field(other_device(), *find_field(change.key));
        CHECK(change.after == Approx(truth).epsilon(0.15));
    }
}

TEST_CASE("measurements that the model explains move nothing") {
    const CalibrationSet set = measured_on(base());
    Refitter refitter(set, base(), fit_constants(base(), kKeys));
    const RefitResult result = refitter.fit({});
    CHECK(result.converged);
    for (const FitChange& change : result.changes) CHECK(change.after == change.before);
}

TEST_CASE("a refit is the same on one thread and on two, and touches nothing else") {
    const Machine device = other_device();
    std::vector<RefitResult> results;
    for (const int threads : {1, 2}) {
        const CalibrationSet set(measured_on(device).cases(), threads);
        Refitter refitter(set, base(), fit_constants(base(), {"reciprocal_factor"}));
        results.push_back(refitter.fit({}));
    }
    CHECK(results[0].objective_after == results[1].objective_after);
    for (const MachineField& field : kMachineFields) {
        const double value = get_field(results[0].machine, field);
        CHECK(value == get_field(results[1].machine, field));
        if (field.key != "reciprocal_factor") CHECK(value == get_field(base(), field));
    }
}

TEST_CASE("few evaluations end a refit early, and say so") {
    const CalibrationSet set = measured_on(other_device());
    RefitOptions options;
    options.max_evaluations = 5;
    Refitter refitter(set, base(), fit_constants(base(), kKeys), options);
    const RefitResult result = refitter.fit({});
    CHECK_FALSE(result.converged);
    CHECK(result.evaluations <= 8);
}

TEST_CASE("bounds hold: a factor of four, whole numbers from 1, SBUF") {
    Machine machine = base();
    machine.dma_descriptor_ns = 0;
    const auto constants =
        fit_constants(machine, {"dma_descriptor_ns", "engine_window", "resident_partition_bytes",
                                "scan_factor", "rotation_extra_buffers"});
    REQUIRE(constants.size() == 4);  // zero cannot move on a logarithmic scale
    CHECK(constants[0].lower == 16);
    CHECK(constants[0].upper == 256);
    CHECK(constants[1].upper == 192 * 1024);
    CHECK(constants[2].lower == 0.5);
    CHECK(constants[3].lower == 1);
    CHECK_THROWS_AS(fit_constants(machine, {"no_such_key"}), Error);
}

TEST_CASE("leave-one-out predicts every kernel from the others") {
    const CalibrationSet set = measured_on(other_device());
    Refitter refitter(set, base(),
                      fit_constants(base(), {"dma_queue_bytes_per_ns", "dma_descriptor_ns",
                                             "reciprocal_factor"}));
    std::vector<std::string> said;
    const auto errors = refitter.leave_one_out([&](const std::string& s) { said.push_back(s); });
    REQUIRE(errors.size() == set.size());
    CHECK(said.size() == set.size());
    for (std::size_t k = 0; k < errors.size(); ++k) CHECK(errors[k].name == set.cases()[k].name);
    // The other reciprocal kernel tells the factor; nothing else tells the array's overhead.
    const auto before = set.errors(base());
    CHECK(std::abs(errors[4].error(Predictor::kModel)) <
          0.5 * std::abs(before[4].error(Predictor::kModel)));
    CHECK(errors[6].error(Predictor::kModel) ==
          Approx(before[6].error(Predictor::kModel)).margin(0.02));
}
