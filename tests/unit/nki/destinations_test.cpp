#include <catch2/catch.hpp>

#include "trace_support.h"

namespace accelopt::nki::test {
namespace {

const std::string kOut = "y = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)\n";

}  // namespace

TEST_CASE("a result assigned to a view is written there directly", "[nki][destinations]") {
    const Program program = legal(kOut +
                                  "t = nl.ndarray((2, nl.par_dim(128), 512), dtype=x.dtype)\n"
                                  "t[1] = nl.load(x)\n"
                                  "t[0, :, 0:256] = nl.exp(t[1, :, 256:512])\n"
                                  "nl.store(y[:, 0:256], t[0, :, 0:256])\nreturn y");
    CHECK(opcodes(program) == "load activation store");
    CHECK(text(program.operations[0].dst) == "1/0 [128:512 512:1]");
    CHECK(text(program.operations[1].dst) == "0/0 [128:512 256:1]");
    CHECK(program.tensors.size() == 3);
}

TEST_CASE("other results get a fresh tile of their site", "[nki][destinations]") {
    const Program program = legal(kOut +
                                  "for k in nl.affine_range(2):\n"
                                  "    tile = nl.load(x[:, k * 256:(k + 1) * 256])\n"
                                  "    nl.store(y[:, k * 256:(k + 1) * 256], nl.exp(tile) + 1)\n"
                                  "return y");
    CHECK(opcodes(program) ==
          "load activation tensor_scalar store load activation tensor_scalar store");
    REQUIRE(program.tensors.size() == 8);
    const Tensor& first = program.tensors[program.operations[0].dst.tensor];
    const Tensor& second = program.tensors[program.operations[4].dst.tensor];
    CHECK(first.id != second.id);
    CHECK(first.site == second.site);
    CHECK(first.name == "tile");
    CHECK(first.buffer == Buffer::kSbuf);
    CHECK(first.site != program.tensors[program.operations[1].dst.tensor].site);
}

TEST_CASE("matmul results are fresh in PSUM and are copied on the way to SBUF",
          "[nki][destinations]") {
    const Program program = legal(
        "y = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.shared_hbm)\n"
        "a = nl.load(x)\n"
        "product = nisa.nc_matmul(a, a)\n"
        "s = nl.ndarray((nl.par_dim(128), 128), dtype=nl.float32)\n"
        "s[...] = nisa.nc_matmul(a, a)\n"
        "nl.store(y, s)\nreturn y",
        "x", {tensor({128, 128})});
    CHECK(opcodes(program) == "load matmul matmul copy store");
    CHECK(program.tensors[program.operations[1].dst.tensor].buffer == Buffer::kPsum);
    CHECK(program.tensors[program.operations[2].dst.tensor].buffer == Buffer::kPsum);
    CHECK(program.tensors[program.operations[3].dst.tensor].buffer == Buffer::kSbuf);
    CHECK_FALSE(program.operations[1].accumulate);
}

TEST_CASE("+= into PSUM accumulates, elsewhere it adds in place", "[nki][destinations]") {
    const Program program = legal(
        "y = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.shared_hbm)\n"
        "a = nl.load(x)\n"
        "acc = nl.zeros((nl.par_dim(128), 128), dtype=nl.float32, buffer=nl.psum)\n"
        "acc += nisa.nc_matmul(a, a)\n"
        "acc[0:128, 0:128] += nl.matmul(a, a, transpose_x=True)\n"
        "s = nl.zeros((nl.par_dim(128), 128), dtype=nl.float32)\n"
        "s += acc\n"
        "s += 1.5\n"
        "s *= nl.exp(a)\n"
        "s[:, 0:64] -= s[:, 64:65]\n"
        "nl.store(y, s)\nreturn y",
        "x", {tensor({128, 128})});
    CHECK(opcodes(program) ==
          "load memset matmul matmul memset tensor_tensor tensor_scalar activation tensor_tensor "
          "tensor_scalar store");
    const auto& ops = program.operations;
    CHECK(ops[1].implicit);
    CHECK(ops[2].accumulate);
    CHECK(ops[3].accumulate);
    CHECK_FALSE(ops[4].implicit);
    CHECK(ops[5].dst == ops[5].src[0]);
    CHECK(ops[6].operand0.immediate == 1.5);
    CHECK(ops[8].op0 == AluOp::kMultiply);
    CHECK(ops[9].op0 == AluOp::kSubtract);
    CHECK(ops[9].operand0.vector);
    CHECK(text(ops[9].operand0.view) == "0/64 [128:128 1:1]");
}

TEST_CASE("assigning copies tiles, fills numbers and broadcasts", "[nki][destinations]") {
    const Program program = legal(kOut +
                                  "t = nl.load(x)\n"
                                  "s = nl.ndarray((nl.par_dim(128), 512), dtype=nl.float32)\n"
                                  "s[...] = t\n"
                                  "s[:, 0:4] = 7\n"
                                  "s[:, 4:512] = t[:, 0:1]\n"
                                  "s[...] = s\n"
                                  "s[...] = t[0:1, :].broadcast_to((128, 512))\n"
                                  "nl.store(y, value=s)\nreturn y");
    CHECK(opcodes(program) == "load copy memset copy partition_broadcast store");
    CHECK(program.operations[2].operand0.immediate == 7);
    CHECK(text(program.operations[3].src[0]) == "0/0 [128:512 508:0]");
    CHECK(text(program.operations[4].src[0]) == "0/0 [1:0 512:1]");
}

TEST_CASE("a lower precision asked for is kept on the way to a wider tile", "[nki][destinations]") {
    const Program program = legal(kOut +
                                  "t = nl.load(x)\n"
                                  "s = nl.ndarray((nl.par_dim(128), 512), dtype=nl.float32)\n"
                                  "s[...] = nl.exp(t, dtype=nl.bfloat16)\n"
                                  "h = nl.ndarray((nl.par_dim(128), 512), dtype=nl.bfloat16)\n"
                                  "h[...] = nl.exp(t)\n"
                                  "nl.store(y, s)\nreturn y");
    CHECK(opcodes(program) == "load activation copy activation store");
    CHECK(program.tensors[program.operations[1].dst.tensor].dtype == DType::kBFloat16);
    CHECK(program.tensors[program.operations[3].dst.tensor].dtype == DType::kBFloat16);
}

TEST_CASE("a broadcast over partitions is made once per value", "[nki][destinations]") {
    const Program program = legal(kOut +
                                  "t = nl.load(x)\n"
                                  "row = t[0:1, :].broadcast_to((128, 512))\n"
                                  "a = nl.multiply(t, row)\n"
                                  "b = nl.add(a, row)\n"
                                  "nl.store(y, nl.multiply(b, t[0:1, :]))\nreturn y");
    CHECK(opcodes(program) ==
          "load partition_broadcast tensor_tensor tensor_tensor partition_broadcast tensor_tensor "
          "store");
}

TEST_CASE("loop_reduce starts in the first iteration and combines in the others",
          "[nki][destinations]") {
    const Program named = legal(
        "y = nl.ndarray((128, 1), dtype=x.dtype, buffer=nl.shared_hbm)\n"
        "for i in nl.affine_range(2):\n"
        "    for k in nl.affine_range(2):\n"
        "        t = nl.load(x[:, (i * 2 + k) * 128:(i * 2 + k + 1) * 128])\n"
        "        s = nl.sum(t, axis=[1])\n"
        "        total = nl.loop_reduce(s, op=np.add, loop_indices=[i, k], dtype=nl.float32)\n"
        "nl.store(y, total)\nreturn y");
    CHECK(opcodes(named) ==
          "load reduce copy load reduce tensor_tensor load reduce tensor_tensor load reduce "
          "tensor_tensor store");
    const auto& ops = named.operations;
    CHECK(ops[2].dst.tensor == ops[5].dst.tensor);
    CHECK(ops[5].dst.tensor == ops[11].dst.tensor);
    CHECK(ops[5].src[0] == ops[5].dst);

    // A start value that matters is combined with, one that does not is overwritten.
    const auto first_of = [](const std::string& start) {
        const Program program = legal(
            "y = nl.ndarray((128, 1), dtype=x.dtype, buffer=nl.shared_hbm)\n"
            "t = nl.sum(nl.load(x), axis=1)\n"
            "s = " +
            start +
            "\n"
            "for k in nl.affine_range(2):\n"
            "    s[...] = nl.loop_reduce(t, op=nl.add, loop_indices=[k])\n"
            "nl.store(y, s)\nreturn y");
        return program.operations[3].opcode;
    };
    CHECK(first_of("nl.zeros((nl.par_dim(128), 1), dtype=nl.float32)") == Opcode::kCopy);
    CHECK(first_of("nl.ones((nl.par_dim(128), 1), dtype=nl.float32)") == Opcode::kTensorTensor);
}

TEST_CASE("a named loop_reduce starts afresh in every outer iteration", "[nki][destinations]") {
    const Program program = legal(
        "y = nl.ndarray((128, 2), dtype=x.dtype, buffer=nl.shared_hbm)\n"
        "for i in nl.affine_range(2):\n"
        "    for k in nl.affine_range(2):\n"
        "        s = nl.sum(nl.load(x[:, (i * 2 + k) * 128:(i * 2 + k + 1) * 128]), axis=1)\n"
        "        total = nl.loop_reduce(s, op=np.add, loop_indices=[k])\n"
        "    nl.store(y[:, i:i + 1], total)\nreturn y");
    CHECK(opcodes(program) ==
          "load reduce copy load reduce tensor_tensor store "
          "load reduce copy load reduce tensor_tensor store");
    CHECK(program.operations[2].dst.tensor != program.operations[9].dst.tensor);
}

TEST_CASE("an unused result is still executed", "[nki][destinations]") {
    CHECK(opcodes(legal(kOut + "t = nl.load(x)\nnl.exp(t)\nnl.store(y, t)\nreturn y")) ==
          "load activation store");
}

TEST_CASE("results pass through functions, conditions and containers", "[nki][destinations]") {
    const Program program = legal(kOut +
                                  "def half(t):\n    return nl.multiply(t, 0.5)\n"
                                  "t = nl.load(x)\n"
                                  "s = nl.ndarray((nl.par_dim(128), 512), dtype=nl.float32)\n"
                                  "s[...] = half(nl.exp(t)) if t.shape[0] == 128 else t\n"
                                  "pair = [nl.exp(s), nl.square(s)]\n"
                                  "nl.store(y, pair[0] - pair[1])\nreturn y");
    CHECK(opcodes(program) ==
          "load activation tensor_scalar activation activation tensor_tensor store");
    CHECK(program.tensors[program.operations[2].dst.tensor].name == "s");
}

}  // namespace accelopt::nki::test
