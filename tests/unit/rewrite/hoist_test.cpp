#include <catch2/catch.hpp>

#include "kernels.h"

namespace accelopt::rewrite {
namespace {

using Catch::Contains;

const Shapes kShapes = {{1024, 512}, {1024, 512}};

/// Rows of x in eight tiles; `body` has i, lane and col.
std::string over_rows(const std::string& before, const std::string& body) {
    return with_imports(
        "def kernel(x, w):\n"
        "    y = nl.ndarray((1024, 512), dtype=x.dtype, buffer=nl.shared_hbm)\n"
        "    lane = nl.arange(128)[:, None]\n"
        "    col = nl.arange(512)[None, :]\n" +
        before + "    for i in nl.affine_range(8):\n" + body + "    return y\n");
}

const char* const kStore = "        nl.store(y[128 * i + lane, col], value=out)\n";

bool left_alone(const Rule& rule, const std::string& source, const Shapes& shapes = kShapes) {
    check_kernel(source, shapes);
    return sites_of(rule, source, shapes).empty();
}

TEST_CASE("an invariant load moves before the loop") {
    const auto rule = make_hoist_invariant();
    const std::string text = rewritten(*rule,
                                       over_rows("",
                                                 "        t = nl.load(x[128 * i + lane, col])\n"
                                                 "        g = nl.load(w[lane, col])\n"
                                                 "        out = nl.multiply(t, g)\n" +
                                                     std::string(kStore)),
                                       kShapes);
    CHECK_THAT(text, Contains("    g = nl.load(w[lane, col])\n    for i in nl.affine_range(8):"));
}

TEST_CASE("a chain of statements leaves the loop in its order") {
    const auto rule = make_hoist_invariant();
    const std::string source = over_rows("",
                                         "        t = nl.load(x[128 * i + lane, col])\n"
                                         "        g = nl.load(w[lane, col])\n"
                                         "        h = nl.square(g)\n"
                                         "        k = nl.exp(h)\n"
                                         "        out = nl.multiply(t, k)\n" +
                                             std::string(kStore));
    const auto sites = sites_of(*rule, source, kShapes);
    REQUIRE(sites.size() == 3);  // each statement with what it is made from
    const std::string text = rewritten_at(*rule, source, kShapes, sites.back());
    CHECK_THAT(text, Contains("    g = nl.load(w[lane, col])\n    h = nl.square(g)\n    k = "));
}

TEST_CASE("index names made in the loop are spelled out in what leaves it") {
    const auto rule = make_hoist_invariant();
    const std::string text = rewritten(*rule,
                                       over_rows("",
                                                 "        part = lane + 128\n"
                                                 "        t = nl.load(x[128 * i + lane, col])\n"
                                                 "        g = nl.load(w[part, col])\n"
                                                 "        out = nl.multiply(t, g)\n" +
                                                     std::string(kStore)),
                                       kShapes);
    CHECK_THAT(text, Contains("    g = nl.load(w[lane + 128, col])\n    for i in"));
}

TEST_CASE("a load that depends on an inner loop only is kept as an array") {
    const auto rule = make_hoist_invariant();
    const std::string source = with_imports(
        "def kernel(x, w):\n"
        "    y = nl.ndarray((1024, 512), dtype=x.dtype, buffer=nl.shared_hbm)\n"
        "    lane = nl.arange(128)[:, None]\n"
        "    col = nl.arange(512)[None, :]\n"
        "    for i in nl.affine_range(8):\n"
        "        t = nl.load(x[128 * i + lane, col])\n"
        "        out = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.sbuf)\n"
        "        for k in nl.affine_range(4):\n"
        "            g = nl.load(w[0:128, 128 * k:128 * (k + 1)])\n"
        "            out[0:128, 128 * k:128 * (k + 1)] = "
        "nl.multiply(t[0:128, 128 * k:128 * (k + 1)], g)\n" +
        std::string(kStore) + "    return y\n");
    const std::string text = rewritten(*rule, source, kShapes);
    CHECK_THAT(text, Contains("g_all = nl.ndarray((4, nl.par_dim(128), 128), dtype=w.dtype, "
                              "buffer=nl.sbuf)"));
    CHECK_THAT(text,
               Contains("    for k in nl.affine_range(4):\n"
                        "        g_all[k, nl.arange(128)[:, None], nl.arange(128)[None, :]] = "
                        "nl.load(w[0:128, 128 * k:128 * (k + 1)])\n"
                        "    for i in nl.affine_range(8):"));
}

TEST_CASE("the dimension of an array that counts the loop goes") {
    const auto rule = make_hoist_invariant();
    const std::string source = over_rows(
        "    g = nl.ndarray((8, nl.par_dim(128), 512), dtype=nl.float32, buffer=nl.sbuf)\n",
        "        t = nl.load(x[128 * i + lane, col])\n"
        "        g[i, lane, col] = nl.load(w[lane, col])\n"
        "        out = nl.multiply(t, g[i, lane, col])\n" +
            std::string(kStore));
    const std::string text = rewritten(*rule, source, kShapes);
    CHECK_THAT(text, Contains("g = nl.ndarray((nl.par_dim(128), 512)"));
    CHECK_THAT(text, Contains("    g[lane, col] = nl.load(w[lane, col])\n    for i in"));
    CHECK_THAT(text, Contains("nl.multiply(t, g[lane, col])"));
}

TEST_CASE("an invariant transpose moves with its copy") {
    const auto rule = make_hoist_invariant();
    const std::string source = with_imports(
        "def kernel(x, w):\n"
        "    y = nl.ndarray((1024, 128), dtype=x.dtype, buffer=nl.shared_hbm)\n"
        "    lane = nl.arange(128)[:, None]\n"
        "    col = nl.arange(128)[None, :]\n"
        "    square = nl.load(w[lane, col])\n"
        "    for i in nl.affine_range(8):\n"
        "        t = nl.load(x[128 * i + lane, col])\n"
        "        turned = nisa.nc_transpose(square)\n"
        "        kept = nl.copy(turned)\n"
        "        nl.store(y[128 * i + lane, col], value=nl.multiply(t, kept))\n"
        "    return y\n");
    const auto sites = sites_of(*rule, source, {{1024, 128}, {128, 128}});
    REQUIRE(!sites.empty());
    const std::string text = rewritten_at(*rule, source, {{1024, 128}, {128, 128}}, sites.back());
    CHECK_THAT(text, Contains("    turned = nisa.nc_transpose(square)\n"
                              "    kept = nl.copy(turned)\n    for i in"));
}

TEST_CASE("what changes in the loop stays there") {
    const auto rule = make_hoist_invariant();
    const std::string load = "        t = nl.load(x[128 * i + lane, col])\n";
    SECTION("the address depends on the loop") {
        CHECK(left_alone(*rule, over_rows("", load +
                                                  "        g = nl.load(w[128 * i + lane, col])\n"
                                                  "        out = nl.multiply(t, g)\n" +
                                                  kStore)));
    }
    SECTION("the address depends on it through a name") {
        CHECK(left_alone(*rule, over_rows("", "        row = 128 * i + lane\n" + load +
                                                  "        g = nl.load(w[row, col])\n"
                                                  "        out = nl.multiply(t, g)\n" +
                                                  kStore)));
    }
    SECTION("the tensor is stored to in the loop") {
        const std::string source = with_imports(
            "def kernel(x, w):\n"
            "    y = nl.ndarray((1024, 512), dtype=x.dtype, buffer=nl.shared_hbm)\n"
            "    lane = nl.arange(128)[:, None]\n"
            "    col = nl.arange(512)[None, :]\n"
            "    for i in nl.sequential_range(8):\n"
            "        t = nl.load(x[128 * i + lane, col])\n"
            "        nl.store(y[lane, col], value=t)\n"
            "        g = nl.load(y[lane, col])\n"
            "        nl.store(y[128 * i + lane, col], value=nl.multiply(t, g))\n"
            "    return y\n");
        CHECK(sites_of(*rule, source, kShapes).empty());
    }
    SECTION("the tile is modified in the loop") {
        CHECK(left_alone(*rule,
                         over_rows("", load +
                                           "        g = nl.load(w[lane, col])\n"
                                           "        g[lane, col] = nl.multiply(t, g[lane, col])\n"
                                           "        out = nl.add(t, g[lane, col])\n" +
                                           kStore)));
    }
    SECTION("the tile is read after the loop") {
        const std::string source = with_imports(
            "def kernel(x, w):\n"
            "    y = nl.ndarray((1024, 512), dtype=x.dtype, buffer=nl.shared_hbm)\n"
            "    lane = nl.arange(128)[:, None]\n"
            "    col = nl.arange(512)[None, :]\n"
            "    g = nl.ndarray((nl.par_dim(128), 512), dtype=x.dtype, buffer=nl.sbuf)\n"
            "    for i in nl.sequential_range(8):\n"
            "        g[lane, col] = nl.load(w[lane, col])\n"
            "        nl.store(y[128 * i + lane, col], value=g[lane, col])\n"
            "    nl.store(y[lane, col], value=nl.exp(g[lane, col]))\n"
            "    return y\n");
        CHECK(sites_of(*rule, source, kShapes).empty());
    }
    SECTION("a product is accumulated") {
        const std::string source = with_imports(
            "def kernel(x, w):\n"
            "    y = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)\n"
            "    lane = nl.arange(128)[:, None]\n"
            "    col = nl.arange(512)[None, :]\n"
            "    a = nl.load(x[lane, nl.arange(128)[None, :]])\n"
            "    b = nl.load(w[lane, col])\n"
            "    total = nl.zeros((128, 512), dtype=nl.float32, buffer=nl.psum)\n"
            "    for i in nl.affine_range(8):\n"
            "        total += nisa.nc_matmul(a, b)\n"
            "    nl.store(y[lane, col], value=total)\n"
            "    return y\n");
        CHECK(left_alone(*rule, source));
    }
}

TEST_CASE("an array too large to keep is not hoisted") {
    const auto rule = make_hoist_invariant();
    auto source = [](int blocks) {
        const std::string n = std::to_string(blocks);
        return with_imports(
            "def kernel(x, w):\n"
            "    y = nl.ndarray((1024, 512), dtype=x.dtype, buffer=nl.shared_hbm)\n"
            "    lane = nl.arange(128)[:, None]\n"
            "    col = nl.arange(512)[None, :]\n"
            "    for i in nl.affine_range(8):\n"
            "        t = nl.load(x[128 * i + lane, col])\n"
            "        for k in nl.affine_range(" +
            n +
            "):\n"
            "            g = nl.load(w[128 * k + lane, col])\n"
            "            t[lane, col] = nl.multiply(t[lane, col], g[lane, col])\n"
            "        nl.store(y[128 * i + lane, col], value=t)\n"
            "    return y\n");
    };
    // 512 floats are 2 KiB a block: 64 blocks are the 128 KiB that may be kept.
    CHECK(sites_of(*rule, source(64), {{1024, 512}, {64 * 128, 512}}).size() == 1);
    CHECK(sites_of(*rule, source(65), {{1024, 512}, {65 * 128, 512}}).empty());
}

/// x [M, 512] times w [512, N] by nl.matmul.
std::string product(const std::string& inner) {
    return with_imports(
        "def kernel(x, w):\n"
        "    y = nl.ndarray((256, 1024), dtype=x.dtype, buffer=nl.shared_hbm)\n"
        "    lane = nl.arange(128)[:, None]\n"
        "    whole = nl.arange(512)[None, :]\n"
        "    narrow = nl.arange(512)[None, :]\n"
        "    for i in nl.affine_range(2):\n"
        "        a = nl.load(x[128 * i + lane, whole])\n"
        "        for n in nl.affine_range(2):\n"
        "            total = nl.zeros((128, 512), dtype=nl.float32, buffer=nl.psum)\n"
        "            for k in nl.affine_range(4):\n"
        "                b = nl.load(w[128 * k + lane, 512 * n + narrow])\n" +
        inner +
        "            nl.store(y[128 * i + lane, 512 * n + narrow], value=total)\n"
        "    return y\n");
}

const Shapes kProduct = {{256, 512}, {512, 1024}};

TEST_CASE("the transposes inside nl.matmul are done once per part") {
    const auto rule = make_hoist_transpose();
    const std::string text = rewritten(
        *rule, product("                total += nl.matmul(a[:, 128 * k:128 * (k + 1)], b)\n"),
        kProduct);
    CHECK_THAT(text, Contains("a_t = nl.ndarray((4, nl.par_dim(128), 128), dtype=a.dtype, "
                              "buffer=nl.sbuf)\n        for k in nl.affine_range(4):\n"));
    CHECK_THAT(text, Contains("= nl.copy(nisa.nc_transpose(a[:, 128 * k:128 * (k + 1)]))"));
    CHECK_THAT(text, Contains("nl.matmul(a_t[k, nl.arange(128)[:, None], nl.arange(128)[None, :]], "
                              "b, transpose_x=True)"));
}

TEST_CASE("transposes that are not repeated are left alone") {
    const auto rule = make_hoist_transpose();
    SECTION("already transposed") {
        CHECK(left_alone(*rule,
                         product("                total += nl.matmul(a[:, 128 * k:128 * (k + 1)], "
                                 "b, transpose_x=True)\n"),
                         kProduct));
    }
    SECTION("the operand changes in the loop") {
        const std::string source = product(
            "                a[lane, whole] = nl.exp(a[lane, whole])\n"
            "                total += nl.matmul(a[:, 128 * k:128 * (k + 1)], b)\n");
        CHECK(sites_of(*rule, source, kProduct).empty());
    }
    SECTION("every iteration has its own part") {
        const std::string source = with_imports(
            "def kernel(x, w):\n"
            "    y = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)\n"
            "    lane = nl.arange(128)[:, None]\n"
            "    whole = nl.arange(512)[None, :]\n"
            "    a = nl.load(x[lane, whole])\n"
            "    total = nl.zeros((128, 512), dtype=nl.float32, buffer=nl.psum)\n"
            "    for k in nl.affine_range(4):\n"
            "        b = nl.load(w[128 * k + lane, whole])\n"
            "        total += nl.matmul(a[:, 128 * k:128 * (k + 1)], b)\n"
            "    nl.store(y[lane, whole], value=total)\n"
            "    return y\n");
        CHECK(left_alone(*rule, source, {{128, 512}, {512, 512}}));
    }
}

TEST_CASE("a region on chip is not loaded again") {
    const auto rule = make_reuse_load();
    const std::string body =
        "        t = nl.load(x[128 * i + lane, col])\n"
        "        s = nl.sum(nl.square(t), axis=[1])\n"
        "        again = nl.load(x[lane + i * 128, col])\n"
        "        out = nl.multiply(again, s)\n";
    const std::string text = rewritten(*rule, over_rows("", body + kStore), kShapes);
    CHECK_THAT(text, !Contains("again"));
    CHECK_THAT(text, Contains("out = nl.multiply(t, s)"));
}

TEST_CASE("a second load of another or a changed region stays") {
    const auto rule = make_reuse_load();
    SECTION("another region") {
        CHECK(left_alone(*rule, over_rows("",
                                          "        t = nl.load(x[128 * i + lane, col])\n"
                                          "        again = nl.load(w[128 * i + lane, col])\n"
                                          "        out = nl.multiply(again, t)\n" +
                                              std::string(kStore))));
    }
    SECTION("the first copy is modified") {
        CHECK(left_alone(*rule,
                         over_rows("",
                                   "        t = nl.load(x[128 * i + lane, col])\n"
                                   "        t[lane, col] = nl.exp(t[lane, col])\n"
                                   "        again = nl.load(x[128 * i + lane, col])\n"
                                   "        out = nl.multiply(again[lane, col], t[lane, col])\n" +
                                       std::string(kStore))));
    }
    SECTION("another mask") {
        CHECK(left_alone(*rule, over_rows("",
                                          "        t = nl.load(x[128 * i + lane, col])\n"
                                          "        again = nl.load(x[128 * i + lane, col], "
                                          "mask=col < 512)\n"
                                          "        out = nl.multiply(again, t)\n" +
                                              std::string(kStore))));
    }
}

}  // namespace
}  // namespace accelopt::rewrite
