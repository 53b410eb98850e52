#include <catch2/catch.hpp>

#include "trace_support.h"

namespace accelopt::nki::test {
namespace {

/// The operations between the load of `t` [128, 512] and the store of the value of `expression`.
std::vector<Operation> compute(const std::string& expression, Program* whole = nullptr) {
    Program program = legal(
        "y = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)\n"
        "t = nl.load(x)\nv = nl.load(x[:, 3:4])\n"
        "z = " +
        expression + "\nnl.store(y[0:z.shape[0], 0:z.shape[1]], z)\nreturn y");
    const std::vector<Operation> inner(program.operations.begin() + 2,
                                       program.operations.end() - 1);
    if (whole != nullptr) *whole = std::move(program);
    return inner;
}

Operation single(const std::string& expression) {
    const std::vector<Operation> all = compute(expression);
    REQUIRE(all.size() == 1);
    return all[0];
}

}  // namespace

TEST_CASE("unary functions are activations", "[nki][operations]") {
    const std::pair<const char*, ActFunction> functions[] = {
        {"exp", ActFunction::kExp},     {"log", ActFunction::kLog},
        {"tanh", ActFunction::kTanh},   {"sigmoid", ActFunction::kSigmoid},
        {"relu", ActFunction::kRelu},   {"gelu", ActFunction::kGelu},
        {"silu", ActFunction::kSilu},   {"sqrt", ActFunction::kSqrt},
        {"rsqrt", ActFunction::kRsqrt}, {"square", ActFunction::kSquare},
        {"abs", ActFunction::kAbs},     {"sign", ActFunction::kSign},
        {"erf", ActFunction::kErf},     {"softplus", ActFunction::kSoftplus},
        {"floor", ActFunction::kFloor}, {"gelu_apprx_tanh", ActFunction::kGeluApproxTanh}};
    for (const auto& [name, function] : functions) {
        INFO(name);
        const Operation op = single("nl." + std::string(name) + "(t)");
        CHECK(op.opcode == Opcode::kActivation);
        CHECK(op.function == function);
        CHECK(op.scale.immediate == 1.0);
        CHECK_FALSE(op.bias.vector);
    }
    CHECK(single("nl.reciprocal(t)").opcode == Opcode::kReciprocal);
    const Operation negative = single("nl.negative(t)");
    CHECK(negative.opcode == Opcode::kTensorScalar);
    CHECK(negative.operand0.immediate == -1.0);
}

TEST_CASE("binary functions pick the instruction from their operands", "[nki][operations]") {
    const Operation tiles = single("nl.subtract(t, t)");
    CHECK(tiles.opcode == Opcode::kTensorTensor);
    CHECK(tiles.op0 == AluOp::kSubtract);

    const Operation number = single("nl.subtract(t, 2)");
    CHECK(number.opcode == Opcode::kTensorScalar);
    CHECK_FALSE(number.reverse0);
    CHECK(number.operand0.immediate == 2.0);

    const Operation reversed = single("nl.subtract(2, t)");
    CHECK(reversed.reverse0);
    CHECK(reversed.src[0].count() == 128 * 512);

    const Operation vector = single("nl.divide(t, v)");
    CHECK(vector.opcode == Opcode::kTensorScalar);
    CHECK(vector.op0 == AluOp::kDivide);
    CHECK(vector.operand0.vector);
    CHECK(text(vector.operand0.view) == "0/0 [128:1 1:1]");
    CHECK_FALSE(vector.reverse0);

    const Operation vector_first = single("nl.divide(v, t)");
    CHECK(vector_first.reverse0);
    CHECK(text(vector_first.src[0]) == "0/0 [128:512 512:1]");

    const Operation vectors = single("nl.add(v, v)");
    CHECK(vectors.opcode == Opcode::kTensorTensor);
}

TEST_CASE("operators on tiles are the same instructions", "[nki][operations]") {
    CHECK(single("t + t").op0 == AluOp::kAdd);
    CHECK(single("t * v").operand0.vector);
    CHECK(single("1 - t").reverse0);
    CHECK(single("t / 3").op0 == AluOp::kDivide);
    CHECK(single("t ** 2").op0 == AluOp::kPower);
    CHECK(single("-t").operand0.immediate == -1.0);
    const Operation compared = single("t > 0");
    CHECK(compared.op0 == AluOp::kGreater);
    Program program;
    compute("t > 0", &program);
    CHECK(program.tensors[program.operations[2].dst.tensor].dtype == DType::kBool);
    CHECK(single("2 > t").op0 == AluOp::kGreater);
    CHECK(single("2 > t").reverse0);
    CHECK(compute("t + t * 2").size() == 2);
}

TEST_CASE("free dims broadcast with stride 0", "[nki][operations]") {
    const Program program = legal(
        "y = nl.ndarray((128, 4, 16), dtype=x.dtype, buffer=nl.shared_hbm)\n"
        "a = nl.load(x[:, 0:64]).reshape((128, 4, 16))\n"
        "b = nl.load(x[:, 0:16]).reshape((128, 1, 16))\n"
        "nl.store(y, nl.add(a, b))\nreturn y");
    CHECK(text(program.operations[2].src[0]) == "0/0 [128:64 4:16 16:1]");
    CHECK(text(program.operations[2].src[1]) == "0/0 [128:16 4:0 16:1]");
}

TEST_CASE("operands that differ in factorisation only are split alike", "[nki][operations]") {
    const Program program = legal(
        "y = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)\n"
        "a = nl.load(x)\n"
        "b = nl.ndarray((nl.par_dim(128), 4, 130), dtype=nl.float32)\n"
        "b[:, :, 0:128] = nl.load(x).reshape((128, 4, 128))\n"
        "nl.store(y, nisa.tensor_tensor(a, b[:, :, 0:128], op=nl.add))\nreturn y");
    const Operation& op = program.operations[3];
    CHECK(op.opcode == Opcode::kTensorTensor);
    CHECK(text(op.src[0]) == "0/0 [128:512 4:128 128:1]");
    CHECK(text(op.src[1]) == "0/0 [128:520 4:130 128:1]");
}

TEST_CASE("nisa.activation takes a scale and a bias", "[nki][operations]") {
    const Operation op = single("nisa.activation(op=nl.exp, data=t, bias=v, scale=-0.5)");
    CHECK(op.opcode == Opcode::kActivation);
    CHECK(op.engine == Engine::kScalar);
    CHECK(op.scale.immediate == -0.5);
    CHECK(op.bias.vector);
    CHECK(text(op.bias.view) == "0/0 [128:1 1:1]");
    CHECK(single("nisa.activation(np.exp, t, scale=v)").scale.vector);
}

TEST_CASE("nisa.activation reduces on the side", "[nki][operations]") {
    Program program;
    const auto ops =
        compute("nisa.activation_reduce(nl.square, t, reduce_op=np.add, reduce_res=v)", &program);
    REQUIRE(ops.size() == 2);
    CHECK(ops[0].opcode == Opcode::kActivation);
    CHECK(ops[1].opcode == Opcode::kReduce);
    CHECK(ops[1].implicit);
    CHECK(ops[1].src[0] == ops[0].dst);
    CHECK(program.tensors[ops[1].dst.tensor].name == "v");
}

TEST_CASE("nisa.tensor_scalar takes two operations", "[nki][operations]") {
    const Operation op = single(
        "nisa.tensor_scalar(data=t, op0=nl.maximum, operand0=np.float32(0.1), op1=nl.subtract, "
        "operand1=v, reverse1=True, engine=nisa.vector_engine)");
    CHECK(op.op0 == AluOp::kMax);
    CHECK(op.operand0.immediate == static_cast<double>(0.1F));
    CHECK(op.op1 == AluOp::kSubtract);
    CHECK(op.operand1.vector);
    CHECK(op.reverse1);
    CHECK(op.engine == Engine::kVector);
}

TEST_CASE("reductions keep [P, 1] and say which axes they reduce", "[nki][operations]") {
    const Operation sum = single("nl.sum(t, axis=[1])");
    CHECK(sum.opcode == Opcode::kReduce);
    CHECK(sum.op0 == AluOp::kAdd);
    CHECK(sum.axes == 2);
    CHECK(text(sum.dst) == "0/0 [128:1 1:1]");
    const Operation largest = single("nisa.tensor_reduce(np.max, t, axis=-1, negate=True)");
    CHECK(largest.op0 == AluOp::kMax);
    CHECK(largest.negate);
    const auto mean = compute("nl.mean(t, axis=1)");
    REQUIRE(mean.size() == 2);
    CHECK(mean[1].operand0.immediate == 1.0 / 512);
    const Operation inner = compute("nl.sum(t.reshape((128, 8, 64)), axis=2)")[0];
    CHECK(text(inner.src[0]) == "0/0 [128:512 8:64 64:1]");
    CHECK(text(inner.dst) == "0/0 [128:8 8:1 1:1]");
    CHECK(inner.axes == 4);
    const Operation both = compute("nl.sum(t.reshape((128, 8, 64)), axis=[1, 2])")[0];
    CHECK(text(both.src[0]) == "0/0 [128:512 512:1]");
    CHECK(both.axes == 2);
    CHECK(verdict("return nl.sum(nl.load(x), axis=0)") == "rejected/reduce_axis");
    CHECK(verdict("return nisa.tensor_reduce(nl.add, nl.load(x).reshape((128, 8, 64)), axis=1)") ==
          "rejected/reduce_axis");
}

TEST_CASE("nl.matmul transposes its first operand through PSUM", "[nki][operations]") {
    const Program program = legal(
        "y = nl.ndarray((64, 512), dtype=x.dtype, buffer=nl.shared_hbm)\n"
        "a = nl.load(x[0:64, 0:128])\nb = nl.load(x)\n"
        "nl.store(y, nl.matmul(a, b))\nreturn y");
    CHECK(opcodes(program) == "load load transpose copy matmul store");
    const auto& ops = program.operations;
    CHECK(ops[2].implicit);
    CHECK(text(ops[2].src[0]) == "0/0 [64:128 128:1]");
    CHECK(text(ops[2].dst) == "0/0 [128:64 64:1]");
    CHECK(ops[3].implicit);
    CHECK(program.tensors[ops[3].dst.tensor].buffer == Buffer::kSbuf);
    CHECK(ops[4].src[0].tensor == ops[3].dst.tensor);
    CHECK(text(ops[4].dst) == "0/0 [64:512 512:1]");
    CHECK(program.tensors[ops[4].dst.tensor].buffer == Buffer::kPsum);
}

TEST_CASE("is_transpose is a transpose only with a known identity", "[nki][operations]") {
    const std::string head =
        "y = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.shared_hbm)\n"
        "t = nl.load(x[:, 0:128])\n"
        "one = nl.load(nl.shared_constant(np.identity(128, dtype=np.float32)))\n";
    const std::string use = "nl.store(y, nisa.nc_matmul(t, one, is_transpose=True))\nreturn y";
    CHECK(opcodes(legal(head + use)) == "load load transpose store");
    CHECK(opcodes(legal(head + "one[0:32, 0:1] = 2.0\n" + use)) == "load load memset matmul store");
    CHECK(opcodes(legal(head + "one = nl.load(x[:, 0:128])\n" + use)) ==
          "load load load matmul store");
    const Program part =
        legal(head +
              "nl.store(y[0:128, 0:64], nisa.nc_matmul(t[0:64, :], one[0:64, 0:64], "
              "is_moving_onezero=True, is_transpose=True))\nreturn y");
    CHECK(part.operations[2].opcode == Opcode::kTranspose);
    CHECK(part.operations[2].moving_onezero);
    CHECK(text(part.operations[2].dst) == "0/0 [128:64 64:1]");
}

TEST_CASE("scan, select, iota, memset and copies", "[nki][operations]") {
    const Operation scan =
        single("nisa.tensor_tensor_scan(t, t, initial=v, op0=np.multiply, op1=np.add)");
    CHECK(scan.opcode == Opcode::kScan);
    CHECK(scan.operand0.vector);
    CHECK(scan.op1 == AluOp::kAdd);
    const Operation fused = single(
        "nisa.scalar_tensor_tensor(data=t, op0=nl.multiply, operand0=2.0, op1=nl.add, operand1=t)");
    CHECK(fused.opcode == Opcode::kScalarTensorTensor);
    CHECK(fused.sources == 2);
    const auto where = compute("nl.where(t > 0, t, 0.0)");
    REQUIRE(where.size() == 3);
    CHECK(where[1].opcode == Opcode::kMemset);
    CHECK(where[2].opcode == Opcode::kSelect);
    CHECK(text(where[2].src[2]) == "0/0 [128:1 512:0]");
    const Operation iota = single(
        "nisa.iota(5 + 2 * nl.arange(128)[:, None] + nl.arange(8)[None, :], dtype=nl.int32)");
    CHECK(iota.opcode == Opcode::kIota);
    CHECK(iota.operand0.immediate == 5);
    CHECK(iota.iota[0] == 2);
    CHECK(iota.iota[1] == 1);
    CHECK(single("nisa.memset((128, 4), 3.5, dtype=nl.float32)").operand0.immediate == 3.5);
    CHECK(single("nisa.tensor_copy(t, engine=nisa.scalar_engine)").engine == Engine::kScalar);
    const auto selected =
        compute("nisa.affine_select(nl.arange(128)[:, None] >= nl.arange(512)[None, :], t, -1.0)");
    REQUIRE(selected.size() == 2);
    CHECK(selected[0].opcode == Opcode::kMemset);
    CHECK(selected[0].operand0.immediate == -1.0);
    CHECK(selected[1].mask.size() == 1);
}

TEST_CASE("constants and dma copies", "[nki][operations]") {
    const Program program = legal(
        "y = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)\n"
        "table = nl.shared_constant(np.tril(np.ones((4, 4))))\n"
        "t = nl.load(table)\n"
        "nisa.dma_copy(dst=y, src=x)\nreturn y");
    CHECK(opcodes(program) == "load dma_copy");
    const Tensor& constant = program.tensors[program.operations[0].src[0].tensor];
    CHECK(constant.role == TensorRole::kConstant);
    CHECK(constant.constant_data[1] == 0.0F);
    CHECK(constant.constant_data[4] == 1.0F);
    CHECK(text(program.operations[1].dst) == "0/0 [128:512 512:1]");
}

TEST_CASE("operations carry their line, API name and loop", "[nki][operations]") {
    const Program program = legal(
        "y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)\n"
        "for i in nl.affine_range(1):\n"
        "    for j in nl.sequential_range(2):\n"
        "        nl.store(y[:, nl.ds(j * 256, 256)],\n"
        "                 nl.load(x[:, nl.ds(j * 256, 256)]))\n"
        "return y");
    REQUIRE(program.loops.size() == 2);
    CHECK(program.loops[0].kind == "affine_range");
    CHECK(program.loops[0].parent == -1);
    CHECK(program.loops[0].variable == "i");
    CHECK(program.loops[1].kind == "sequential_range");
    CHECK(program.loops[1].parent == 0);
    CHECK(program.loops[1].trip_count == 2);
    REQUIRE(program.operations.size() == 4);
    CHECK(program.operations[0].line == kBodyLine + 4);
    CHECK(program.api_names[program.operations[0].api] == "nl.load");
    CHECK(program.operations[1].line == kBodyLine + 3);
    CHECK(program.api_names[program.operations[1].api] == "nl.store");
    CHECK(program.operations[3].loop == 1);
    CHECK(program.outputs == std::vector<TensorId>{1});
    CHECK(program.tensors[0].role == TensorRole::kInput);
    CHECK(program.tensors[0].argument == 0);
    CHECK(program.tensors[1].role == TensorRole::kOutput);
}

TEST_CASE("dtypes promote and cast as documented", "[nki][operations]") {
    const auto dtype = [](const std::string& expression) {
        const Program program = legal(
            "y = nl.ndarray((128, 8), dtype=x.dtype, buffer=nl.shared_hbm)\n"
            "f = nl.load(x[:, 0:8])\nh = nl.load(x[:, 0:8], dtype=nl.bfloat16)\n"
            "g = nl.load(x[:, 0:8], dtype=nl.float16)\ni = nisa.memset((128, 8), 1, nl.int32)\n"
            "nl.store(y, " +
            expression + ")\nreturn y");
        return to_string(program.tensors[program.operations.rbegin()[1].dst.tensor].dtype);
    };
    CHECK(dtype("f + h") == "float32");
    CHECK(dtype("h + h") == "bfloat16");
    CHECK(dtype("h + g") == "float32");
    CHECK(dtype("h * 2.5") == "float32");
    CHECK(dtype("h * 2") == "bfloat16");
    CHECK(dtype("nl.copy(i, dtype=nl.int8) + 1") == "int32");
    CHECK(dtype("nl.copy(i, dtype=nl.int8) + nl.copy(i, dtype=nl.uint16)") == "int32");
    CHECK(dtype("nl.copy(i, dtype=nl.int8) + nl.copy(i, dtype=nl.uint8)") == "int16");
    CHECK(dtype("i + nl.copy(i, dtype=nl.uint32)") == "float32");
    CHECK(dtype("h + nl.copy(f, dtype=nl.float8_e4m3)") == "bfloat16");
    CHECK(dtype("i + 1") == "int32");
    CHECK(dtype("i * 0.5") == "float32");
    CHECK(dtype("nl.exp(h)") == "bfloat16");
    CHECK(dtype("nl.add(f, f, dtype=nl.bfloat16)") == "bfloat16");
}

}  // namespace accelopt::nki::test
