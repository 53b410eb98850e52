#include <catch2/catch.hpp>

#include "kernels.h"

namespace accelopt::rewrite {
namespace {

using Catch::Contains;

const Shapes kShapes = {{128, 8192}};

std::string doubled(const std::string& loop, const std::string& body) {
    std::string text =
        "def kernel(x):\n"
        "    y = nl.ndarray((128, 8192), dtype=x.dtype, buffer=nl.shared_hbm)\n"
        "    lane = nl.arange(128)[:, None]\n"
        "    width = 512\n"
        "    col = nl.arange(width)[None, :]\n"
        "    for " +
        loop + ":\n";
    return with_imports(text + body + "    return y\n");
}

Site widest(const std::vector<Site>& sites) {
    REQUIRE(!sites.empty());
    return sites.back();
}

TEST_CASE("a loop over offsets is widened through the name of its width") {
    const auto rule = make_widen_free_tile();
    const std::string source = doubled("start in range(0, 8192, width)",
                                       "        t = nl.load(x[lane, start + col])\n"
                                       "        nl.store(y[lane, start + col], nl.exp(t))\n");
    const auto sites = sites_of(*rule, source, kShapes);
    REQUIRE(sites.size() == 4);  // 1024, 2048, 4096, 8192
    const std::string text = rewritten_at(*rule, source, kShapes, sites[1]);
    CHECK_THAT(text, Contains("width = 2048"));
    CHECK_THAT(text, Contains("for start in range(0, 8192, width):"));
    CHECK_THAT(text, Contains("t = nl.load(x[lane, start + col])"));
}

TEST_CASE("a loop over tile numbers with literal sizes is widened in place") {
    const auto rule = make_widen_free_tile();
    const std::string source = with_imports(R"(def kernel(x):
    y = nl.ndarray((128, 8192), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(16):
        t = nl.load(x[nl.arange(128)[:, None], 512 * i + nl.arange(512)[None, :]])
        u = nisa.tensor_scalar(data=t, op0=nl.multiply, operand0=2.0)
        nl.store(y[nl.arange(128)[:, None], nl.arange(512)[None, :] + i * 512], value=u)
    return y
)");
    const auto sites = sites_of(*rule, source, kShapes);
    REQUIRE(sites.size() == 4);
    const std::string text = rewritten_at(*rule, source, kShapes, sites[0]);
    CHECK_THAT(text, Contains("nl.affine_range(8)"));
    CHECK_THAT(text, Contains("x[nl.arange(128)[:, None], 1024 * i + nl.arange(1024)[None, :]]"));
    CHECK_THAT(text, Contains("nl.arange(1024)[None, :] + i * 1024"));
}

TEST_CASE("slices are widened like aranges") {
    const auto rule = make_widen_free_tile();
    const std::string source = with_imports(R"(def kernel(x):
    y = nl.ndarray((128, 8192), dtype=x.dtype, buffer=nl.shared_hbm)
    for i in nl.affine_range(16):
        t = nl.load(x[0:128, i * 512:(i + 1) * 512])
        nl.store(y[0:128, i * 512:(i + 1) * 512], value=nl.exp(t))
    return y
)");
    const std::string text =
        rewritten_at(*rule, source, kShapes, sites_of(*rule, source, kShapes)[0]);
    CHECK_THAT(text, Contains("x[0:128, i * 1024:(i + 1) * 1024]"));
}

TEST_CASE("block arrays lose iterations and gain width") {
    const auto rule = make_widen_free_tile();
    const std::string source = with_imports(R"(def kernel(x):
    y = nl.ndarray((128, 8192), dtype=x.dtype, buffer=nl.shared_hbm)
    a = nl.ndarray((16, nl.par_dim(128), 512), dtype=np.float32, buffer=nl.sbuf)
    b = nl.ndarray((16, nl.par_dim(128), 512), dtype=np.float32, buffer=nl.sbuf)
    for i in nl.affine_range(16):
        a[i, nl.arange(128)[:, None], nl.arange(512)[None, :]] = nl.load(x[nl.arange(128)[:, None], 512 * i + nl.arange(512)[None, :]])
        b[i, nl.arange(128)[:, None], nl.arange(512)[None, :]] = nl.exp(a[i, nl.arange(128)[:, None], nl.arange(512)[None, :]])
        nl.store(y[nl.arange(128)[:, None], 512 * i + nl.arange(512)[None, :]], value=b[i, nl.arange(128)[:, None], nl.arange(512)[None, :]])
    return y
)");
    const std::string text =
        rewritten_at(*rule, source, kShapes, sites_of(*rule, source, kShapes)[0]);
    CHECK_THAT(text, Contains("a = nl.ndarray((8, nl.par_dim(128), 1024)"));
    CHECK_THAT(text, Contains("b = nl.ndarray((8, nl.par_dim(128), 1024)"));
    CHECK_THAT(text, !Contains("512"));
}

TEST_CASE("loops over parts of a tile are kept or merged") {
    const auto rule = make_widen_free_tile();
    const std::string source = with_imports(R"(def kernel(x):
    rows, columns = x.shape
    block = 1024
    part_width = 512
    y = nl.ndarray((rows, columns), dtype=x.dtype, buffer=nl.shared_hbm)
    lane = nl.arange(rows)[:, None]
    wide = nl.arange(block)[None, :]
    narrow = nl.arange(part_width)[None, :]
    for b in nl.affine_range(columns // block):
        t = nl.load(x[lane, block * b + wide])
        u = nl.ndarray((nl.par_dim(rows), block), dtype=nl.float32, buffer=nl.sbuf)
        for p in nl.affine_range(block // part_width):
            cut = part_width * p + narrow
            u[lane, cut] = nl.exp(t[lane, cut])
        nl.store(y[lane, block * b + wide], value=u)
    return y
)");
    std::string kept;
    std::string merged;
    for (const Site& site : sites_of(*rule, source, kShapes)) {
        if (site.parameters.at("width") != 4096) continue;
        std::string& text = site.parameters.count("parts") > 0 ? kept : merged;
        text = rewritten_at(*rule, source, kShapes, site);
    }
    CHECK_THAT(kept, Contains("block = 4096"));
    CHECK_THAT(kept, Contains("part_width = 512"));
    CHECK_THAT(merged, Contains("block = 4096"));
    CHECK_THAT(merged, Contains("part_width = 4096"));
}

TEST_CASE("a tile that is reduced, carried or outlives the loop is not widened") {
    const auto rule = make_widen_free_tile();
    const std::string loop = "i in nl.affine_range(16)";
    const std::string load = "        t = nl.load(x[lane, width * i + col])\n";
    SECTION("reduced") {
        CHECK(sites_of(*rule,
                       doubled(loop, load + "        s = nl.sum(t, axis=[1])\n"
                                            "        nl.store(y[lane, width * i + col], "
                                            "value=nl.multiply(t, s))\n"),
                       kShapes)
                  .empty());
    }
    SECTION("used after the loop") {
        CHECK(sites_of(*rule, doubled("i in nl.sequential_range(16)", load) + "    # dead end\n",
                       kShapes)
                  .size() == 4);
        const std::string after =
            "def kernel(x):\n"
            "    y = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)\n"
            "    lane = nl.arange(128)[:, None]\n"
            "    col = nl.arange(512)[None, :]\n"
            "    keep = nl.ndarray((nl.par_dim(128), 512), dtype=x.dtype, buffer=nl.sbuf)\n"
            "    for i in nl.sequential_range(16):\n"
            "        keep[lane, col] = nl.load(x[lane, 512 * i + col])\n"
            "    nl.store(y[lane, col], value=keep[lane, col])\n"
            "    return y\n";
        CHECK(sites_of(*rule, with_imports(after), kShapes).empty());
    }
    SECTION("carried from one iteration to the next") {
        const std::string carried =
            "def kernel(x):\n"
            "    y = nl.ndarray((128, 8192), dtype=x.dtype, buffer=nl.shared_hbm)\n"
            "    lane = nl.arange(128)[:, None]\n"
            "    col = nl.arange(512)[None, :]\n"
            "    last = nl.zeros((nl.par_dim(128), 512), dtype=x.dtype, buffer=nl.sbuf)\n"
            "    for i in nl.sequential_range(16):\n"
            "        t = nl.load(x[lane, 512 * i + col])\n"
            "        nl.store(y[lane, 512 * i + col], value=nl.add(t, last[lane, col]))\n"
            "        last[lane, col] = nl.exp(t)\n"
            "    return y\n";
        CHECK(sites_of(*rule, with_imports(carried), kShapes).empty());
    }
    SECTION("accumulated") {
        CHECK(
            sites_of(*rule,
                     doubled(loop, load + "        total = nl.zeros((128, 1), dtype=nl.float32)\n"
                                          "        total += nl.sum(t, axis=[1])\n"
                                          "        nl.store(y[lane, width * i + col], value=t)\n"),
                     kShapes)
                .empty());
    }
    SECTION("combined with a tile that is the same for every slice") {
        CHECK(sites_of(*rule,
                       doubled(loop, load + "        bias = nl.load(x[lane, col])\n"
                                            "        nl.store(y[lane, width * i + col], "
                                            "value=nl.add(t, bias))\n"),
                       kShapes)
                  .empty());
    }
    SECTION("masked along the free dimension") {
        CHECK(sites_of(*rule,
                       doubled(loop,
                               "        t = nl.load(x[lane, width * i + col], "
                               "mask=width * i + col < 8000)\n"
                               "        nl.store(y[lane, width * i + col], value=t, "
                               "mask=width * i + col < 8000)\n"),
                       kShapes)
                  .empty());
    }
    SECTION("whose stride is not its width") {
        CHECK(sites_of(*rule,
                       doubled("i in nl.affine_range(8)",
                               "        t = nl.load(x[lane, 1024 * i + col])\n"
                               "        nl.store(y[lane, 1024 * i + col], value=t)\n"),
                       kShapes)
                  .empty());
    }
}

TEST_CASE("a width that does not divide the row is never proposed") {
    const auto rule = make_widen_free_tile();
    // 13 tiles: only one tile of the whole row divides evenly.
    const std::string source = with_imports(R"(def kernel(x):
    y = nl.ndarray((128, 6656), dtype=x.dtype, buffer=nl.shared_hbm)
    lane = nl.arange(128)[:, None]
    col = nl.arange(512)[None, :]
    for i in nl.affine_range(13):
        nl.store(y[lane, 512 * i + col], value=nl.exp(nl.load(x[lane, 512 * i + col])))
    return y
)");
    const auto sites = sites_of(*rule, source, {{128, 6656}});
    REQUIRE(sites.size() == 1);
    CHECK(sites[0].parameters.at("width") == 6656);
    Site wrong = sites[0];
    wrong.parameters["width"] = 1024;
    const auto module = nki::Module{};
    CHECK(!rule->apply({module, kShapes}, wrong).ok());
}

TEST_CASE("tiles that would not fit on chip are not proposed") {
    const auto rule = make_widen_free_tile();
    // One row of 65536 floats is 256 KiB; three tiles live at once.
    const std::string source = with_imports(R"(def kernel(x):
    y = nl.ndarray((128, 65536), dtype=x.dtype, buffer=nl.shared_hbm)
    lane = nl.arange(128)[:, None]
    col = nl.arange(4096)[None, :]
    for i in nl.affine_range(16):
        a = nl.load(x[lane, 4096 * i + col])
        b = nl.exp(a)
        c = nl.sin(a)
        d = nl.multiply(b, c)
        nl.store(y[lane, 4096 * i + col], value=nl.multiply(d, b))
    return y
)");
    const auto sites = sites_of(*rule, source, {{128, 65536}});
    for (const Site& site : sites) CHECK(site.parameters.at("width") <= 8192);
}

TEST_CASE("a named width that also sizes something else is not edited") {
    const auto rule = make_widen_free_tile();
    // `width` is also the number of partitions of the load: the width alone must change.
    const std::string source = with_imports(R"(def kernel(x):
    width = 128
    y = nl.ndarray((128, 8192), dtype=x.dtype, buffer=nl.shared_hbm)
    lane = nl.arange(width)[:, None]
    col = nl.arange(width)[None, :]
    for i in nl.affine_range(64):
        nl.store(y[lane, width * i + col], value=nl.exp(nl.load(x[lane, width * i + col])))
    return y
)");
    const std::string text =
        rewritten_at(*rule, source, kShapes, widest(sites_of(*rule, source, kShapes)));
    CHECK_THAT(text, Contains("width = 128"));
    CHECK_THAT(text, Contains("lane = nl.arange(width)[:, None]"));
    CHECK_THAT(text, Contains("col = nl.arange(8192)[None, :]"));
}

TEST_CASE("merging the parts of a tile makes one instruction of each") {
    const auto rule = make_merge_subtiles();
    const std::string source = with_imports(R"(def kernel(x):
    y = nl.ndarray((128, 2048), dtype=x.dtype, buffer=nl.shared_hbm)
    lane = nl.arange(128)[:, None]
    t = nl.load(x[lane, nl.arange(2048)[None, :]])
    u = nl.ndarray((nl.par_dim(128), 2048), dtype=nl.float32, buffer=nl.sbuf)
    for p in nl.affine_range(4):
        u[lane, 512 * p + nl.arange(512)[None, :]] = nl.exp(t[lane, 512 * p + nl.arange(512)[None, :]])
    nl.store(y[lane, nl.arange(2048)[None, :]], value=u)
    return y
)");
    const std::string text = rewritten(*rule, source, {{128, 2048}});
    CHECK_THAT(text, Contains("for p in nl.affine_range(1):"));
    CHECK_THAT(text, Contains("2048 * p + nl.arange(2048)[None, :]"));
}

TEST_CASE("parts that land in a PSUM bank stay parts") {
    const auto rule = make_merge_subtiles();
    const std::string source = with_imports(R"(def kernel(x):
    y = nl.ndarray((128, 2048), dtype=x.dtype, buffer=nl.shared_hbm)
    lane = nl.arange(128)[:, None]
    t = nl.load(x[lane, nl.arange(2048)[None, :]])
    u = nl.ndarray((nl.par_dim(128), 2048), dtype=nl.float32, buffer=nl.sbuf)
    for p in nl.affine_range(4):
        s = nl.ndarray((nl.par_dim(128), 512), dtype=nl.float32, buffer=nl.psum)
        s[lane, nl.arange(512)[None, :]] = nl.exp(t[lane, 512 * p + nl.arange(512)[None, :]])
        u[lane, 512 * p + nl.arange(512)[None, :]] = nl.copy(s[lane, nl.arange(512)[None, :]])
    nl.store(y[lane, nl.arange(2048)[None, :]], value=u)
    return y
)");
    check_kernel(source, {{128, 2048}});
    CHECK(sites_of(*rule, source, {{128, 2048}}).empty());
}

}  // namespace
}  // namespace accelopt::rewrite
