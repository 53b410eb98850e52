#include <catch2/catch.hpp>

#include "trace_support.h"

namespace accelopt::nki::test {
namespace {

const char* const kHead =
    "y = nl.ndarray((300, 700), dtype=x.dtype, buffer=nl.shared_hbm)\n"
    "p = nl.arange(128)[:, None]\nf = nl.arange(512)[None, :]\n";

Program masked_load(const std::string& index, const std::string& mask) {
    return legal(std::string(kHead) + "tile = nl.load(x[" + index + "], mask=" + mask +
                     ")\nnl.store(y[0:1, 0:1], 0.0)\nreturn y",
                 "x", {tensor({300, 700})});
}

std::string masked_verdict(const std::string& index, const std::string& mask) {
    return verdict(std::string(kHead) + "tile = nl.load(x[" + index + "], mask=" + mask +
                       ")\nnl.store(y[0:1, 0:1], 0.0)\nreturn y",
                   "x", {tensor({300, 700})});
}

}  // namespace

TEST_CASE("a mask that is a box cuts the views", "[nki][masks]") {
    const Program rows = masked_load("256 + p, f", "256 + p < 300");
    CHECK(text(rows.operations[0].src[0]) == "0/179200 [44:700 512:1]");
    CHECK(text(rows.operations[0].dst) == "0/0 [44:512 512:1]");
    CHECK(rows.operations[0].mask.empty());

    const Program both = masked_load("256 + p, 512 + f", "(256 + p < 300) & (512 + f <= 699)");
    CHECK(text(both.operations[0].src[0]) == "0/179712 [44:700 188:1]");

    const Program lower = masked_load("p, f", "f >= 500");
    CHECK(text(lower.operations[0].src[0]) == "0/500 [128:700 12:1]");
    CHECK(text(lower.operations[0].dst) == "0/500 [128:512 12:1]");

    const Program one = masked_load("p, f", "(f == 7) & (p > 126)");
    CHECK(text(one.operations[0].src[0]) == "0/88907 [1:700 1:1]");

    const Program negated = masked_load("p, f", "-1 * p + 9 >= 0");
    CHECK(text(negated.operations[0].src[0]) == "0/0 [10:700 512:1]");
}

TEST_CASE("a mask that holds everywhere is no mask; one that never holds drops the operation",
          "[nki][masks]") {
    CHECK(text(masked_load("p, f", "p < 300").operations[0].dst) == "0/0 [128:512 512:1]");
    CHECK(opcodes(masked_load("p, f", "p < 0")) == "memset store");
    CHECK(opcodes(masked_load("p, f", "None")) == "load memset store");
    CHECK(opcodes(masked_load("p, f", "3 < 4")) == "load memset store");
    CHECK(opcodes(masked_load("p, f", "3 > 4")) == "memset store");
    CHECK(opcodes(masked_load("p, f", "(p < 10) & (3 > 4)")) == "memset store");
}

TEST_CASE("a slanted mask stays a list of terms", "[nki][masks]") {
    const Program program = masked_load("p, f", "(p >= f) & (f < 100)");
    REQUIRE(program.operations[0].mask.size() == 1);
    const MaskTerm& term = program.operations[0].mask[0];
    CHECK(term.constant == 0);
    CHECK(term.coefficients[0] == 1);
    CHECK(term.coefficients[1] == -1);
    CHECK(text(program.operations[0].src[0]) == "0/0 [128:700 100:1]");
}

TEST_CASE("bounds are exact under masks", "[nki][masks]") {
    // Boundary pairs: the last legal row and the first illegal one.
    CHECK(masked_verdict("256 + p, f", "256 + p < 300") == "ok");
    CHECK(masked_verdict("256 + p, f", "256 + p < 301") == "rejected/tensor_access_out_of_bound");
    CHECK(masked_verdict("p, f + 600", "f < 100") == "ok");
    CHECK(masked_verdict("p, f + 600", "f < 101") == "rejected/tensor_access_out_of_bound");
    CHECK(masked_verdict("p, f - 5", "f >= 5") == "ok");
    CHECK(masked_verdict("p, f - 5", "f >= 4") == "rejected/tensor_access_out_of_bound");
    // Slanted: column f + p must stay below 700 and the mask says so, or only almost.
    const std::string diagonal = "0, 300 + f + p";
    CHECK(masked_verdict(diagonal, "300 + f + p < 700") == "ok");
    CHECK(masked_verdict(diagonal, "300 + f + p < 701") == "rejected/tensor_access_out_of_bound");
}

TEST_CASE("masks apply to compute operations and reductions", "[nki][masks]") {
    const Program program = legal(
        "y = nl.ndarray((128, 1), dtype=x.dtype, buffer=nl.shared_hbm)\n"
        "p = nl.arange(128)[:, None]\nf = nl.arange(512)[None, :]\n"
        "tile = nl.load(x)\n"
        "e = nl.exp(tile, mask=(p < 60) & (f < 300))\n"
        "s = nl.sum(tile, axis=[1], mask=f < 300)\n"
        "nl.store(y, s)\nreturn y");
    CHECK(text(program.operations[1].dst) == "0/0 [60:512 300:1]");
    CHECK(text(program.operations[1].src[0]) == "0/0 [60:512 300:1]");
    CHECK(text(program.operations[2].src[0]) == "0/0 [128:512 300:1]");
    CHECK(text(program.operations[2].dst) == "0/0 [128:1 1:1]");
}

TEST_CASE("a matmul mask cuts the operand it fits and remembers the columns", "[nki][masks]") {
    const Program program = legal(
        "y = nl.ndarray((64, 512), dtype=x.dtype, buffer=nl.shared_hbm)\n"
        "p = nl.arange(128)[:, None]\nm = nl.arange(64)[None, :]\nf = nl.arange(512)[None, :]\n"
        "a = nl.load(x[p, m])\nb = nl.load(x[p, f])\n"
        "acc = nl.zeros((nl.par_dim(64), 512), dtype=nl.float32, buffer=nl.psum)\n"
        "acc[...] += nisa.nc_matmul(a, b, mask=f < 300)\n"
        "acc[...] += nisa.nc_matmul(a, b, mask=p < 100)\n"
        "nl.store(y, nl.copy(acc))\nreturn y");
    const Operation& columns = program.operations[3];
    CHECK(columns.opcode == Opcode::kMatmul);
    CHECK(columns.masked_columns == 212);
    CHECK(text(columns.src[1]) == "0/0 [128:512 300:1]");
    CHECK(text(columns.dst) == "0/0 [64:512 300:1]");
    const Operation& rows = program.operations[4];
    CHECK(rows.masked_columns == 0);
    CHECK(text(rows.src[0]) == "0/0 [100:64 64:1]");
    CHECK(text(rows.src[1]) == "0/0 [100:512 512:1]");
    CHECK(text(rows.dst) == "0/0 [64:512 512:1]");
}

TEST_CASE("masks that are not affine comparisons are refused", "[nki][masks]") {
    CHECK(masked_verdict("p, f", "(p < 5) | (f < 5)") == "rejected/unsupported_expression_in_mask");
    CHECK(masked_verdict("p, f", "p != 5") == "rejected/unsupported_expression_in_mask");
    CHECK(masked_verdict("p, f", "5") == "rejected/unsupported_expression_in_mask");
    CHECK(masked_verdict("p, f", "nl.arange(64)[:, None] < 5") ==
          "rejected/unsupported_expression_in_mask");
    CHECK(masked_verdict("p, f", "p % 2 == 0") == "unsupported/python_feature");
}

}  // namespace accelopt::nki::test
