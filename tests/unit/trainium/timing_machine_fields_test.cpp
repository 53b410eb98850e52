#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <set>

#include "core/error.h"
#include "core/text.h"
#include "timing_programs.h"
#include "trainium/machine_fields.h"
#include "trainium/timing.h"

using namespace accelopt;
using namespace accelopt::trainium;

TEST_CASE("every key of the machine table is there once and reaches its member") {
    std::set<std::string> keys;
    Machine machine;
    double value = 1;
    for (const MachineField& field : kMachineFields) {
        keys.emplace(field.key);
        set_field(machine, field, value++);
    }
    CHECK(keys.size() == kMachineFields.size());
    value = 1;
    for (const MachineField& field : kMachineFields) {
        CAPTURE(field.key);
        CHECK(get_field(machine, field) == value++);
        CHECK(find_field(field.key) == &field);
    }
    CHECK(find_field("no_such_key") == nullptr);
    CHECK(machine_keys().size() == keys.size());
    CHECK(is_integer(*find_field("dma_queues")));
    CHECK_FALSE(is_integer(*find_field("tensor_ghz")));
}

TEST_CASE("a value outside its range is named, and such a machine predicts nothing") {
    CHECK(invalid_field(testing::trn1()).empty());
    CHECK_FALSE(invalid_field(Machine{}).empty());
    for (const MachineField& field : kMachineFields) {
        for (double bad : {0.0, -1.0}) {
            Machine machine = testing::trn1();
            set_field(machine, field, bad);
            CAPTURE(field.key, bad);
            if (bad == 0.0 && field.may_be_zero) {
                CHECK(invalid_field(machine).empty());
                CHECK_NOTHROW(predict({}, machine));
            } else {
                CHECK(invalid_field(machine) == field.key);
                CHECK_THROWS_AS(predict({}, machine), Error);
            }
        }
    }
    for (double bad : {std::nan(""), std::numeric_limits<double>::infinity()}) {
        Machine machine = testing::trn1();
        machine.tensor_ghz = bad;
        CHECK(invalid_field(machine) == "tensor_ghz");
    }
}

TEST_CASE("the Trainium 1 description has every key, with its source, and the tested values") {
    const std::string text = read_file(ACCELOPT_SOURCE_DIR "/configs/hardware/trn1.yaml");
    std::set<std::string> seen;
    for (const std::string& line : split(text, '\n')) {
        if (line.empty() || line[0] == '#' || line.rfind("name:", 0) == 0) continue;
        const auto colon = line.find(':');
        REQUIRE(colon != std::string::npos);
        const std::string key = line.substr(0, colon);
        CAPTURE(key);
        CHECK(line.find("# source: ") != std::string::npos);
        const MachineField* field = find_field(key);
        REQUIRE(field != nullptr);
        CHECK(seen.insert(key).second);
        CHECK(std::stod(line.substr(colon + 1)) ==
              Approx(get_field(testing::trn1(), *field)).epsilon(1e-12));
    }
    CHECK(seen.size() == kMachineFields.size());
}

TEST_CASE("the Trainium 2 description has every key with its source, and the guide's figures") {
    const std::string text = read_file(ACCELOPT_SOURCE_DIR "/configs/hardware/trn2.yaml");
    std::set<std::string> seen;
    Machine machine;
    for (const std::string& line : split(text, '\n')) {
        if (line.empty() || line[0] == '#' || line.rfind("name:", 0) == 0) continue;
        const auto colon = line.find(':');
        REQUIRE(colon != std::string::npos);
        const std::string key = line.substr(0, colon);
        CAPTURE(key);
        const auto source = line.find("# source: ");
        REQUIRE(source != std::string::npos);
        // Nothing is fitted on Trainium 2: no profile of it is public.
        CHECK(line.find("fit:", source) == std::string::npos);
        const MachineField* field = find_field(key);
        REQUIRE(field != nullptr);
        CHECK(seen.insert(key).second);
        set_field(machine, *field, std::stod(line.substr(colon + 1)));
    }
    CHECK(seen.size() == kMachineFields.size());
    CHECK(invalid_field(machine).empty());
    CHECK(machine.core_version == 3);
    CHECK(machine.sbuf_partition_bytes * machine.partitions == 28LL * 1024 * 1024);
    CHECK(machine.psum_partition_bytes * machine.partitions == 2LL * 1024 * 1024);
    CHECK(machine.tensor_peak_bf16_flops == Approx(2 * 128 * 128 * machine.tensor_ghz * 1e9));
    CHECK(machine.dma_queues * machine.dma_queue_bytes_per_ns == Approx(368));
    // What is carried over is what Trainium 1 has.
    for (const std::string& line : split(text, '\n')) {
        const auto source = line.find("# source: trn1, untested");
        if (source == std::string::npos) continue;
        const MachineField* field = find_field(line.substr(0, line.find(':')));
        CAPTURE(line);
        CHECK(get_field(machine, *field) == get_field(testing::trn1(), *field));
    }
}
