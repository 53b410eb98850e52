#include "eval/calibration_input.h"

#include <catch2/catch.hpp>

#include "core/error.h"
#include "core/text.h"
#include "eval/csv_rows.h"
#include "eval/evaluator.h"
#include "scratch_folder.h"
#include "trainium/machine_fields.h"
#include "trainium/refit.h"

using namespace accelopt;
using eval::MeasuredKernel;

namespace {

constexpr const char* kKernel = R"(import neuronxcc.nki as nki
import neuronxcc.nki.language as nl

@nki.jit
def double(x, times):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(y, value=nl.multiply(nl.load(x), times))
    return y
)";

/// What reading a table with this text complains about, without the folder's name.
std::string measured_fault(const std::string& text) {
    const ScratchFolder folder;
    const std::string path = folder.write("m.csv", text);
    try {
        eval::read_measured_kernels(path);
    } catch (const Error& error) {
        CHECK(error.source() == ErrorSource::kUser);
        const std::string what = error.what();
        CHECK(what.find(path) != std::string::npos);
        return what.substr(what.find(path) + path.size());
    }
    return "accepted";
}

}  // namespace

TEST_CASE("tables: quotes, comments, empty lines and line numbers") {
    const ScratchFolder folder;
    const eval::CsvTable table = eval::read_csv(folder.write(
        "t.csv", "# of a laboratory\na,b,c\r\n\n1,\"x=float32[2,3]; y=\"\"k\"\"\",\n,,z\n"));
    CHECK(table.columns == std::vector<std::string>{"a", "b", "c"});
    REQUIRE(table.rows.size() == 2);
    CHECK(table.rows[0].line == 4);
    CHECK(table.rows[0].get("b") == "x=float32[2,3]; y=\"k\"");
    CHECK(table.rows[0].get("c").empty());
    CHECK(table.rows[1].get("c") == "z");
    CHECK(table.rows[1].get("no such column").empty());
    const auto fault = [&](const std::string& text) {
        try {
            eval::read_csv(folder.write("f.csv", text));
        } catch (const Error& error) {
            return std::string(error.what());
        }
        return std::string("accepted");
    };
    CHECK(fault("a,b\n1,\"2\n").find("f.csv:2: ") != std::string::npos);
    CHECK(fault("a,b\n1,\"2\"3\n").find("f.csv:2: ") != std::string::npos);
    CHECK(fault("a,b\n1\n").find("f.csv:2: 1 fields, the header has 2") != std::string::npos);
    CHECK(fault("a,a\n1,2\n").find("two columns are called 'a'") != std::string::npos);
    CHECK(fault("a,\n1,2\n").find("column 2 has no name") != std::string::npos);
    CHECK(fault("a,b\n").find("no rows") != std::string::npos);
    CHECK(fault("").find("no rows") != std::string::npos);
}

TEST_CASE("measured kernels: latency, counters, active times, and their own files") {
    const ScratchFolder folder;
    const auto kernels = eval::read_measured_kernels(folder.write(
        "m.csv",
        "problem,shape,latency_ms,min_ms,hbm_read_bytes,scalar_engine_active_time_percent,file,"
        "entry,inputs\n"
        "silu,any text,1.333,1.3,117440512,0.31,,,\n"
        "own,,2,,,,k.py,double,\"x=float32[128,8]; times=2.0\"\n"));
    REQUIRE(kernels.size() == 2);
    CHECK(kernels[0].name == "silu");
    CHECK(kernels[0].line == 2);
    CHECK(kernels[0].profile.latency.value() == 1.333);
    CHECK(kernels[0].profile.hbm_read_bytes == 117440512);
    CHECK(kernels[0].profile.scalar_engine_active_time_percent.value() == 0.31);
    CHECK_FALSE(kernels[0].profile.spill_save_bytes.has_value());
    CHECK(kernels[1].file == "k.py");
    CHECK(kernels[1].entry == "double");
    CHECK(kernels[1].inputs == "x=float32[128,8]; times=2.0");
    CHECK_FALSE(kernels[1].profile.hbm_read_bytes.has_value());
}

TEST_CASE("the shipped measurements can be read") {
    const auto kernels =
        eval::read_measured_kernels(ACCELOPT_SOURCE_DIR "/nkibench/measured/trn1_baseline.csv");
    CHECK(kernels.size() == 14);
}

TEST_CASE("a bad table is refused with its line and what to do") {
    CHECK(measured_fault("problem,latency\nsilu,1\n").find(":1: the header lacks 'latency_ms'") ==
          0);
    CHECK(measured_fault("problem,latency\nsilu,1\n").find("is 'latency' meant?") !=
          std::string::npos);
    CHECK(measured_fault("who,latency_ms\nsilu,1\n").find(":1: the header has no column") == 0);
    CHECK(measured_fault("problem,latency_ms\nsilu,fast\n")
              .find(":2: 'fast' is not a number (latency_ms)") == 0);
    CHECK(measured_fault("problem,latency_ms\nsilu,\n").find(":2: latency_ms must be there") == 0);
    CHECK(measured_fault("problem,latency_ms\nsilu,0\n").find(":2: latency_ms must be there") == 0);
    CHECK(measured_fault("problem,latency_ms\nsilu,-1\n").find(":2: latency_ms is negative") == 0);
    CHECK(measured_fault("problem,latency_ms\nsilu,nan\n").find(":2: 'nan'") == 0);
    CHECK(measured_fault("problem,latency_ms\n,1\n").find(":2: the problem has no name") == 0);
    CHECK(measured_fault("problem,latency_ms\na,1\nb,1\na,2\n").find(":4: 'a' is there twice") ==
          0);
    CHECK(measured_fault("problem,latency_ms,hbm_read_bytes\na,1,1.5\n")
              .find(":2: hbm_read_bytes is not a whole number") == 0);
    CHECK(measured_fault("problem,latency_ms,dma_active_time_percent\na,1,63\n")
              .find("fractions, not percents") != std::string::npos);
}

TEST_CASE("a manifest names files that exist, and is complete") {
    const ScratchFolder folder;
    folder.write("k.py", kKernel);
    folder.write("manifest.csv",
                 "name,file,entry,inputs,isolates\n"
                 "a,k.py,double,\"x=float32[128,8]; times=2.0\",the rate\n");
    const auto kernels = eval::read_micro_manifest(folder.path());
    REQUIRE(kernels.size() == 1);
    CHECK(kernels[0].path == folder.path() + "/k.py");
    CHECK(kernels[0].isolates == "the rate");
    const auto fault = [&](const std::string& text) {
        folder.write("manifest.csv", text);
        try {
            eval::read_micro_manifest(folder.path());
        } catch (const Error& error) {
            return std::string(error.what());
        }
        return std::string("accepted");
    };
    CHECK(fault("name,file,entry,inputs\na,k.py,double,x\n").find("lacks 'isolates'") !=
          std::string::npos);
    CHECK(fault("name,file,entry,inputs,isolates\na,no.py,d,x,y\n").find("manifest.csv:2: ") !=
          std::string::npos);
    CHECK(fault("name,file,entry,inputs,isolates\na,k.py,double,x,\n").find("must not be empty") !=
          std::string::npos);
}

TEST_CASE("a kernel is lowered, or its complaint comes back with the line") {
    const trainium::Machine machine = eval::load_machine("trn1");
    eval::KernelUnderTest kernel;
    kernel.source = kKernel;
    nki::TensorArgument x;
    x.shape = {128, 8};
    x.dtype = nki::DType::kFloat32;
    kernel.arguments = {x, 2.0};
    const auto stream = eval::lower_kernel(kernel, machine);
    REQUIRE(stream.ok());
    CHECK(stream->instructions.size() == 3);
    kernel.source.replace(kernel.source.find("nl.multiply"), 11, "nl.nonsense");
    const auto refused = eval::lower_kernel(kernel, machine);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().find("in line 7") != std::string::npos);
}

TEST_CASE("a description file: only fits may change, and nothing else does") {
    const std::string text = read_file(ACCELOPT_SOURCE_DIR "/configs/hardware/trn1.yaml");
    const auto constants = eval::described_constants(text);
    std::vector<std::string> fits;
    for (const eval::DescribedConstant& constant : constants) {
        if (constant.key != "name") CHECK(trainium::find_field(constant.key) != nullptr);
        if (constant.is_fit()) fits.push_back(constant.key);
    }
    CHECK(constants.size() == trainium::kMachineFields.size() + 1);
    CHECK(std::find(fits.begin(), fits.end(), "result_latency_ns") != fits.end());
    CHECK(std::find(fits.begin(), fits.end(), "tensor_ghz") == fits.end());
    CHECK(std::find(fits.begin(), fits.end(), "partitions") == fits.end());
    CHECK_FALSE(trainium::fit_constants(eval::load_machine("trn1"), fits).empty());

    const std::string changed =
        eval::with_changes(text, {{"result_latency_ns", "175", "fit: a laboratory"}});
    const auto before = split(text, '\n');
    const auto after = split(changed, '\n');
    REQUIRE(before.size() == after.size());
    int different = 0;
    for (std::size_t i = 0; i < before.size(); ++i) {
        if (before[i] == after[i]) continue;
        ++different;
        CHECK(after[i] == "result_latency_ns: 175                 # source: fit: a laboratory");
    }
    CHECK(different == 1);
    const ScratchFolder folder;
    CHECK(eval::load_machine(folder.write("new.yaml", changed)).result_latency_ns == 175);
    CHECK_THROWS_AS(eval::with_changes(text, {{"tensor_ghz", "3", "fit: no"}}), Error);
    CHECK_THROWS_AS(eval::with_changes(text, {{"no_such_key", "3", "fit: no"}}), Error);
}
