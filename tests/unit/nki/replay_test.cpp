#include <catch2/catch.hpp>
#include <filesystem>
#include <sstream>

#include "core/text.h"
#include "support/program_equality.h"
#include "trace_support.h"

namespace accelopt::nki::test {
namespace {

const std::string kHead =
    "import neuronxcc.nki as nki\n"
    "import neuronxcc.nki.isa as nisa\n"
    "import neuronxcc.nki.language as nl\n"
    "import numpy as np\n"
    "@nki.jit\n"
    "def kernel(x):\n"
    "    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)\n"
    "    p = nl.arange(128)[:, None]\n"
    "    f = nl.arange(64)[None, :]\n";

/// x is [128, 1024]; 16 tiles of 64 columns.
Result<Program, Finding> traced(const std::string& body, bool replay) {
    std::string source = kHead;
    for (const std::string& line : split(body, '\n')) source += "    " + line + "\n";
    source += "    return y\n";
    TraceOptions options;
    options.replay = replay;
    return trace_file(source, {TensorArgument{{128, 1024}, DType::kFloat32}}, options);
}

/// Traces both ways, demands equality, and returns how many operations were replayed.
std::int64_t replayed(const std::string& body) {
    const auto plain = traced(body, false);
    const auto fast = traced(body, true);
    INFO(body);
    REQUIRE(plain.ok() == fast.ok());
    if (!plain) {
        CHECK(plain.error().code == fast.error().code);
        CHECK(plain.error().message == fast.error().message);
        CHECK(plain.error().line == fast.error().line);
        CHECK(plain.error().column == fast.error().column);
        return -1;
    }
    CHECK(plain->replayed == 0);
    CHECK(testing::difference(*plain, *fast) == "");
    return fast->replayed;
}

}  // namespace

TEST_CASE("a loop over tiles is replayed and gives the same program", "[nki][replay]") {
    CHECK(replayed("for i in nl.affine_range(16):\n"
                   "    t = nl.load(x[p, 64 * i + f])\n"
                   "    u = nl.exp(t)\n"
                   "    nl.store(y[p, 64 * i + f], value=u)") == 13 * 3);
    CHECK(replayed("for i in nl.sequential_range(16):\n"
                   "    col = i * 64\n"
                   "    nl.store(y[:, col:col + 64], value=nl.load(x[:, nl.ds(col, 64)]))") > 0);
    CHECK(replayed("for i in range(16):\n"
                   "    nl.store(y[p, 960 - 64 * i + f], value=nl.load(x[p, 64 * i + f]))") > 0);
}

TEST_CASE("nests of loops are replayed as a whole", "[nki][replay]") {
    const std::string nest =
        "acc = nl.ndarray((8, nl.par_dim(128), 128), dtype=nl.float32, buffer=nl.sbuf)\n"
        "for i in nl.affine_range(8):\n"
        "    total = nl.zeros((128, 64), dtype=nl.float32, buffer=nl.psum)\n"
        "    for k in nl.affine_range(8):\n"
        "        w = nl.load(x[p, 64 * k + f])\n"
        "        total += nisa.nc_matmul(w, w)\n"
        "    for j in nl.affine_range(2):\n"
        "        acc[i, p, 64 * j + f] = nl.copy(total)\n"
        "    nl.store(y[p, 128 * i + nl.arange(128)[None, :]], value=acc[i])";
    // [64, 64] products do not fit [128, 64]: the point is the nest, so give them their shape.
    std::string square = nest;
    square.replace(square.find("(128, 64), dtype"), 16, "(64, 64), dtype ");
    const std::int64_t count = replayed(
        "for i in nl.affine_range(8):\n"
        "    total = nl.zeros((64, 64), dtype=nl.float32, buffer=nl.psum)\n"
        "    for k in nl.affine_range(16):\n"
        "        w = nl.load(x[p, 64 * k + f])\n"
        "        total += nisa.nc_matmul(w, w)\n"
        "    out = nl.copy(total)\n"
        "    nl.store(y[nl.arange(64)[:, None], 64 * i + f], value=out)");
    // Four of eight outer iterations are repeated as a whole, with 12 of 16 inner ones in others.
    CHECK(count > 4 * 34);
    CHECK(replayed(square) == -1);
    CHECK(replayed(nest) == -1);
}

TEST_CASE("iterations are noted with their operations, those that do nothing are not",
          "[nki][replay]") {
    for (const bool replay : {false, true}) {
        const auto program = traced(
            "for i in nl.affine_range(8):\n"
            "    for k in nl.affine_range(2):\n"
            "        t = nl.load(x[p, 128 * i + 64 * k + f])\n"
            "        nl.store(y[p, 128 * i + 64 * k + f], value=t)\n"
            "for j in range(3):\n"
            "    for k in range(2):\n"
            "        if j == 1 and k == 1:\n"
            "            nl.store(y[p, f], value=nl.load(x[p, f]))",
            replay);
        REQUIRE(program.ok());
        const std::vector<LoopIteration>& iterations = program->iterations;
        REQUIRE(iterations.size() == 8 * 3 + 2);
        for (int i = 0; i < 8; ++i) {
            const LoopIteration& outer = iterations[3 * i];
            CHECK(outer.loop == 0);
            CHECK(outer.run == iterations[0].run);
            CHECK(outer.first == 4 * i);
            CHECK(outer.end == 4 * i + 4);
            for (int k = 0; k < 2; ++k) {
                const LoopIteration& inner = iterations[3 * i + 1 + k];
                CHECK(inner.loop == 1);
                CHECK(inner.run == iterations[3 * i + 1].run);
                CHECK((i == 0 || inner.run != iterations[1].run));
                CHECK(inner.first == 4 * i + 2 * k);
                CHECK(inner.end == 4 * i + 2 * k + 2);
            }
        }
        CHECK(iterations[24].loop == 2);  // of six iterations, one stores
        CHECK(iterations[25].loop == 3);
        for (int k : {24, 25}) {
            CHECK(iterations[k].first == 32);
            CHECK(iterations[k].end == 34);
        }
    }
}

TEST_CASE("loops of few iterations are replayed from the second on", "[nki][replay]") {
    const auto few = [](int trips) {
        return replayed("for i in nl.affine_range(" + std::to_string(trips) +
                        "):\n    nl.store(y[p, 64 * i + f], value=nl.load(x[p, 64 * i + f]))");
    };
    CHECK(few(3) == 0);
    CHECK(few(4) == 2);
    CHECK(few(5) == 4);
    const auto few_masked = [](int trips) {
        return replayed("for i in nl.affine_range(" + std::to_string(trips) +
                        "):\n    m = 64 * i + f < 1000\n    nl.store(y[p, 64 * i + f], "
                        "value=nl.load(x[p, 64 * i + f], mask=m), mask=m)");
    };
    CHECK(few_masked(4) == 0);
    CHECK(few_masked(5) == 2);
    // A first iteration that differs is interpreted, and so are the two after it.
    const auto reduced = [](int trips) {
        return replayed(
            "s = nl.ndarray((nl.par_dim(128), 64), dtype=nl.float32, buffer=nl.sbuf)\n"
            "for i in nl.sequential_range(" +
            std::to_string(trips) +
            "):\n    t = nl.load(x[p, 64 * i + f])\n"
            "    s[p, f] = nl.loop_reduce(t, op=np.add, loop_indices=[i])\n"
            "nl.store(y[p, f], value=s)");
    };
    CHECK(reduced(4) == 0);
    CHECK(reduced(5) == reduced(6) / 2);
    CHECK(reduced(6) > 0);
    // In later runs of an inner loop the first iteration is like the others.
    CHECK(replayed("s = nl.ndarray((nl.par_dim(128), 64), dtype=nl.float32, buffer=nl.sbuf)\n"
                   "for i in nl.sequential_range(3):\n    for j in nl.sequential_range(4):\n"
                   "        t = nl.load(x[p, 64 * j + 256 * i + f])\n"
                   "        s[p, f] = nl.loop_reduce(t, op=np.add, loop_indices=[i, j])\n"
                   "nl.store(y[p, f], value=s)") > 0);
}

TEST_CASE("loop_reduce and running state are the same either way", "[nki][replay]") {
    replayed(
        "peak = nl.ndarray((nl.par_dim(128), 1), dtype=nl.float32, buffer=nl.sbuf)\n"
        "for i in nl.affine_range(16):\n"
        "    t = nl.load(x[p, 64 * i + f])\n"
        "    m = nisa.tensor_reduce(nl.max, data=t, axis=[1])\n"
        "    peak[p, 0] = nl.loop_reduce(m, op=np.max, loop_indices=[i])\n"
        "for i in nl.affine_range(16):\n"
        "    t = nl.load(x[p, 64 * i + f])\n"
        "    nl.store(y[p, 64 * i + f], value=nl.subtract(t, peak))");
    replayed(
        "m = nl.zeros((nl.par_dim(128), 64), dtype=nl.float32, buffer=nl.sbuf)\n"
        "for i in nl.sequential_range(16):\n"
        "    t = nl.load(x[p, 64 * i + f])\n"
        "    m[p, f] = nl.maximum(m[p, f], t)\n"
        "    nl.store(y[p, 64 * i + f], value=m)");
    replayed(
        "m = nl.zeros((nl.par_dim(128), 64), dtype=nl.float32, buffer=nl.sbuf)\n"
        "for i in nl.static_range(16):\n"
        "    t = nl.load(x[p, 64 * i + f])\n"
        "    m = nl.maximum(m, t)\n"
        "    nl.store(y[p, 64 * i + f], value=m)");
}

TEST_CASE("what is not affine in the loop variable is interpreted", "[nki][replay]") {
    const char* const kBodies[] = {
        // i*i, //, %, a branch, a list, a function, a carried integer.
        "for i in range(16):\n    nl.store(y[p, 4 * i * i + f], value=nl.load(x[p, 4 * i * i + "
        "f]))",
        "for i in range(16):\n    nl.store(y[p, 64 * (i // 2) + f], value=nl.load(x[p, 64 * i + "
        "f]))",
        "for i in range(16):\n    nl.store(y[p, 64 * (i % 3) + f], value=nl.load(x[p, 64 * i + "
        "f]))",
        "for i in range(16):\n    if i > 7:\n        nl.store(y[p, 64 * i + f], value=nl.load(x[p, "
        "f]))",
        "l = [0]\nfor i in range(16):\n    l.append(i)\n"
        "    nl.store(y[p, 64 * i + f], value=nl.load(x[p, 64 * l[i] + f]))",
        "def g(k):\n    return k * k\nfor i in range(16):\n"
        "    nl.store(y[p, 4 * g(i) + f], value=nl.load(x[p, f]))",
        "c = 0\nfor i in range(16):\n    nl.store(y[p, c + f], value=nl.load(x[p, f]))\n    c += 4 "
        "* i",
        "l = [k * k for k in range(16)]\nfor i in range(16):\n"
        "    nl.store(y[p, 4 * l[i] + f], value=nl.load(x[p, f]))",
    };
    for (const char* const body : kBodies) CHECK(replayed(body) <= 0);
}

TEST_CASE("masks that depend on the loop variable may cut the last iteration only",
          "[nki][replay]") {
    const auto masked = [](const std::string& mask, const std::string& range = "range(15)") {
        return replayed("for i in " + range + ":\n    m = " + mask +
                        "\n    t = nl.load(x[p, 70 * i + f], mask=m)\n"
                        "    nl.store(y[p, 70 * i + f], value=t, mask=m)");
    };
    CHECK(masked("70 * i + f < 1024") == 22);  // 11 of 15; the last one is [980, 1024)
    CHECK(masked("70 * i + f < 1024", "range(14)") == 20);
    CHECK(masked("70 * i + f < 1050", "range(14)") == 20);
    CHECK(masked("(70 * i + f < 1024) & (70 * i + p >= 0)", "range(14)") == 20);
    CHECK(masked("70 * i + f <= 973", "range(14)") == 20);
    CHECK(masked("1000 > 70 * i + f", "range(14)") == 20);
    // Cut in the iteration before the last, by another mask, from the start, and in the middle.
    CHECK(masked("70 * i + f < 900", "range(14)") == 0);
    CHECK(masked("(70 * i + f < 1024) & (i * 20 + f < 300)", "range(14)") == 0);
    CHECK(masked("70 * i + f >= 75", "range(14)") == 0);
    CHECK(masked("i * 10 + f >= 30", "range(14)") == 0);
    // What is no inequality of affine values, or no mask.
    CHECK(masked("i * i + f < 1024", "range(14)") == 0);
    CHECK(masked("(i < 3) and (f < 1024)", "range(14)") <= 0);
    CHECK(masked("70 * i + f == 70 * i + f", "range(14)") <= 0);
    CHECK(masked("i < 100", "range(14)") >= 0);
    CHECK(masked("i < 7", "range(14)") >= 0);
    CHECK(replayed("for i in range(14):\n    if i < 100:\n"
                   "        nl.store(y[p, 64 * i + f], value=nl.load(x[p, 64 * i + f]))") == 0);
}

TEST_CASE("masks of nested loops are the same either way", "[nki][replay]") {
    // 130 rows of 7 blocks: the last row block is cut in every column block.
    const std::string body =
        "q = nl.arange(10)[:, None]\n"
        "for b in nl.affine_range(8):\n"
        "    for t in nl.affine_range(13):\n"
        "        live = 10 * t + q < 128\n"
        "        u = nl.exp(nl.load(x[10 * t + q, 64 * b + f], mask=live), mask=live)\n"
        "        nl.store(y[10 * t + q, 64 * b + f], value=u, mask=live)";
    CHECK(replayed(body) > 4 * 13 * 3);
    CHECK(replayed("q = nl.arange(10)[:, None]\n"
                   "for t in nl.affine_range(13):\n"
                   "    live = 10 * t + q < 128\n"
                   "    for b in nl.affine_range(8):\n"
                   "        here = live & (140 * b + f < 1024)\n"
                   "        u = nl.exp(nl.load(x[10 * t + q, 140 * b + f], mask=here), mask=here)\n"
                   "        nl.store(y[10 * t + q, 140 * b + f], value=u, mask=here)") > 0);
    // A slanted mask: rows of a triangle.
    CHECK(replayed("for i in nl.affine_range(16):\n"
                   "    keep = 64 * i + f <= 8 * p\n"
                   "    u = nl.exp(nl.load(x[p, 64 * i + f]), mask=keep)\n"
                   "    nl.store(y[p, 64 * i + f], value=u, mask=keep)") == 0);
}

TEST_CASE("a finding is the same either way", "[nki][replay]") {
    // Out of bounds in the last, in a middle, and in every iteration; a dependency; a wrapped sign.
    CHECK(replayed("for i in range(16):\n"
                   "    nl.store(y[p, 65 * i + f], value=nl.load(x[p, 64 * i + f]))") == -1);
    CHECK(replayed("for i in range(20):\n"
                   "    nl.store(y[p, 64 * i + f], value=nl.load(x[p, f]))") == -1);
    CHECK(replayed("for i in nl.affine_range(16):\n"
                   "    nl.store(y[p, 32 * i + f], value=nl.load(x[p, 64 * i + f]))") == -1);
    CHECK(replayed("t = nl.ndarray((128, 64), dtype=nl.float32, buffer=nl.sbuf)\n"
                   "for i in nl.affine_range(16):\n"
                   "    t[p, f] = nl.load(x[p, 64 * i + f])\n"
                   "    nl.store(y[p, 64 * i + f], value=t)") == -1);
    replayed(
        "for i in range(16):\n"
        "    nl.store(y[:, i], value=nl.load(x[:, i - 3]))");
    CHECK(replayed("t = nl.zeros((128, 64), dtype=nl.float32, buffer=nl.sbuf)\n"
                   "for i in range(16):\n"
                   "    u = nl.add(t[i:i + 8, 0:64], t[i:i + 8, 0:64])\n"
                   "    nl.store(y[0:8, 64 * i:64 * i + 64], value=u)") == -1);
}

TEST_CASE("the step budget ends a replayed loop where it ends an interpreted one",
          "[nki][replay]") {
    std::string source = kHead +
                         "    for i in range(100000):\n"
                         "        nl.store(y[p, f], value=nl.load(x[p, f]))\n"
                         "    return y\n";
    for (const std::int64_t steps : {500, 5'000, 40'001}) {
        TraceOptions options;
        options.limits.steps = steps;
        const auto fast =
            trace_file(source, {TensorArgument{{128, 1024}, DType::kFloat32}}, options);
        options.replay = false;
        const auto plain =
            trace_file(source, {TensorArgument{{128, 1024}, DType::kFloat32}}, options);
        REQUIRE_FALSE(fast.ok());
        CHECK(fast.error().code == "steps");
        CHECK(fast.error().line == plain.error().line);
        CHECK(fast.error().column == plain.error().column);
    }
}

TEST_CASE("golden kernels are the same either way", "[nki][replay]") {
    const std::string root = std::string(ACCELOPT_SOURCE_DIR) + "/tests/golden/nki/good";
    int compared = 0;
    for (const auto& entry : std::filesystem::directory_iterator(root)) {
        if (entry.path().extension() != ".py") continue;
        const std::string source = read_file(entry.path().string());
        const std::size_t at = source.find("# args: ") + 8;
        std::istringstream words(source.substr(at, source.find('\n', at) - at));
        std::vector<Argument> arguments;
        bool plain_tensors = true;
        for (std::string word; words >> word;) {
            const std::size_t bracket = word.find('[');
            if (bracket == std::string::npos) {
                plain_tensors = false;
                break;
            }
            TensorArgument argument;
            for (int k = 0; k <= static_cast<int>(DType::kBool); ++k)
                if (to_string(static_cast<DType>(k)) == word.substr(0, bracket))
                    argument.dtype = static_cast<DType>(k);
            for (const std::string& n :
                 split(word.substr(bracket + 1, word.size() - bracket - 2), ','))
                argument.shape.push_back(std::stoll(n));
            arguments.emplace_back(argument);
        }
        if (!plain_tensors) continue;
        INFO(entry.path());
        TraceOptions options;
        const auto fast = trace_file(source, arguments, options);
        options.replay = false;
        const auto plain = trace_file(source, arguments, options);
        REQUIRE(fast.ok() == plain.ok());
        if (!fast) continue;  // a kernel that needs a grid or another option
        CHECK(testing::difference(*plain, *fast) == "");
        ++compared;
    }
    CHECK(compared >= 12);
}

}  // namespace accelopt::nki::test
