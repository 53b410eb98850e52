#include <catch2/catch.hpp>

#include "trace_support.h"

namespace accelopt::nki::test {
namespace {

const std::string kHead =
    "y = nl.ndarray((128, 512), dtype=x.dtype, buffer=nl.shared_hbm)\n"
    "t = nl.load(x)\n"
    "s = nl.zeros((nl.par_dim(128), 512), dtype=nl.float32)\n";

std::string looped(const std::string& range, const std::string& body) {
    return verdict(kHead + "for i in nl." + range + "(4):\n" + body + "nl.store(y, s)\nreturn y");
}

constexpr const char* kCarried = "rejected/unexpected_output_dependencies";

}  // namespace

TEST_CASE("iterations of an affine_range may not share a written region", "[nki][dependencies]") {
    const std::string overwrite = "    s[...] = nl.exp(t)\n";
    CHECK(looped("affine_range", overwrite) == kCarried);
    CHECK(looped("sequential_range", overwrite) == "ok");
    CHECK(looped("static_range", overwrite) == "ok");

    const std::string running = "    s[...] = nl.add(s, t)\n";
    CHECK(looped("affine_range", running) == kCarried);
    CHECK(looped("sequential_range", running) == "ok");

    CHECK(looped("affine_range", "    s[:, 128 * i:128 * (i + 1)] = nl.exp(t[:, 0:128])\n") ==
          "ok");
    CHECK(looped("affine_range", "    s[:, 127 * i:127 * i + 128] = nl.exp(t[:, 0:128])\n") ==
          kCarried);
    CHECK(looped("affine_range", "    s[32 * i:32 * (i + 1), :] = nl.exp(t[0:32, :])\n") == "ok");
    CHECK(looped("affine_range", "    s[:, i:512:4] = nl.exp(t[:, 0:128])\n") == "ok");
    CHECK(looped("affine_range", "    s[:, i % 2:i % 2 + 1] = nl.exp(t[:, 0:1])\n") == kCarried);
}

TEST_CASE("associative updates are no dependency, reading them is", "[nki][dependencies][N12]") {
    CHECK(looped("affine_range", "    s += t\n") == "ok");
    CHECK(looped("affine_range", "    s += nl.exp(t)\n    s += 1.0\n") == "ok");
    CHECK(looped("affine_range", "    s += t\n    s -= 1.0\n") == "ok");
    CHECK(looped("affine_range", "    s *= t\n    s /= 2.0\n") == "ok");
    CHECK(looped("affine_range", "    s += t\n    u = nl.exp(s)\n") == kCarried);
    CHECK(looped("sequential_range", "    s += t\n    u = nl.exp(s)\n") == "ok");
    CHECK(looped("affine_range", "    s += t\n    s[...] = nl.exp(t)\n") == kCarried);
    CHECK(looped("affine_range", "    s += nl.multiply(s, 0.5)\n") == kCarried);
    CHECK(looped("affine_range", "    s[...] = s + t\n") == kCarried);
    CHECK(looped("affine_range",
                 "    s[:, 0:1] = nl.loop_reduce(t[:, 0:1], op=nl.add, "
                 "loop_indices=[i])\n") == "ok");
    CHECK(looped("affine_range",
                 "    s[:, 0:1] = nl.loop_reduce(t[:, 0:1], op=nl.power, "
                 "loop_indices=[i])\n") == kCarried);
}

TEST_CASE("updates by different operations depend on each other", "[nki][dependencies][N12]") {
    // s = (s + t) * 0.5 in every iteration: a recurrence, whichever way it is spelled.
    CHECK(looped("affine_range", "    s += t\n    s *= 0.5\n") == kCarried);
    CHECK(looped("affine_range", "    s *= 0.5\n    s += t\n") == kCarried);
    CHECK(looped("affine_range", "    s += t\n    s /= t\n") == kCarried);
    CHECK(looped("sequential_range", "    s += t\n    s *= 0.5\n") == "ok");
    CHECK(looped("affine_range",
                 "    s[...] = nl.loop_reduce(t, op=nl.maximum, loop_indices=[i])\n"
                 "    s += t\n") == kCarried);
    // The oldest update counts as much as the newest.
    CHECK(looped("affine_range", "    s += t\n    if i == 3:\n        s[...] = nl.copy(t)\n") ==
          kCarried);
}

TEST_CASE("a scan hidden in an affine_range is found", "[nki][dependencies]") {
    CHECK(looped("affine_range",
                 "    if i == 0:\n        s[...] = nl.copy(t)\n    else:\n        s += t\n") ==
          kCarried);
    CHECK(looped("affine_range", "    u = nl.add(s, t)\n    s[...] = nl.copy(u)\n") == kCarried);
    CHECK(looped("affine_range",
                 "    if i > 0:\n"
                 "        s[:, i:i + 1] = nl.add(s[:, i - 1:i], t[:, 0:1])\n") == kCarried);
    CHECK(looped("affine_range", "    s[:, i:i + 1] = nl.add(s[:, i:i + 1], t[:, 0:1])\n") == "ok");
}

TEST_CASE("an iteration may not write what another one reads before", "[nki][dependencies]") {
    const std::string shift = "    s[:, i:i + 1] = nl.copy(s[:, i + 1:i + 2])\n";
    CHECK(looped("affine_range", shift) == kCarried);
    CHECK(looped("sequential_range", shift) == "ok");
    CHECK(looped("affine_range",
                 "    u = nl.exp(s)\n    if i == 3:\n        s[...] = nl.copy(t)\n") == kCarried);
    CHECK(looped("affine_range", "    u = nl.exp(s)\n    v = nl.exp(s[:, 0:4])\n") == "ok");
}

TEST_CASE("an access is not forgotten for a later one of the same region", "[nki][dependencies]") {
    // The first iteration writes, all of them add; the last one writes what all of them added to.
    CHECK(looped("affine_range", "    if i == 0:\n        s[...] = nl.copy(t)\n    s += t\n") ==
          kCarried);
    CHECK(looped("affine_range", "    s += t\n    if i == 3:\n        s[...] = nl.copy(t)\n") ==
          kCarried);
    CHECK(looped("sequential_range", "    if i == 0:\n        s[...] = nl.copy(t)\n    s += t\n") ==
          "ok");
    // Read before the loop, in every iteration, and written in the last.
    const auto read_before = [](const std::string& inner) {
        return verdict(kHead + "for j in nl.affine_range(1):\n    v = nl.exp(s)\n    for i in nl." +
                       inner +
                       "(4):\n        u = nl.exp(s)\n        if i == 3:\n"
                       "            s[...] = nl.copy(t)\nnl.store(y, s)\nreturn y");
    };
    CHECK(read_before("affine_range") == kCarried);
    CHECK(read_before("sequential_range") == "ok");
}

TEST_CASE("views of very many runs are told apart", "[nki][dependencies]") {
    const auto strided = [](const std::string& column) {
        return verdict(
            "y = nl.ndarray((64, 128, 128, 2), dtype=x.dtype, buffer=nl.shared_hbm)\n"
            "t = nl.ndarray((nl.par_dim(64), 128, 128, 1), dtype=nl.float32)\n"
            "t[...] = nl.zeros((64, 128, 128, 1), dtype=nl.float32)\n"
            "for i in nl.affine_range(2):\n    nl.store(y[:, :, :, " +
            column + "], t)\nreturn y");
    };
    CHECK(strided("i:i + 1") == "ok");
    CHECK(strided("0:1") == kCarried);
    CHECK(strided("i:2:2") == "ok");
    // The same elements in two forms: each of two rows is written by both iterations.
    CHECK(verdict("y = nl.ndarray((128, 256, 64), dtype=x.dtype, buffer=nl.shared_hbm)\n"
                  "t = nl.zeros((nl.par_dim(128), 128, 64), dtype=nl.float32)\n"
                  "for i in nl.affine_range(2):\n"
                  "    if i == 0:\n        nl.store(y[:, 0:256:2, :], t)\n"
                  "    else:\n        nl.store(y[:, 0:128, :], t)\nreturn y") == kCarried);
}

TEST_CASE("only the affine loop around the conflict counts", "[nki][dependencies]") {
    const auto nested = [](const std::string& outer, const std::string& inner,
                           const std::string& index) {
        return verdict(kHead + "for i in nl." + outer + "(2):\n    for j in nl." + inner +
                       "(2):\n        s[:, " + index + ":" + index +
                       " + 1] = nl.exp(t[:, 0:1])\nnl.store(y, s)\nreturn y");
    };
    CHECK(nested("affine_range", "affine_range", "2 * i + j") == "ok");
    CHECK(nested("affine_range", "affine_range", "i") == kCarried);
    CHECK(nested("affine_range", "affine_range", "j") == kCarried);
    CHECK(nested("affine_range", "sequential_range", "i") == "ok");
    CHECK(nested("sequential_range", "affine_range", "j") == "ok");
    CHECK(nested("sequential_range", "affine_range", "i") == kCarried);
}

TEST_CASE("tiles of the iteration itself are free, and so are stores to separate parts",
          "[nki][dependencies]") {
    CHECK(looped("affine_range",
                 "    u = nl.ndarray((nl.par_dim(128), 128), dtype=nl.float32)\n"
                 "    u[...] = nl.exp(t[:, 0:128])\n    u[...] = nl.add(u, 1.0)\n"
                 "    nl.store(y[:, i * 128:(i + 1) * 128], u)\n") == "ok");
    CHECK(looped("affine_range", "    nl.store(y, t)\n") == kCarried);
    CHECK(looped("sequential_range", "    nl.store(y, t)\n") == "ok");
    // One loop after the other is ordered.
    CHECK(verdict(kHead + "for i in nl.affine_range(4):\n    s[:, i:i + 1] = nl.exp(t[:, 0:1])\n"
                          "for i in nl.affine_range(4):\n    s[:, i:i + 1] = nl.add(s[:, i:i + 1], "
                          "1.0)\nnl.store(y, s)\nreturn y") == "ok");
}

TEST_CASE("PSUM accumulation over nested affine loops is legal", "[nki][dependencies]") {
    CHECK(verdict("y = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.shared_hbm)\n"
                  "t = nl.load(x)\n"
                  "acc = nl.zeros((nl.par_dim(128), 128), dtype=nl.float32, buffer=nl.psum)\n"
                  "for i in nl.affine_range(2):\n    for j in nl.affine_range(2):\n"
                  "        acc += nisa.nc_matmul(t[:, 0:128], t[:, 128:256])\n"
                  "nl.store(y, acc)\nreturn y") == "ok");
    CHECK(verdict("y = nl.ndarray((128, 128), dtype=x.dtype, buffer=nl.shared_hbm)\n"
                  "t = nl.load(x)\n"
                  "acc = nl.zeros((nl.par_dim(128), 128), dtype=nl.float32, buffer=nl.psum)\n"
                  "for i in nl.affine_range(2):\n"
                  "    acc[...] = nisa.nc_matmul(t[:, 0:128], t[:, 128:256])\n"
                  "nl.store(y, acc)\nreturn y") == kCarried);
}

TEST_CASE("many regions of one tile are still told apart", "[nki][dependencies]") {
    CHECK(verdict(kHead +
                  "for i in nl.affine_range(200):\n    s[:, i:i + 1] = nl.exp(t[:, i:i + 1])\n"
                  "nl.store(y, s)\nreturn y") == "ok");
    CHECK(verdict(kHead + "for i in nl.affine_range(200):\n"
                          "    s[:, i % 150:i % 150 + 1] = nl.exp(t[:, i:i + 1])\n"
                          "nl.store(y, s)\nreturn y") == kCarried);
}

TEST_CASE("tiles live as long as the iteration that made them", "[nki][dependencies]") {
    constexpr const char* kScope = "rejected/local_variable_used_out_of_scope";
    const auto after = [](const std::string& range) {
        return verdict(kHead + "for i in " + range + "(2):\n    u = nl.exp(t)\n" +
                       "nl.store(y, u)\nreturn y");
    };
    CHECK(after("nl.affine_range") == kScope);
    CHECK(after("nl.sequential_range") == kScope);
    CHECK(after("range") == kScope);
    CHECK(after("nl.static_range") == "ok");
    CHECK(verdict(kHead + "u = t\nfor i in nl.sequential_range(3):\n    u = nl.exp(u)\n"
                          "nl.store(y, u)\nreturn y") == kScope);
    CHECK(verdict(kHead + "u = nl.ndarray((nl.par_dim(128), 512))\n"
                          "for i in nl.sequential_range(3):\n    u[...] = nl.exp(t)\n"
                          "nl.store(y, u)\nreturn y") == "ok");
    CHECK(verdict(kHead + "parts = []\nfor i in nl.affine_range(2):\n    parts.append(nl.exp(t))\n"
                          "nl.store(y, parts[0])\nreturn y") == kScope);
}

TEST_CASE("the finding names the loop and the earlier write", "[nki][dependencies]") {
    const auto result = trace_body(kHead +
                                   "for i in nl.affine_range(2):\n    s[...] = nl.exp(t)\n"
                                   "nl.store(y, s)\nreturn y");
    REQUIRE_FALSE(result);
    CHECK(result.error().line == kBodyLine + 4);
    CHECK(result.error().message ==
          "different iterations of 'i' write to the same part of 's' (affine_range of line 12, "
          "earlier access in line 13)");
}

}  // namespace accelopt::nki::test
