#include <catch2/catch.hpp>
#include <set>

#include "timing_programs.h"
#include "timing_structures.h"
#include "trainium/machine_fields.h"
#include "trainium/mechanism.h"
#include "trainium/timing.h"

using namespace accelopt;
using namespace accelopt::trainium;
using namespace accelopt::trainium::testing;

namespace {

double latency_ms(const nki::Program& program, Mechanisms mechanisms) {
    return predict(program, trn1(), mechanisms).compiled.latency.value();
}

}  // namespace

TEST_CASE("every mechanism has a name of its own, says what it does, and has evidence") {
    std::set<std::string_view> names;
    for (const MechanismInfo& info : kMechanisms) {
        CAPTURE(info.name);
        CHECK(names.insert(info.name).second);
        CHECK_FALSE(info.name.empty());
        CHECK_FALSE(info.what.empty());
        CHECK_FALSE(info.evidence.empty());
    }
}

TEST_CASE("mechanisms are all on, and switched one at a time") {
    const Mechanisms all;
    const Mechanisms some = all.without(Mechanism::kSpills);
    for (const MechanismInfo& info : kMechanisms) {
        CHECK(all.has(info.mechanism));
        CHECK(some.has(info.mechanism) == (info.mechanism != Mechanism::kSpills));
        CHECK_FALSE(Mechanisms::none().has(info.mechanism));
    }
    CHECK(some.with(Mechanism::kSpills) == all);
}

TEST_CASE("a machine without the rules is one that can be simulated") {
    const Machine machine = with_mechanisms(trn1(), {});
    for (const MachineField& field : kMachineFields)
        CHECK(get_field(machine, field) == get_field(trn1(), field));
    CHECK(invalid_field(with_mechanisms(trn1(), Mechanisms::none())).empty());
    CHECK(latency_ms(adamw_structure(), Mechanisms::none()) > 0);
}

TEST_CASE("switching a mechanism off undoes what it does to a known kernel") {
    const Mechanisms all;
    const nki::Program adamw = adamw_structure();
    const nki::Program added = add_rmsnorm_matmul_structure();
    const nki::Program silu = silu_structure();
    CHECK(predict(adamw, trn1(), all.without(Mechanism::kPsumTemporaries))
              .compiled.psum_write_bytes == 0);
    const auto merged = predict(added, trn1()).compiled;
    const auto apart = predict(added, trn1(), all.without(Mechanism::kMergeValues)).compiled;
    CHECK(*apart.hbm_read_bytes > 7 * *merged.hbm_read_bytes);
    CHECK(latency_ms(adamw, all.without(Mechanism::kReschedule)) > 1.1 * latency_ms(adamw, all));
    CHECK(latency_ms(silu, all.without(Mechanism::kFarStride)) < 0.9 * latency_ms(silu, all));
    CHECK(latency_ms(added, all.without(Mechanism::kMatmulOverhead)) <
          0.95 * latency_ms(added, all));
}

TEST_CASE("a stream lowered once predicts what the program does") {
    const nki::Program program = add_rmsnorm_matmul_structure();
    const Stream stream = lower(program, trn1());
    for (const Mechanisms mechanisms : {Mechanisms(), Mechanisms().without(Mechanism::kHoistFit)}) {
        const auto from_stream = predict_stream(stream, trn1(), mechanisms);
        const auto from_program = predict(program, trn1(), mechanisms);
        CHECK(from_stream.compiled.latency == from_program.compiled.latency);
        CHECK(from_stream.compiled.hbm_read_bytes == from_program.compiled.hbm_read_bytes);
        CHECK(from_stream.as_written.hbm_read_bytes == from_program.as_written.hbm_read_bytes);
    }
}
