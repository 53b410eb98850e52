#include <catch2/catch.hpp>

#include "trace_support.h"

namespace accelopt::nki::test {
namespace {

const std::string kHead =
    "import neuronxcc.nki.compiler as ncc\n"
    "y = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl.shared_hbm)\n";

std::string allocated(const std::string& body) { return verdict(kHead + body + "return y"); }

/// A directly allocated SBUF tile of `columns` float32.
std::string tile(const std::string& name, int columns, int byte) {
    return name + " = nl.ndarray((nl.par_dim(128), " + std::to_string(columns) +
           "), dtype=nl.float32, buffer=ncc.sbuf.mod_alloc(base_addr=" + std::to_string(byte) +
           "))\n";
}

/// Which products of a program add to what is there: "0011".
std::string accumulating(const std::string& body) {
    std::string text;
    for (const Operation& operation : legal(kHead + body + "return y").operations)
        if (operation.opcode == Opcode::kMatmul) text += operation.accumulate ? '1' : '0';
    return text;
}

}  // namespace

TEST_CASE("a kernel that allocates directly leaves no tile to the compiler", "[nki][allocation]") {
    constexpr const char* kMixed = "rejected/mixed_allocation";
    const std::string store = "nl.store(y, t)\n";
    CHECK(allocated(tile("t", 512, 0) + "t[...] = nl.load(x)\n" + store) == "ok");
    // Whichever comes first.
    CHECK(allocated("t = nl.load(x)\n" + tile("u", 512, 0) + store) == kMixed);
    CHECK(allocated(tile("u", 512, 0) + "t = nl.load(x)\n" + store) == kMixed);
    CHECK(allocated(tile("t", 512, 0) + "t[...] = nl.load(x)\nt[...] = nl.add(t + 1.0, t)\n" +
                    store) == kMixed);
    CHECK(allocated(tile("t", 512, 0) + "t[...] = nl.load(x)\n" +
                    "u = nl.ndarray((nl.par_dim(128), 512), dtype=nl.float32, buffer=nl.psum)\n" +
                    store) == kMixed);
    CHECK(allocated("t = nl.load(x)\n" + store) == "ok");
}

TEST_CASE("the finding of a mixed allocation stands at the tile of the compiler",
          "[nki][allocation][N14]") {
    const auto result = trace_body(kHead + "u = nl.load(x)\n" + tile("t", 512, 0) + "return y");
    REQUIRE_FALSE(result);
    CHECK(result.error().line == kBodyLine + 2);
    CHECK(result.error().message.find("'u'") != std::string::npos);
}

TEST_CASE("kernels with direct allocation have no HBM tensors of their own", "[nki][allocation]") {
    const auto through = [](const std::string& buffer) {
        return allocated("h = nl.ndarray((128, 512), dtype=nl.float32, buffer=nl." + buffer +
                         ")\n" + tile("t", 512, 0) +
                         "t[...] = nl.load(x)\nnl.store(h, t)\nnl.store(y, t)\n");
    };
    CHECK(through("hbm") == "rejected/unsupported_memory");
    CHECK(through("private_hbm") == "rejected/unsupported_memory");
    CHECK(through("shared_hbm") == "rejected/unsupported_memory");
}

TEST_CASE("an instruction casts to the allocated tile it is given", "[nki][allocation]") {
    CHECK(allocated(tile("t", 512, 0) + tile("s", 512, 2048) +
                    "t[...] = nl.load(x)\ns[...] = nl.copy(t, dtype=nl.bfloat16)\n"
                    "nl.store(y, s)\n") == "ok");
}

TEST_CASE("the first product added to a part of PSUM overwrites it", "[nki][allocation]") {
    const std::string operands = "t = nl.load(x)\n";
    const std::string fresh =
        "p = nl.ndarray((nl.par_dim(128), 512), dtype=nl.float32, buffer=nl.psum)\n";
    const std::string zeros =
        "p = nl.zeros((nl.par_dim(128), 512), dtype=nl.float32, buffer=nl.psum)\n";
    const std::string add = "    p += nisa.nc_matmul(t[:, 0:128], t)\n";
    const std::string loop = "for i in nl.affine_range(3):\n";
    const std::string store = "nl.store(y, p)\n";
    CHECK(accumulating(operands + fresh + loop + add + store) == "011");
    CHECK(accumulating(operands + zeros + loop + add + store) == "111");
    // A group of its own for every tile, and for every part.
    CHECK(accumulating(operands + "for j in nl.affine_range(2):\n    " + fresh +
                       "    for i in nl.affine_range(2):\n    " + add + "    u = nl.copy(p)\n" +
                       "nl.store(y, t)\n") == "0101");
    CHECK(accumulating(operands + fresh +
                       "for i in nl.sequential_range(4):\n"
                       "    p[:, nl.ds(i % 2 * 256, 256)] += "
                       "nisa.nc_matmul(t[:, 0:128], t[:, 0:256])\n" +
                       store) == "0011");
    // What the kernel wrote itself is added to.
    CHECK(accumulating(operands + fresh + "p[...] = nl.copy(t)\n" + loop + add + store) == "111");
    CHECK(accumulating(operands + fresh + "p[:, 0:128] = nl.copy(t[:, 0:128])\n" + loop + add +
                       store) == "111");
}

TEST_CASE("versions of the NeuronCore have an order", "[nki][python]") {
    CHECK(evaluates_to("nisa.get_nc_version() >= nisa.nc_version.gen3", "False") == "ok");
    CHECK(evaluates_to("nisa.nc_version.gen2 < nisa.nc_version.gen3", "True") == "ok");
    CHECK(evaluates_to("nisa.get_nc_version() == nisa.nc_version.gen2", "True") == "ok");
    CHECK(evaluates_to("nisa.nc_version.gen3 == 3", "True") == "ok");
    CHECK(evaluates_to("nisa.nc_version.gen3 != nisa.nc_version.gen2", "True") == "ok");
}

}  // namespace accelopt::nki::test
