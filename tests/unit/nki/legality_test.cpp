#include <catch2/catch.hpp>

#include "trace_support.h"

namespace accelopt::nki::test {
namespace {

/// A rule with a kernel just inside it and one just outside.
struct Twins {
    const char* rule;
    const char* good;
    const char* bad;
};

void check(const Twins& twins, const std::string& parameters = "x",
           const std::vector<Argument>& arguments = {tensor({128, 512})}) {
    const std::string head = "y = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)\n";
    const std::string tail = "\nnl.store(y[0:1, 0:1], 0.0)\nreturn y";
    INFO(twins.good << "\n--- against ---\n" << twins.bad);
    CHECK(verdict(head + twins.good + tail, parameters, arguments) == "ok");
    CHECK(verdict(head + twins.bad + tail, parameters, arguments) ==
          std::string("rejected/") + twins.rule);
}

}  // namespace

TEST_CASE("partition limits have an exact edge", "[nki][legality]") {
    check({"num_partition_exceed_arch_limit", "t = nl.ndarray((128, 4), dtype=nl.float32)",
           "t = nl.ndarray((129, 4), dtype=nl.float32)"});
    check({"num_partition_exceed_arch_limit", "t = nl.ndarray((300, nl.par_dim(128), 4))",
           "t = nl.ndarray((3, nl.par_dim(129), 4))"});
    check({"num_partition_exceed_arch_limit", "t = nl.load(x[0:128])", "t = nl.load(x)"}, "x",
          {tensor({129, 8})});
    check({"num_partition_exceed_arch_limit", "nl.store(y, nl.load(x))",
           "nl.store(x.reshape((512, 128)), 0.0)"});
}

TEST_CASE("capacities of one tile have an exact edge", "[nki][legality]") {
    check({"sbuf_capacity", "t = nl.ndarray((128, 49152), dtype=nl.float32)",
           "t = nl.ndarray((128, 49153), dtype=nl.float32)"});
    check({"sbuf_capacity", "t = nl.ndarray((2, 49152 * 2), dtype=nl.bfloat16)",
           "t = nl.ndarray((2, 49152 * 2 + 1), dtype=nl.bfloat16)"});
    check({"psum_capacity", "t = nl.ndarray((128, 4096), dtype=nl.float32, buffer=nl.psum)",
           "t = nl.ndarray((128, 4097), dtype=nl.float32, buffer=nl.psum)"});
}

TEST_CASE("matmul operands have exact edges", "[nki][legality]") {
    check({"size_of_dimension_exceed_arch_limit",
           "t = nl.load(x)\nm = nisa.nc_matmul(t[:, 0:128], t)",
           "t = nl.load(x)\nm = nisa.nc_matmul(t[:, 0:129], t)"});
    check({"size_of_dimension_exceed_arch_limit",
           "t = nl.zeros((128, 513), dtype=nl.float32)\nm = nisa.nc_matmul(t[:, 0:8], t[:, 0:512])",
           "t = nl.zeros((128, 513), dtype=nl.float32)\nm = nisa.nc_matmul(t[:, 0:8], t)"});
    check({"num_partition_mismatch", "t = nl.load(x)\nm = nisa.nc_matmul(t[0:64, 0:8], t[0:64, :])",
           "t = nl.load(x)\nm = nisa.nc_matmul(t[0:64, 0:8], t)"});
    check({"num_partition_mismatch", "t = nl.load(x)\nm = nl.matmul(t[0:64, 0:128], t)",
           "t = nl.load(x)\nm = nl.matmul(t[0:64, 0:64], t)"});
    check({"size_of_dimension_exceed_arch_limit",
           "t = nl.load(x)\np = nl.zeros((128, 1024), dtype=nl.float32, buffer=nl.psum)\n"
           "p[:, 512:1024] += nisa.nc_matmul(t[:, 0:128], t)",
           "t = nl.load(x)\np = nl.zeros((128, 1024), dtype=nl.float32, buffer=nl.psum)\n"
           "p[:, 511:1023] += nisa.nc_matmul(t[:, 0:128], t)"});
    check({"size_of_dimension_exceed_arch_limit", "t = nl.transpose(nl.load(x[:, 0:128]))",
           "t = nl.transpose(nl.load(x[:, 0:129]))"});
    check({"size_of_dimension_exceed_arch_limit",
           "t = nisa.nc_transpose(nl.load(x[0:32, 0:32]), engine=nisa.vector_engine)",
           "t = nisa.nc_transpose(nl.load(x[0:32, 0:33]), engine=nisa.vector_engine)"});
    check({"exceed_max_supported_dimension", "t = nl.transpose(nl.load(x[:, 0:128]))",
           "t = nl.transpose(nl.load(x[:, 0:128]).reshape((128, 2, 64)))"});
}

TEST_CASE("engines touch the memories that they can", "[nki][legality]") {
    const std::string psum =
        "t = nl.load(x)\np = nisa.nc_matmul(t[:, 0:128], t)\nq = nisa.nc_matmul(t[:, 0:128], t)\n";
    const auto with = [&](const char* line) { return psum + line; };
    const std::pair<std::string, std::string> pairs[] = {
        {with("r = nisa.tensor_tensor(p, t, op=nl.add)"),
         with("r = nisa.tensor_tensor(p, q, op=nl.add)")},
        {with("r = nisa.nc_matmul(nl.copy(p)[:, 0:128], t)"),
         with("r = nisa.nc_matmul(p[:, 0:128], t)")},
        {with("r = nisa.nc_transpose(t[:, 0:128])"), with("r = nisa.nc_transpose(p[:, 0:128])")},
        {with("r = nisa.tensor_copy(p, engine=nisa.vector_engine)"),
         with("r = nisa.tensor_copy(p, engine=nisa.gpsimd_engine)")},
        {with("nl.store(y, p)"), with("p[...] = nl.load(x)\nr = nl.exp(y)")},
        {with("r = nl.exp(t)"), with("r = nl.exp(x)")},
        {with("r = nl.load(x)"), with("r = nl.load(t)")},
        {with("nl.store(y, t)"), with("nl.store(t, t)")},
        {with("r = t.broadcast_to((128, 512))"), with("r = x.broadcast_to((128, 512))")},
        {with("nisa.dma_copy(dst=y, src=t)"), with("nisa.dma_copy(dst=p, src=x)")},
        {with("r = nl.load(x)"), with("y[...] = t")},
        {with("r = nl.load(x)"), with("y[0:1, 0:1] = 3.0")},
        {with("t += 1"), with("y += 1")}};
    for (const auto& [good, bad] : pairs) check({"unsupported_memory", good.c_str(), bad.c_str()});
}

TEST_CASE("start partitions follow the number of partitions", "[nki][legality]") {
    const auto start = [](int from, int count) {
        return verdict(
            "y = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)\n"
            "t = nl.load(x)\nr = nl.exp(t[" +
            std::to_string(from) + ":" + std::to_string(from + count) +
            ", :])\nnl.store(y[0:" + std::to_string(count) + "], r)\nreturn y");
    };
    for (const int from : {0, 32, 64, 96}) CHECK(start(from, 32) == "ok");
    for (const int from : {1, 16, 33, 63, 80}) CHECK(start(from, 32) == "rejected/start_partition");
    CHECK(start(64, 64) == "ok");
    CHECK(start(32, 64) == "rejected/start_partition");
    CHECK(start(32, 33) == "rejected/start_partition");
    CHECK(start(0, 65) == "ok");
    CHECK(start(63, 65) == "rejected/start_partition");
    // DMA is free to start anywhere.
    CHECK(verdict("y = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)\n"
                  "t = nl.ndarray((nl.par_dim(128), 512), dtype=x.dtype)\n"
                  "t[5:9, :] = nl.load(x[5:9, :])\nnl.store(y[7:11, :], t[5:9, :])\nreturn y") ==
          "ok");
}

TEST_CASE("operand shapes must agree", "[nki][legality]") {
    const std::string t = "t = nl.load(x)\n";
    const auto pair = [&](const char* rule, const std::string& good, const std::string& bad) {
        check({rule, (t + good).c_str(), (t + bad).c_str()});
    };
    pair("num_partition_mismatch", "r = nisa.tensor_tensor(t[0:64], t[64:128], op=nl.add)",
         "r = nisa.tensor_tensor(t[0:64], t, op=nl.add)");
    pair("num_partition_mismatch", "r = nl.add(t, t[0:1])", "r = nl.add(t, t[0:64])");
    pair("shape_mismatch", "r = nisa.tensor_tensor(t[:, 0:4], t[:, 4:8], op=nl.add)",
         "r = nisa.tensor_tensor(t[:, 0:4], t[:, 4:5], op=nl.add)");
    pair("shape_mismatch", "r = nl.add(t[:, 0:4], t[:, 0:1])", "r = nl.add(t[:, 0:4], t[:, 0:3])");
    pair("value_error", "r = nisa.tensor_scalar(t, nl.add, t[:, 0:1])",
         "r = nisa.tensor_scalar(t, nl.add, t[:, 0:2])");
    pair("activation_scale_scalar_or_vector", "r = nisa.activation(nl.exp, t, scale=t[:, 0:1])",
         "r = nisa.activation(nl.exp, t, scale=t)");
    pair("activation_scale_invalid_type", "r = nisa.activation(nl.exp, t, scale=t[:, 0:1])",
         "r = nisa.activation(nl.exp, t, scale=nl.copy(t[:, 0:1], dtype=nl.bfloat16))");
    pair("activation_bias_invalid_type",
         "r = nisa.activation(nl.exp, t, bias=nl.copy(t[:, 0:1], dtype=nl.bfloat16))",
         "r = nisa.activation(nl.exp, t, bias=1.0)");
    pair("store_dst_shape_smaller_than_other_shape",
         "d = nl.ndarray((128, 4), dtype=nl.float32)\nd[...] = t[:, 0:1]",
         "d = nl.ndarray((128, 1), dtype=nl.float32)\nd[...] = t[:, 0:4]");
    pair("store_dst_shape_smaller_than_other_shape", "nl.store(y[:, 0:4], t[:, 0:4])",
         "nl.store(y[:, 0:4], t[:, 0:5])");
    pair("value_error", "r = t[0:1].broadcast_to((128, 512))",
         "r = t[0:2].broadcast_to((128, 512))");
    pair("annotation_shape_mismatch", "r: nt.tensor[128, 512] = nl.exp(t)",
         "r: nt.tensor[128, 511] = nl.exp(t)");
}

TEST_CASE("tensors are created where they may be", "[nki][legality]") {
    check({"hbm_tensor_with_init_value_not_supported", "h = nl.ndarray((4, 4), buffer=nl.hbm)",
           "h = nl.zeros((4, 4), buffer=nl.hbm)"});
    check({"shared_hbm_must_in_kernel_level",
           "for i in range(2):\n    h = nl.ndarray((4, 4), buffer=nl.private_hbm)",
           "for i in range(2):\n    h = nl.ndarray((4, 4), buffer=nl.shared_hbm)"});
    check({"shared_hbm_must_in_kernel_level",
           "def make():\n    return nl.ndarray((4, 4), buffer=nl.hbm)\nh = make()",
           "def make():\n    return nl.ndarray((4, 4), buffer=nl.shared_hbm)\nh = make()"});
    check({"value_error", "h = nl.ndarray((4, 4))", "h = nl.ndarray((4, 0))"});
    check({"value_error", "h = nl.ndarray((nl.par_dim(4), 4))",
           "h = nl.ndarray((nl.par_dim(4), nl.par_dim(4)))"});
}

TEST_CASE("tensor values are not known at trace time", "[nki][legality]") {
    const std::string t = "t = nl.load(x)\n";
    const std::pair<const char*, const char*> cases[] = {
        {"ambiguous_tensor_truth_value", "r = 1 if t else 2"},
        {"ambiguous_tensor_truth_value", "r = not t"},
        {"ambiguous_tensor_truth_value", "r = t and 1"},
        {"ambiguous_tensor_truth_value", "assert t > 0"},
        {"ambiguous_tensor_truth_value", "r = max(t, t)"},
        {"dynamic_control_flow_not_supported", "r = bool(t[0:1, 0:1])"},
        {"trace_value_access", "r = float(t)"},
        {"trace_value_access", "r = int(t[0:1, 0:1])"},
        {"trace_value_access", "r = range(t)"},
        {"trace_value_access", "r = [v for v in t]"},
        {"trace_value_access", "r = math.sqrt(t)"},
        {"trace_value_access", "r = np.exp(t)"},
        {"trace_value_access", "r = nl.ndarray((4, 4))[0:4, 0:t]"},
        {"trace_value_access", "r = nisa.memset((4, 4), t, nl.float32)"},
        {"control_flow_condition_depending_on_arange", "r = 1 if nl.arange(4) else 2"},
        {"control_flow_condition_depending_on_arange", "r = not nl.arange(4)[:, None] < 2"},
        {"cannot_assign_to_index", "i = nl.arange(4)[:, None]\ni[0, 0] = 1"}};
    for (const auto& [rule, line] : cases) {
        const std::string bad = t + line;
        check({rule, t.c_str(), bad.c_str()});
    }
    CHECK(verdict("t = nl.load(x)\nassert t is not None and len(t) == 128\nreturn x") ==
          "rejected/output_alias");
}

TEST_CASE("outputs are HBM tensors of the kernel that it stores to", "[nki][legality]") {
    const std::string head =
        "y = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)\n"
        "z = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.hbm)\n"
        "t = nl.load(x)\n";
    CHECK(verdict(head + "nl.store(y, t)\nnl.store(z, t)\nreturn y, z") == "ok");
    CHECK(verdict(head + "nl.store(y, t)\nreturn (y,)") == "ok");
    CHECK(verdict(head + "nl.store(y, t)\nreturn y.reshape((512, 128))") == "ok");
    CHECK(verdict(head + "nl.store(y, t)\nreturn y, z") == "rejected/tensor_output_not_written_to");
    CHECK(verdict(head + "nl.store(y, t)") == "rejected/tensor_output_not_written_to");
    CHECK(verdict(head + "nl.store(y, t)\nreturn y, y") == "rejected/output_alias");
    CHECK(verdict(head + "nl.store(y, t)\nreturn y, x") == "rejected/output_alias");
    CHECK(verdict(head + "return t") == "rejected/output_type");
    CHECK(verdict(head + "nl.store(y, t)\nreturn y[0:1]") == "rejected/output_type");
    CHECK(verdict(head + "nl.store(y, t)\nreturn [y, 3]") == "rejected/output_type");
    CHECK(verdict(head + "return 'done'") == "rejected/output_type");
    CHECK(verdict(head + "nl.store(x, t)\nreturn x") ==
          "rejected/cannot_update_immutable_parameter");
    CHECK(verdict(head + "nl.store(x.reshape((64, 1024))[0:1, 0:1], 0.0)\nreturn y") ==
          "rejected/cannot_update_immutable_parameter");
    CHECK(verdict(head + "nisa.dma_copy(dst=x, src=y)\nreturn y") ==
          "rejected/cannot_update_immutable_parameter");
}

}  // namespace accelopt::nki::test
