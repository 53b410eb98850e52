#include <catch2/catch.hpp>

#include "trace_support.h"

namespace accelopt::nki::test {
namespace {

/// Source view of the first load of `x[index]`, x being [4, 128, 1000] in HBM.
std::string hbm_view(const std::string& index) {
    const Program program = legal(
        "y = nl.ndarray((128, 1), dtype=x.dtype, buffer=nl.shared_hbm)\n"
        "p = nl.arange(128)[:, None]\nf = nl.arange(500)[None, :]\n"
        "tile = nl.load(x" +
            index +
            ")\n"
            "nl.store(y, 0.0)\nreturn y",
        "x", {tensor({4, 128, 1000})});
    return text(program.operations[0].src[0]);
}

/// Source view of an exp of `tile[index]`; the tile is a [2, 3, par 64, 8, 16] SBUF tensor.
std::string sbuf_view(const std::string& index) {
    const Program program = legal(
        "y = nl.ndarray((64, 1), dtype=x.dtype, buffer=nl.shared_hbm)\n"
        "p = nl.arange(64)[:, None]\n"
        "tile = nl.zeros((2, 3, nl.par_dim(64), 8, 16), dtype=nl.float32, buffer=nl.sbuf)\n"
        "out = nl.exp(tile" +
        index + ")\nnl.store(y, 0.0)\nreturn y");
    for (const Operation& operation : program.operations)
        if (operation.opcode == Opcode::kActivation) return text(operation.src[0]);
    return "no activation";
}

std::string verdict_of(const std::string& index) {
    return verdict("return nl.load(x" + index + ")", "x", {tensor({4, 128, 1000})});
}

}  // namespace

TEST_CASE("basic indices of HBM tensors become strided views", "[nki][indexing]") {
    CHECK(hbm_view("[0]") == "0/0 [128:1000 1000:1]");
    CHECK(hbm_view("[2, 5:10, 7:20]") == "0/261007 [5:1000 13:1]");
    CHECK(hbm_view("[1, :, 3]") == "0/128003 [128:1000 1:1]");
    CHECK(hbm_view("[:, 4, 0:8:2]") == "0/4000 [4:128000 4:2]");
    CHECK(hbm_view("[-1, -2:, -10:-1]") == "0/510990 [2:1000 9:1]");
    CHECK(hbm_view("[0, ..., 0:4]") == "0/0 [128:1000 4:1]");
    CHECK(hbm_view("[3, nl.ds(16, 32), nl.ds(100, 200)]") == "0/400100 [32:1000 200:1]");
    CHECK(hbm_view("[0:4, 0:2]") == "0/0 [4:128000 2000:1]");
    CHECK(hbm_view("[0, 0:64, None, 0:4]") == "0/0 [64:1000 4:1]");
}

TEST_CASE("affine indices become strided views", "[nki][indexing]") {
    CHECK(hbm_view("[1, p, f + 3]") == "0/128003 [128:1000 500:1]");
    CHECK(hbm_view("[1, p, 2 * f]") == "0/128000 [128:1000 500:2]");
    CHECK(hbm_view("[0, 127 - p, f]") == "0/127000 [128:-1000 500:1]");
    CHECK(hbm_view("[0, p, 2 * nl.arange(100)[None, :] - (-3)]") == "0/3 [128:1000 100:2]");
    CHECK(hbm_view("[nl.arange(4)[:, None, None], nl.arange(8)[None, :, None], "
                   "10 * nl.arange(5)[None, None, :]]") == "0/0 [4:128000 8:1000 5:10]");
    // Two axes of the index in one axis of the tensor.
    CHECK(hbm_view("[0, nl.arange(16)[:, None], 100 * nl.arange(4)[None, :] + 7]") ==
          "0/7 [16:1000 4:100]");
    // An integer in one dimension broadcasts against the arange of another.
    CHECK(hbm_view("[nl.arange(4)[:, None], 0, f]") == "0/0 [4:128000 500:1]");
}

TEST_CASE("on-chip views know block, partition and free dims", "[nki][indexing]") {
    CHECK(sbuf_view("[1, 2]") == "5/0 [64:128 128:1]");
    CHECK(sbuf_view("[0, 1, 0:32, 3]") == "1/48 [32:128 16:1]");
    CHECK(sbuf_view("[0, 1, 32:64, 3, 4:8]") == "1/4148 [32:128 4:1]");
    CHECK(sbuf_view("[1, 0, :, 0:8:4, 1]") == "3/1 [64:128 2:64]");
    CHECK(sbuf_view("[1, 0, :, 2, 5]") == "3/37 [64:128 1:1]");
    CHECK(sbuf_view("[0, 0, p, 2, nl.arange(16)[None, :]]") == "0/32 [64:128 16:1]");
    CHECK(sbuf_view("[1, 1, 0:32][:, 4, 8:]") == "4/72 [32:128 8:1]");
    // One partition has no partition stride.
    CHECK(sbuf_view("[0, 0, 0:1, :, 0]") == "0/0 [1:0 8:16]");
}

TEST_CASE("free dims that lie one after the other are one dim", "[nki][indexing]") {
    CHECK(sbuf_view("[0, 0, :, 0:2, :]") == "0/0 [64:128 32:1]");
    CHECK(sbuf_view("[0, 0, :, 0:2, 0:8]") == "0/0 [64:128 2:16 8:1]");
}

TEST_CASE("illegal indices are refused by their documented names", "[nki][indexing]") {
    CHECK(verdict_of("[4]") == "rejected/tensor_access_out_of_bound");
    CHECK(verdict_of("[-5]") == "rejected/tensor_access_out_of_bound");
    CHECK(verdict_of("[0, 100:129, 0]") == "rejected/tensor_access_out_of_bound");
    CHECK(verdict_of("[0, 0:128, 1000:1001]") == "rejected/tensor_access_out_of_bound");
    CHECK(verdict_of("[0, nl.arange(128)[:, None], nl.arange(1001)[None, :]]") ==
          "rejected/tensor_access_out_of_bound");
    CHECK(verdict_of("[0, nl.arange(128)[:, None] - 1, nl.arange(8)[None, :]]") ==
          "rejected/tensor_access_out_of_bound");
    CHECK(verdict_of("[0, 0, 0, 0]") == "rejected/value_error");
    CHECK(verdict_of("[0, 5:5]") == "rejected/value_error");
    CHECK(verdict_of("[..., ...]") == "rejected/value_error");
    CHECK(verdict_of("['a']") == "rejected/type_error");
    CHECK(verdict_of("[0, nl.arange(128), nl.arange(8)]") == "rejected/1d_arange_not_supported");
    CHECK(verdict_of("[0, nl.arange(128)[:, None], 0:8]") ==
          "rejected/unsupported_mixing_basic_advanced_tensor_indexing");
    CHECK(verdict_of("[0, nl.arange(128)[:, None]]") ==
          "rejected/unsupported_mixing_basic_advanced_tensor_indexing");
    CHECK(verdict_of("[0, nl.arange(128)[:, None], nl.arange(8)[:, None]]") ==
          "rejected/value_error");
    CHECK(verdict_of("[0, nl.arange(128)[:, None] // 2, nl.arange(8)[None, :]]") ==
          "unsupported/python_feature");
}

TEST_CASE("a view that is no tile is refused", "[nki][indexing]") {
    const auto use = [](const std::string& index) {
        return verdict("t = nl.zeros((2, nl.par_dim(64), 8), dtype=nl.float32)\nreturn nl.exp(t" +
                       index + ")");
    };
    CHECK(use("") == "rejected/failed_to_infer_tile_from_local_tensor");
    CHECK(use("[0:2]") == "rejected/failed_to_infer_tile_from_local_tensor");
    CHECK(use("[0, 3]") == "rejected/leading_dimension_of_tensor_must_be_partition");
    CHECK(use("[0, 0:64:2]") == "rejected/partition_step");
    CHECK(use("[nl.arange(2)[:, None], 0, nl.arange(8)[None, :]]") ==
          "rejected/failed_to_infer_tile_from_local_tensor");
    // The same index along partitions and the free dim: a diagonal.
    CHECK(use("[0, nl.arange(8)[:, None], nl.arange(8)[:, None]]") ==
          "rejected/failed_to_infer_tile_from_local_tensor");
}

TEST_CASE("reshapes are views of contiguous memory", "[nki][indexing]") {
    const Program program = legal(
        "y = nl.ndarray((4, 16, 8), dtype=x.dtype, buffer=nl.shared_hbm)\n"
        "tile = nl.load(x.reshape((8, 64)))\n"
        "wide = tile.reshape((8, 4, 16))\n"
        "part = nl.copy(wide[:, 2, :])\n"
        "flat = y.reshape((32, 16))\n"
        "nl.store(flat[8:16, :], part)\n"
        "return y",
        "x", {tensor({512})});
    CHECK(text(program.operations[0].src[0]) == "0/0 [8:64 64:1]");
    CHECK(text(program.operations[1].src[0]) == "0/32 [8:64 16:1]");
    CHECK(text(program.operations[2].dst) == "0/128 [8:16 16:1]");
    CHECK(verdict("return nl.load(x.reshape((3, 100)))") == "rejected/value_error");
    CHECK(verdict("t = nl.load(x)\nreturn t.reshape((64, 1024))") == "rejected/partition_reshape");
    CHECK(verdict("t = nl.load(x)\nreturn t[:, 0:20:2].reshape((128, 2, 5))") ==
          "rejected/value_error");
}

}  // namespace accelopt::nki::test
