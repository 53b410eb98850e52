#include <catch2/catch.hpp>

#include "kernels.h"

namespace accelopt::rewrite {
namespace {

using Catch::Contains;

const Shapes kShapes = {{128, 512}, {128, 512}};

/// A kernel over tiles a and b whose body ends by setting `out`.
std::string over_tiles(const std::string& body) {
    return with_imports(
        "def kernel(x, z):\n"
        "    y = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)\n"
        "    a = nl.load(x)\n"
        "    b = nl.load(z)\n" +
        body +
        "    nl.store(y, value=out)\n"
        "    return y\n");
}

/// Applies the rule until it finds nothing more.
std::string all_applied(const Rule& rule, std::string source) {
    check_kernel(source, kShapes);
    for (int i = 0; i < 20; ++i) {
        const auto sites = sites_of(rule, source, kShapes);
        if (sites.empty()) return source;
        source = rewritten_at(rule, source, kShapes, sites.back());
    }
    FAIL("the rule never ends");
    return source;
}

bool left_alone(const Rule& rule, const std::string& source) {
    check_kernel(source, kShapes);
    return sites_of(rule, source, kShapes).empty();
}

TEST_CASE("x - c x becomes one multiplication") {
    const auto rule = make_fuse_elementwise();
    const std::string text = all_applied(*rule, over_tiles("    t = nl.multiply(a, 0.25)\n"
                                                           "    u = nl.add(b, 0.0)\n"
                                                           "    out = nl.subtract(a, t)\n"));
    CHECK_THAT(text, Contains("out = nisa.tensor_scalar(data=a, op0=nl.multiply, operand0=0.75)"));
    CHECK_THAT(text, !Contains("t = nl.multiply"));
}

TEST_CASE("chained constants become one instruction") {
    const auto rule = make_fuse_elementwise();
    SECTION("factors") {
        const std::string text =
            all_applied(*rule, over_tiles("    t = nisa.tensor_scalar(data=a, op0=nl.multiply, "
                                          "operand0=4.0)\n"
                                          "    out = nl.multiply(t, 0.5)\n"));
        CHECK_THAT(text, Contains("op0=nl.multiply, operand0=2.0)"));
    }
    SECTION("a factor and an offset") {
        const std::string text = all_applied(*rule, over_tiles("    t = nl.multiply(a, 3.0)\n"
                                                               "    out = nl.add(t, 1.5)\n"));
        CHECK_THAT(text, Contains("op0=nl.multiply, operand0=3.0, op1=nl.add, operand1=1.5)"));
    }
    SECTION("python operators") {
        const std::string text = all_applied(*rule, over_tiles("    t = 2.0 * a\n"
                                                               "    out = t / 4.0 - 1.0\n"));
        CHECK_THAT(text, Contains("op0=nl.multiply, operand0=0.5, op1=nl.add, operand1=-1.0)"));
    }
    SECTION("named constants") {
        const std::string text =
            all_applied(*rule, over_tiles("    rate = 0.5\n"
                                          "    t = nl.multiply(a, rate)\n"
                                          "    out = nl.multiply(t, np.float32(8))\n"));
        CHECK_THAT(text, Contains("op0=nl.multiply, operand0=4.0)"));
    }
}

TEST_CASE("scale and bias move into the activation") {
    const auto rule = make_fuse_elementwise();
    const std::string scaled = all_applied(
        *rule, over_tiles("    t = nl.multiply(a, 3.0)\n"
                          "    out = nisa.activation(op=nl.exp, data=t, scale=-2.0)\n"));
    CHECK_THAT(scaled, Contains("nisa.activation(op=nl.exp, data=a, scale=-6.0)"));
    const std::string shifted =
        all_applied(*rule, over_tiles("    t = nisa.tensor_scalar(data=a, op0=nl.multiply, "
                                      "operand0=3.0, op1=nl.add, operand1=0.5)\n"
                                      "    out = nl.tanh(t)\n"));
    CHECK_THAT(shifted,
               Contains("bias = nisa.memset(shape=(128, 1), value=0.5, dtype=nl.float32)"));
    CHECK_THAT(shifted, Contains("nisa.activation(op=nl.tanh, data=a, bias=bias, scale=3.0)"));
}

TEST_CASE("squares take in their factors") {
    const auto rule = make_fuse_elementwise();
    CHECK_THAT(all_applied(*rule, over_tiles("    t = nl.square(a)\n"
                                             "    out = nl.multiply(t, 0.25)\n")),
               Contains("nisa.activation(op=nl.square, data=a, scale=0.5)"));
    CHECK_THAT(all_applied(*rule, over_tiles("    t = nl.multiply(a, 4.0)\n"
                                             "    out = nl.multiply(t, a)\n")),
               Contains("nisa.activation(op=nl.square, data=a, scale=2.0)"));
    // A negative factor has no square root.
    CHECK(left_alone(*rule, over_tiles("    t = nl.square(a)\n"
                                       "    out = nl.multiply(t, -0.25)\n")));
}

TEST_CASE("mask and dtype of the last step stay") {
    const auto rule = make_fuse_elementwise();
    const std::string text =
        all_applied(*rule, over_tiles("    live = nl.arange(128)[:, None] < 100\n"
                                      "    out = nl.zeros((128, 512), dtype=nl.float32)\n"
                                      "    p = nl.arange(128)[:, None]\n"
                                      "    f = nl.arange(512)[None, :]\n"
                                      "    t = nl.multiply(a[p, f], 3.0, mask=live)\n"
                                      "    out[p, f] = nl.multiply(t, 2.0, mask=live, "
                                      "dtype=nl.float32)\n"));
    CHECK_THAT(text, Contains("out[p, f] = nisa.tensor_scalar(data=a[p, f], op0=nl.multiply, "
                              "operand0=6.0, mask=live, dtype=nl.float32)"));
}

TEST_CASE("chains that must not be folded are left alone") {
    const auto rule = make_fuse_elementwise();
    SECTION("the intermediate is used elsewhere and nothing is saved") {
        CHECK(left_alone(*rule, over_tiles("    t = nl.multiply(a, 3.0)\n"
                                           "    u = nl.multiply(t, 2.0)\n"
                                           "    out = nl.maximum(t, u)\n")));
    }
    SECTION("the operand changes in between") {
        CHECK(left_alone(*rule, over_tiles("    p = nl.arange(128)[:, None]\n"
                                           "    f = nl.arange(512)[None, :]\n"
                                           "    t = nl.multiply(a[p, f], 3.0)\n"
                                           "    a[p, f] = nl.exp(b)\n"
                                           "    out = nl.multiply(t, 2.0)\n")));
    }
    SECTION("the operand changes through a view") {
        CHECK(left_alone(*rule, over_tiles("    p = nl.arange(128)[:, None]\n"
                                           "    f = nl.arange(512)[None, :]\n"
                                           "    window = a[p, f]\n"
                                           "    t = nl.multiply(a[p, f], 3.0)\n"
                                           "    window[p, f] = nl.exp(b)\n"
                                           "    out = nl.multiply(t, 2.0)\n")));
    }
    SECTION("the intermediate is rounded") {
        CHECK(left_alone(*rule, over_tiles("    t = nl.multiply(a, 3.0, dtype=nl.bfloat16)\n"
                                           "    out = nl.multiply(t, 2.0)\n")));
    }
    SECTION("the masks differ") {
        CHECK(left_alone(*rule, over_tiles("    p = nl.arange(128)[:, None]\n"
                                           "    f = nl.arange(512)[None, :]\n"
                                           "    t = nl.zeros((128, 512), dtype=nl.float32)\n"
                                           "    t[p, f] = nl.multiply(a[p, f], 3.0, mask=p < 100)\n"
                                           "    out = nl.multiply(t[p, f], 2.0)\n")));
    }
    SECTION("the factor is a tile") {
        CHECK(left_alone(*rule, over_tiles("    t = nl.multiply(a, b)\n"
                                           "    out = nl.multiply(t, 2.0)\n")));
    }
    SECTION("a user function comes between") {
        const std::string source = with_imports(
            "def kernel(x, z):\n"
            "    def touch(t):\n"
            "        t[0:128, 0:512] = nl.exp(t)\n"
            "    y = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)\n"
            "    a = nl.load(x)\n"
            "    b = nl.load(z)\n"
            "    t = nl.multiply(a, 3.0)\n"
            "    touch(a)\n"
            "    out = nl.multiply(t, 2.0)\n"
            "    nl.store(y, value=out)\n"
            "    return y\n");
        CHECK(sites_of(*rule, source, kShapes).empty());
    }
}

TEST_CASE("a scaled operand rides in the two-tile instruction") {
    const auto rule = make_fuse_scalar_tensor();
    SECTION("sum") {
        const std::string text = all_applied(*rule, over_tiles("    t = nl.multiply(a, 0.9)\n"
                                                               "    out = nl.add(t, b)\n"));
        CHECK_THAT(text, Contains("out = nisa.scalar_tensor_tensor(data=a, op0=nl.multiply, "
                                  "operand0=0.9, op1=nl.add, operand1=b)"));
    }
    SECTION("difference from the other side") {
        const std::string text = all_applied(*rule, over_tiles("    t = nl.multiply(a, 0.9)\n"
                                                               "    out = nl.subtract(b, t)\n"));
        CHECK_THAT(text, Contains("operand0=-0.9, op1=nl.add, operand1=b)"));
    }
    SECTION("two factors and one outside") {
        const std::string text = all_applied(*rule, over_tiles("    t = nl.multiply(a, 0.9)\n"
                                                               "    u = nl.multiply(b, 0.1)\n"
                                                               "    v = nl.add(t, u)\n"
                                                               "    out = nl.multiply(v, 0.01)\n"));
        CHECK_THAT(text, Contains("scaled = nisa.tensor_scalar(data=b, op0=nl.multiply, "
                                  "operand0=0.001)"));
        CHECK_THAT(text, Contains("operand0=0.009, op1=nl.add, operand1=scaled)"));
    }
    SECTION("product") {
        const std::string text = all_applied(*rule, over_tiles("    t = nl.multiply(a, 0.9)\n"
                                                               "    out = nl.multiply(t, b)\n"));
        CHECK_THAT(text, Contains("operand0=0.9, op1=nl.multiply, operand1=b)"));
    }
    SECTION("not when the scaled tile is needed anyway") {
        CHECK(left_alone(*rule, over_tiles("    t = nl.multiply(a, 0.9)\n"
                                           "    u = nl.add(t, b)\n"
                                           "    out = nl.maximum(u, t)\n")));
    }
    SECTION("not with a column operand") {
        CHECK(left_alone(*rule, over_tiles("    c = nl.sum(b, axis=[1])\n"
                                           "    t = nl.multiply(c, 0.9)\n"
                                           "    out = nl.multiply(a, t)\n")));
    }
}

}  // namespace
}  // namespace accelopt::rewrite
