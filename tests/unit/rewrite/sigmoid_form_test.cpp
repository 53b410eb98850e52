#include <catch2/catch.hpp>

#include "kernels.h"

namespace accelopt::rewrite {
namespace {

using Catch::Contains;

const Shapes kShapes = {{128, 512}};

std::string over_tile(const std::string& body) {
    return with_imports(
        "def kernel(x):\n"
        "    y = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)\n"
        "    a = nl.load(x)\n" +
        body +
        "    nl.store(y, value=out)\n"
        "    return y\n");
}

std::string at_last_site(const std::string& source) {
    const auto rule = make_sigmoid_form();
    check_kernel(source, kShapes);
    const auto sites = sites_of(*rule, source, kShapes);
    REQUIRE(!sites.empty());
    return rewritten_at(*rule, source, kShapes, sites.back());
}

bool left_alone(const std::string& source) {
    check_kernel(source, kShapes);
    return sites_of(*make_sigmoid_form(), source, kShapes).empty();
}

TEST_CASE("the longhand sigmoid becomes an activation") {
    CHECK_THAT(at_last_site(over_tile("    e = nisa.activation(op=nl.exp, data=a, scale=-1.0)\n"
                                      "    d = nisa.tensor_scalar(data=e, op0=nl.add, "
                                      "operand0=1.0)\n"
                                      "    out = nisa.reciprocal(data=d)\n")),
               Contains("out = nisa.activation(op=nl.sigmoid, data=a)"));
    CHECK_THAT(at_last_site(over_tile("    e = nl.exp(-a)\n"
                                      "    out = 1.0 / (1.0 + e)\n")),
               Contains("out = nisa.activation(op=nl.sigmoid, data=a)"));
    // sigmoid takes any scale.
    CHECK_THAT(at_last_site(over_tile("    s = nl.multiply(a, 2.0)\n"
                                      "    e = nisa.activation(op=nl.exp, data=s, scale=-1.0)\n"
                                      "    d = nl.add(e, 1.0)\n"
                                      "    out = nl.reciprocal(d)\n")),
               Contains("out = nisa.activation(op=nl.sigmoid, data=a, scale=2.0)"));
}

TEST_CASE("x times its sigmoid becomes silu, whatever the order and the spelling") {
    const std::string steps =
        "    e = nl.exp(nl.negative(a))\n"
        "    d = nl.add(1.0, e)\n";
    CHECK_THAT(at_last_site(over_tile(steps + "    r = nl.reciprocal(d)\n"
                                              "    out = nl.multiply(r, a)\n")),
               Contains("out = nisa.activation(op=nl.silu, data=a)"));
    CHECK_THAT(at_last_site(over_tile(steps + "    out = nl.divide(a, d)\n")),
               Contains("out = nisa.activation(op=nl.silu, data=a)"));
    CHECK_THAT(at_last_site(over_tile("    s = nl.sigmoid(a)\n"
                                      "    out = nisa.tensor_tensor(a, s, nl.multiply)\n")),
               Contains("out = nisa.activation(op=nl.silu, data=a)"));
}

TEST_CASE("the reciprocal of a square root becomes rsqrt") {
    CHECK_THAT(at_last_site(over_tile("    s = nl.sqrt(a)\n"
                                      "    out = nisa.reciprocal(data=s)\n")),
               Contains("out = nisa.activation(op=nl.rsqrt, data=a)"));
    CHECK_THAT(at_last_site(over_tile("    s = nisa.activation(op=nl.sqrt, data=a, scale=4.0)\n"
                                      "    out = nisa.reciprocal(data=s)\n")),
               Contains("out = nisa.activation(op=nl.rsqrt, data=a, scale=4.0)"));
}

TEST_CASE("what only looks like a sigmoid is left alone") {
    const std::string rest =
        "    r = nl.reciprocal(d)\n"
        "    out = nl.multiply(a, r)\n";
    SECTION("exp of x, not of -x") {
        CHECK(
            left_alone(over_tile("    e = nl.exp(a)\n"
                                 "    d = nl.add(e, 1.0)\n" +
                                 rest)));
    }
    SECTION("another constant") {
        CHECK(
            left_alone(over_tile("    e = nl.exp(nl.negative(a))\n"
                                 "    d = nl.add(e, 2.0)\n" +
                                 rest)));
    }
    SECTION("an epsilon under the reciprocal") {
        CHECK(
            left_alone(over_tile("    s = nl.sqrt(a)\n"
                                 "    d = nl.add(s, 1e-8)\n"
                                 "    out = nl.reciprocal(d)\n")));
    }
    SECTION("a bias in the exponent") {
        CHECK(
            left_alone(over_tile("    bias = nl.full((128, 1), 0.5, dtype=nl.float32)\n"
                                 "    e = nisa.activation(op=nl.exp, data=a, bias=bias, "
                                 "scale=-1.0)\n"
                                 "    d = nl.add(e, 1.0)\n"
                                 "    out = nl.reciprocal(d)\n")));
    }
    SECTION("silu needs the same x on both sides") {
        const std::string text =
            at_last_site(over_tile("    b = nl.sin(a)\n"
                                   "    e = nl.exp(nl.negative(a))\n"
                                   "    d = nl.add(e, 1.0)\n"
                                   "    r = nl.reciprocal(d)\n"
                                   "    out = nl.multiply(b, r)\n"));
        CHECK_THAT(text, Contains("nl.sigmoid"));
        CHECK_THAT(text, !Contains("nl.silu"));
    }
    SECTION("x changes between exp and multiply") {
        const std::string text =
            at_last_site(over_tile("    p = nl.arange(128)[:, None]\n"
                                   "    f = nl.arange(512)[None, :]\n"
                                   "    e = nl.exp(nl.negative(a[p, f]))\n"
                                   "    d = nl.add(e, 1.0)\n"
                                   "    r = nl.reciprocal(d)\n"
                                   "    a[p, f] = nl.sin(r)\n"
                                   "    out = nl.multiply(a[p, f], r)\n"));
        CHECK_THAT(text, !Contains("nl.silu"));
    }
}

TEST_CASE("a zero bias tile counts as no bias") {
    const std::string text =
        at_last_site(over_tile("    zero = nisa.memset(shape=(128, 1), value=0, dtype=nl.float32)\n"
                               "    e = nisa.activation(op=nl.exp, data=a, bias=zero, scale=-1.0)\n"
                               "    d = nl.add(e, 1.0)\n"
                               "    r = nl.reciprocal(d)\n"
                               "    out = nl.multiply(a, r)\n"));
    CHECK_THAT(text, Contains("nl.silu"));
    CHECK_THAT(text, !Contains("memset"));
}

}  // namespace
}  // namespace accelopt::rewrite
