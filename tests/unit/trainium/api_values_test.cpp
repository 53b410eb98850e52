#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <numeric>

#include "trainium/execute.h"
#include "unit/nki/trace_support.h"

using namespace accelopt;
using nki::DType;
using nki::test::tensor;

namespace {

using Numbers = std::vector<float>;

Numbers ramp(std::size_t n, float start = 0, float step = 1) {
    Numbers values(n);
    for (std::size_t k = 0; k < n; ++k) values[k] = start + step * static_cast<float>(k);
    return values;
}

/// An input of a kernel: float32, or int32 when `whole`.
struct Input {
    std::vector<std::int64_t> shape;
    Numbers values;
    bool whole = false;
};

trainium::Machine trn1() {
    trainium::Machine machine;
    machine.partitions = 128;
    machine.sbuf_partition_bytes = 192 * 1024;
    machine.psum_partition_bytes = 16 * 1024;
    machine.psum_bank_bytes = 2 * 1024;
    return machine;
}

struct Outcome {
    std::string verdict = "ok";
    std::vector<Numbers> outputs;
    std::int64_t unwritten = 0;
};

/// Traces, checks and executes the body of a kernel over x0, x1, ...
Outcome run(const std::string& body, const std::vector<Input>& inputs,
            const nki::TraceOptions& options = {}, const std::string& parameters = "") {
    std::string names;
    std::vector<nki::Argument> arguments;
    std::vector<std::vector<std::int32_t>> integers(inputs.size());
    std::vector<trainium::InputArray> arrays;
    for (std::size_t k = 0; k < inputs.size(); ++k) {
        names += (k > 0 ? ", x" : "x") + std::to_string(k);
        arguments.push_back(
            tensor(inputs[k].shape, inputs[k].whole ? DType::kInt32 : DType::kFloat32));
        const void* data = inputs[k].values.data();
        if (inputs[k].whole) {
            integers[k].assign(inputs[k].values.begin(), inputs[k].values.end());
            data = integers[k].data();
        }
        arrays.push_back({data, static_cast<std::int64_t>(inputs[k].values.size() * 4)});
    }
    std::string source =
        "import numpy as np\nimport neuronxcc.nki as nki\nimport neuronxcc.nki.isa as nisa\n"
        "import neuronxcc.nki.language as nl\nimport neuronxcc.nki.compiler as ncc\n"
        "import neuronxcc.nki.typing as nt\n@nki.jit\ndef kernel(" +
        (parameters.empty() ? names : parameters) + "):\n";
    std::size_t from = 0;
    while (from <= body.size()) {
        const std::size_t end = std::min(body.find('\n', from), body.size());
        source += "    " + body.substr(from, end - from) + "\n";
        from = end + 1;
    }
    Outcome outcome;
    const auto program = nki::test::trace_file(source, arguments, options);
    const auto fail = [&](const nki::Finding& finding) {
        INFO(finding.message);
        outcome.verdict = finding.outcome + "/" + finding.code;
        return outcome;
    };
    if (!program) return fail(program.error());
    if (const auto finding = trainium::check_legality(*program, trn1())) return fail(*finding);
    auto made = trainium::execute(*program, arrays, {});
    if (!made) return fail(made.error());
    for (const trainium::OutputArray& output : *made) {
        Numbers values(output.bytes.size() / 4);
        REQUIRE(nki::size_of(output.dtype) == 4);
        if (output.dtype == DType::kFloat32) {
            std::memcpy(values.data(), output.bytes.data(), output.bytes.size());
        } else {
            std::vector<std::int32_t> whole(values.size());
            std::memcpy(whole.data(), output.bytes.data(), output.bytes.size());
            for (std::size_t k = 0; k < whole.size(); ++k) values[k] = static_cast<float>(whole[k]);
        }
        outcome.outputs.push_back(std::move(values));
        outcome.unwritten += output.unwritten_elements;
    }
    return outcome;
}

/// The one output of a kernel that must be legal.
Numbers value(const std::string& body, const std::vector<Input>& inputs,
              const nki::TraceOptions& options = {}) {
    Outcome outcome = run(body, inputs, options);
    INFO(body);
    REQUIRE(outcome.verdict == "ok");
    REQUIRE(outcome.outputs.size() == 1);
    CHECK(outcome.unwritten == 0);
    return outcome.outputs[0];
}

std::string output(const std::string& shape, const std::string& dtype = "nl.float32") {
    return "y = nl.ndarray(" + shape + ", dtype=" + dtype + ", buffer=nl.shared_hbm)\n";
}

}  // namespace

TEST_CASE("rows of a tensor are gathered and scattered by indices in a tile", "[trainium][api]") {
    const Numbers data = ramp(6 * 3);
    const Numbers rows{4, 0, 4, 1};
    CHECK(value(output("(4, 3)") + "i = nl.load(x1)\n"
                                   "nl.store(y, nl.load(x0[i, nl.arange(3)[None, :]]))\nreturn y",
                {{{6, 3}, data}, {{4, 1}, rows, true}}) ==
          Numbers{12, 13, 14, 0, 1, 2, 12, 13, 14, 3, 4, 5});
    CHECK(value(output("(4, 3)") +
                    "i = nl.load(x1)\n"
                    "nl.store(y[i, nl.arange(3)[None, :]], nl.load(x0[0:4, :]))\nreturn y",
                {{{6, 3}, data}, {{4, 1}, Numbers{2, 3, 1, 0}, true}}) ==
          Numbers{9, 10, 11, 6, 7, 8, 0, 1, 2, 3, 4, 5});
}

TEST_CASE("an index that leaves its axis is an error or skipped", "[trainium][api]") {
    const std::vector<Input> inputs{{{6, 3}, ramp(18)}, {{2, 1}, Numbers{6, 1}, true}};
    const std::string load =
        "i = nl.load(x1)\nt = nisa.memset((2, 3), -1, dtype=nl.float32)\n"
        "nisa.dma_copy(src=x0[i, nl.arange(3)[None, :]], dst=t";
    const std::string rest = ")\nnl.store(y, t)\nreturn y";
    CHECK(run(output("(2, 3)") + load + rest, inputs).verdict ==
          "rejected/tensor_access_out_of_bound");
    CHECK(value(output("(2, 3)") + load + ", oob_mode=nisa.oob_mode.skip" + rest, inputs) ==
          Numbers{-1, -1, -1, 3, 4, 5});
}

TEST_CASE("what a DMA skips is not written", "[trainium][api]") {
    const std::string skip = ", oob_mode=nisa.oob_mode.skip)\n";
    const std::string rows = "i = nl.load(x1)\n";
    // Between HBM tensors: the rows of indices outside stay unwritten, to the element.
    const std::string gather =
        output("(3, 3)") + rows + "nisa.dma_copy(src=x0[i, nl.arange(3)[None, :]], dst=y" + skip;
    const std::vector<Input> outside{{{6, 3}, ramp(18)}, {{3, 1}, Numbers{6, 1, 9}, true}};
    const std::vector<Input> inside{{{6, 3}, ramp(18)}, {{3, 1}, Numbers{5, 1, 0}, true}};
    CHECK(run(gather + "return y", outside).unwritten == 6);
    CHECK(run(gather + "return y", inside).unwritten == 0);
    CHECK(value(gather + "return y", inside) == Numbers{15, 16, 17, 3, 4, 5, 0, 1, 2});
    CHECK(value(output("(3, 3)") + rows + "nl.store(y, -1.0)\n" +
                    "nisa.dma_copy(src=x0[i, nl.arange(3)[None, :]], dst=y" + skip + "return y",
                outside) == Numbers{-1, -1, -1, 3, 4, 5, -1, -1, -1});
    // A scatter likewise.
    const std::string scatter = output("(4, 3)") + rows + "t = nl.load(x0[0:3, :])\n" +
                                "nisa.dma_copy(dst=y[i, nl.arange(3)[None, :]], src=t" + skip;
    CHECK(run(scatter + "return y", outside).unwritten == 9);
    // A tile that nothing else has written may hold leftovers: refused, whatever the indices.
    const std::string tile =
        output("(3, 3)") + rows + "t = nl.ndarray((3, 3), dtype=nl.float32, buffer=nl.sbuf)\nFILL" +
        "nisa.dma_copy(src=x0[i, nl.arange(3)[None, :]], dst=t" + skip + "nl.store(y, t)\nreturn y";
    const auto filled = [&](const std::string& fill) {
        std::string body = tile;
        return body.replace(body.find("FILL"), 4, fill);
    };
    CHECK(run(filled(""), inside).verdict == "rejected/uninitialized_read");
    CHECK(run(filled("t[0:2, :] = 0\n"), inside).verdict == "rejected/uninitialized_read");
    CHECK(value(filled("t[...] = 7\n"), outside) == Numbers{7, 7, 7, 3, 4, 5, 7, 7, 7});
}

TEST_CASE("the mask of a DMA transpose indexes its source", "[trainium][api]") {
    const std::string head = output("(3, 2)") + "t = nl.ndarray((3, 2), dtype=nl.float32)\n" +
                             "t[...] = -1\nix, iy = nl.mgrid[0:2, 0:3]\n";
    const std::string rest = "nl.store(y, t)\nreturn y";
    const std::vector<Input> inputs{{{2, 3}, ramp(6)}};
    CHECK(value(head + "t[...] = nisa.dma_transpose(x0[ix, iy])\n" + rest, inputs) ==
          Numbers{0, 3, 1, 4, 2, 5});
    CHECK(value(head + "t[...] = nisa.dma_transpose(x0[ix, iy], mask=iy < 2)\n" + rest, inputs) ==
          Numbers{0, 3, 1, 4, -1, -1});
    CHECK(value(head + "t[...] = nisa.dma_transpose(x0[ix, iy], mask=(ix < 1) & (iy > 0))\n" + rest,
                inputs) == Numbers{-1, -1, 1, -1, 2, -1});
    CHECK(value(head + "s = nl.load(x0)\n" +
                    "t[...] = nisa.dma_transpose(s[ix, iy], mask=iy < 2)\n" + rest,
                inputs) == Numbers{0, 3, 1, 4, -1, -1});
}

TEST_CASE("the mask of a shuffle leaves its destination alone", "[trainium][api]") {
    const std::string head = output("(32, 2)") + "t = nl.load(x0)\nd = nl.full((32, 2), -1, " +
                             "dtype=nl.float32)\nix, iy = nl.mgrid[0:32, 0:2]\n" +
                             "back = [31 - k for k in range(32)]\n";
    const std::string rest = "nl.store(y, d)\nreturn y";
    const std::vector<Input> inputs{{{32, 2}, ramp(64)}};
    const Numbers all = value(head + "nisa.nc_stream_shuffle(t, d, back)\n" + rest, inputs);
    CHECK(all[0] == 62);
    CHECK(all[63] == 1);
    const Numbers some = value(
        head + "nisa.nc_stream_shuffle(t, d, back, mask=(ix < 3) & (iy < 1))\n" + rest, inputs);
    for (std::size_t k = 0; k < some.size(); ++k) {
        INFO(k);
        CHECK(some[k] == (k < 6 && k % 2 == 0 ? all[k] : -1));
    }
    CHECK(run(head + "back[5] = 255\nnisa.nc_stream_shuffle(t, d, back, mask=ix < 3)\n" + rest,
              inputs)
              .verdict == "unsupported/python_feature");
}

TEST_CASE("a read-modify-write adds, duplicates included", "[trainium][api]") {
    CHECK(value(output("(3, 2)") + "nl.store(y, 1.0)\ni = nl.load(x1)\nt = nl.load(x0)\n"
                                   "nl.atomic_rmw(y[i, nl.arange(2)[None, :]], t, op=np.add)\n"
                                   "return y",
                {{{3, 2}, ramp(6)}, {{3, 1}, Numbers{1, 1, 2}, true}}) ==
          Numbers{1, 1, 3, 5, 5, 6});
}

TEST_CASE("a scatter leaves what it does not name unwritten", "[trainium][api]") {
    const Outcome outcome = run(output("(4, 2)") +
                                    "i = nl.load(x1)\n"
                                    "nl.store(y[i, nl.arange(2)[None, :]], nl.load(x0))\nreturn y",
                                {{{2, 2}, ramp(4)}, {{2, 1}, Numbers{3, 0}, true}});
    REQUIRE(outcome.verdict == "ok");
    CHECK(outcome.unwritten == 4);
}

TEST_CASE("an on-chip tile is read at an offset that the data hold", "[trainium][api]") {
    CHECK(value(output("(2, 2)") + "t = nl.load(x0)\ni = nl.load(x1)\n"
                                   "ix, iy = nl.mgrid[0:2, 0:2]\n"
                                   "r = nisa.tensor_copy_dynamic_src(t[ix, i[0, 0] + iy])\n"
                                   "nl.store(y, r)\nreturn y",
                {{{2, 5}, ramp(10)}, {{1, 1}, Numbers{2}, true}}) == Numbers{2, 3, 7, 8});
}

TEST_CASE("gather_flattened takes along the flattened free dims", "[trainium][api]") {
    CHECK(value(output("(2, 3)") + "t = nl.load(x0)\ni = nl.copy(nl.load(x1), dtype=nl.uint32)\n"
                                   "nl.store(y, nl.gather_flattened(t, i))\nreturn y",
                {{{2, 2, 2}, Numbers{1, 2, 3, 4, 5, 6, 7, 8}},
                 {{2, 3}, Numbers{0, 3, 1, 3, 3, 0}, true}}) == Numbers{1, 4, 2, 8, 8, 5});
}

TEST_CASE("batch statistics aggregate to mean and variance", "[trainium][api]") {
    const Numbers x{1, 5, 2, 8, 3, 5};
    const Numbers got = value(output("(1, 2)") +
                                  "t = nl.load(x0)\ns = nl.ndarray((1, 2, 6), "
                                  "dtype=nl.float32)\n"
                                  "s[:, 0, :] = nisa.bn_stats(t[:, 0:3])\n"
                                  "s[:, 1, :] = nisa.bn_stats(t[:, 3:6])\n"
                                  "nl.store(y, nisa.bn_aggr(s))\nreturn y",
                              {{{1, 6}, x}});
    const double mean = std::accumulate(x.begin(), x.end(), 0.0) / 6;
    double variance = 0;
    for (const float v : x) variance += (v - mean) * (v - mean) / 6;
    CHECK(got[0] == Approx(mean));
    CHECK(got[1] == Approx(variance));
}

TEST_CASE("the eight largest are found, located and replaced one after the other",
          "[trainium][api]") {
    const Numbers x{3, 9, 1, 9, 7, 2, 8, 6, 5, 4};
    const std::string top = "t = nl.load(x0)\nm = nisa.max8(src=t)\n";
    CHECK(value(output("(1, 8)") + top + "nl.store(y, m)\nreturn y", {{{1, 10}, x}}) ==
          Numbers{9, 9, 8, 7, 6, 5, 4, 3});
    CHECK(value(output("(1, 8)", "nl.uint32") + top +
                    "nl.store(y, nisa.nc_find_index8(data=t, vals=m))\nreturn y",
                {{{1, 10}, x}}) == Numbers{1, 1, 6, 4, 7, 8, 9, 0});
    CHECK(value(output("(1, 8)", "nl.uint32") + top +
                    "i = nl.ndarray((1, 8), dtype=nl.uint32)\n"
                    "r = nisa.nc_match_replace8(data=t, vals=m, imm=-1.0, dst_idx=i)\n"
                    "nl.store(y, i)\nreturn y",
                {{{1, 10}, x}}) == Numbers{1, 3, 6, 4, 7, 8, 9, 0});
    CHECK(value(output("(1, 10)") + top +
                    "nl.store(y, nisa.nc_match_replace8(data=t, vals=m, imm=-1.0))\nreturn y",
                {{{1, 10}, x}}) == Numbers{-1, -1, 1, -1, -1, 2, -1, -1, -1, -1});
}

TEST_CASE("the registers of an engine accumulate over instructions", "[trainium][api]") {
    const std::string body = output("(2, 1)") +
                             "t = nl.load(x0)\ns = nl.ndarray((2, 1), dtype=nl.float32)\n"
                             "a = nisa.activation(nl.copy, t, reduce_op=nl.add, "
                             "reduce_cmd=nisa.reduce_cmd.reset_reduce)\n"
                             "b = nisa.activation(nl.square, t, reduce_op=nl.add, "
                             "reduce_cmd=nisa.reduce_cmd.reduce, reduce_res=s)\n"
                             "nl.store(y, s)\nreturn y";
    CHECK(value(body, {{{2, 2}, Numbers{1, 2, 3, 4}}}) == Numbers{8, 32});
}

TEST_CASE("activation adds its bias whatever the function", "[trainium][api][N13]") {
    CHECK(value(output("(2, 1)") + "t = nl.load(x0)\nb = nisa.memset((2, 1), 2.0, "
                                   "dtype=nl.float32)\n"
                                   "nl.store(y, nisa.activation(nl.copy, t, bias=b))\nreturn y",
                {{{2, 1}, Numbers{1, 5}}}) == Numbers{3, 7});
}

TEST_CASE("a reshape of the free dims is numpy's", "[trainium][api][N10]") {
    CHECK(value(output("(2, 3)") + "t = nl.load(x0).reshape((2, 2, 3))\n"
                                   "nl.store(y, t[:, 1, :])\nreturn y",
                {{{2, 6}, ramp(12)}}) == Numbers{3, 4, 5, 9, 10, 11});
    CHECK(run(output("(4, 3)") + "t = nl.load(x0).reshape((4, 3))\nnl.store(y, t)\nreturn y",
              {{{2, 6}, ramp(12)}})
              .verdict == "rejected/partition_reshape");
}

TEST_CASE("free dims broadcast like numpy, partitions only by name", "[trainium][api][N11]") {
    const std::vector<Input> inputs{{{2, 2, 2}, ramp(8)}, {{2, 2, 1}, Numbers{1, 10, 100, 1000}}};
    CHECK(value(output("(2, 2, 2)") + "nl.store(y, nl.load(x0) * nl.load(x1))\nreturn y", inputs) ==
          Numbers{0, 1, 20, 30, 400, 500, 6000, 7000});
    CHECK(run(output("(2, 2, 2)") +
                  "nl.store(y, nisa.tensor_tensor(nl.load(x0), nl.load(x1), nl.multiply))\n"
                  "return y",
              {{{2, 2, 2}, ramp(8)}, {{1, 2, 2}, ramp(4)}})
              .verdict == "rejected/num_partition_mismatch");
}

TEST_CASE("an update of SBUF in affine_range is associative, other uses are a dependency",
          "[trainium][api][N12]") {
    const std::string start = output("(2, 2)") + "s = nl.zeros((2, 2), dtype=nl.float32)\n";
    const std::string rest = "nl.store(y, s)\nreturn y";
    const std::vector<Input> inputs{{{2, 2}, ramp(4)}};
    CHECK(run(start + "for i in nl.affine_range(3):\n    s[...] = s + nl.load(x0)\n" + rest, inputs)
              .verdict == "rejected/unexpected_output_dependencies");
    CHECK(value(start + "for i in nl.sequential_range(3):\n    s[...] = s + nl.load(x0)\n" + rest,
                inputs) == Numbers{0, 3, 6, 9});
    CHECK(value(start + "for i in nl.affine_range(3):\n    s += nl.load(x0)\n" + rest, inputs) ==
          Numbers{0, 3, 6, 9});
    CHECK(value(output("(2, 2)") + "p = nl.zeros((2, 2), dtype=nl.float32, buffer=nl.psum)\n"
                                   "for i in nl.affine_range(3):\n    t = nl.load(x0)\n"
                                   "    p += nisa.nc_matmul(t, t)\nnl.store(y, p)\nreturn y",
                inputs) == Numbers{12, 18, 18, 30});
}

TEST_CASE("every program of a grid runs, in order, into the same output", "[trainium][api]") {
    nki::TraceOptions options;
    options.grid = {2, 2};
    const std::string body = output("(4, 2)") +
                             "i = nl.program_id(0) * 2 + nl.program_id(1)\n"
                             "assert nl.num_programs() == 4 and nl.program_ndim() == 2\n"
                             "nl.store(y[nl.ds(i, 1), :], nl.load(x0[nl.ds(i, 1), :]) * 2.0)\n"
                             "return y";
    CHECK(value(body, {{{4, 2}, ramp(8)}}, options) == ramp(8, 0, 2));
    CHECK(run(output("(1, 2)") + "nl.store(y, nl.load(x0))\nreturn y", {{{1, 2}, ramp(2)}}, options)
              .verdict == "rejected/unexpected_output_dependencies");
}

TEST_CASE("a mutable parameter starts with its argument and is an output", "[trainium][api]") {
    const Outcome outcome = run("t = nl.load(x0[0:1, :])\nnl.store(x0[0:1, :], t + 1.0)\nreturn x0",
                                {{{2, 2}, ramp(4)}}, {}, "x0: nt.mutable_tensor");
    REQUIRE(outcome.verdict == "ok");
    CHECK(outcome.outputs[0] == Numbers{1, 2, 2, 3});
    CHECK(outcome.unwritten == 0);
}

TEST_CASE("tiles allocated at one address lose their values to each other", "[trainium][api]") {
    const std::string tiles =
        "t = nl.ndarray((2, nl.par_dim(2), 2), dtype=nl.float32, "
        "buffer=ncc.sbuf.mod_alloc(base_addr=0, num_free_tiles=(COUNT,)))\n"
        "for i in nl.affine_range(2):\n    t[i] = nl.load(x0)\n"
        "for i in nl.affine_range(2):\n    nl.store(y[i], t[i])\nreturn y";
    const auto with = [&](const std::string& count) {
        std::string body = output("(2, 2, 2)") + tiles;
        body.replace(body.find("COUNT"), 5, count);
        return run(body, {{{2, 2}, ramp(4)}}).verdict;
    };
    CHECK(with("2") == "ok");
    CHECK(with("1") == "rejected/sbuf_capacity");
}

TEST_CASE("one seed gives one sequence of random numbers", "[trainium][api]") {
    const std::string body =
        output("(2, 64)") + "nl.random_seed(SEED)\nnl.store(y, nl.rand((2, 64)))\nreturn y";
    const auto draw = [&](const std::string& seed) {
        std::string text = body;
        text.replace(text.find("SEED"), 4, seed);
        return value(text, {{{1, 1}, {0}}});
    };
    const Numbers a = draw("7");
    CHECK(a == draw("7"));
    CHECK(a != draw("8"));
    for (const float v : a) CHECK((v >= 0 && v < 1));
}

TEST_CASE("softmax and rms_norm follow their formulas", "[trainium][api]") {
    const Numbers x{1, 2, 3, -1};
    const Numbers soft = value(output("(1, 4)") +
                                   "nl.store(y, nl.softmax(nl.load(x0), axis=1))\n"
                                   "return y",
                               {{{1, 4}, x}});
    double sum = 0;
    for (const float v : x) sum += std::exp(v - 3.0);
    for (std::size_t k = 0; k < 4; ++k) CHECK(soft[k] == Approx(std::exp(x[k] - 3.0) / sum));
    const Numbers norm = value(output("(1, 4)") +
                                   "nl.store(y, nl.rms_norm(nl.load(x0), nl.load(x1), axis=1, n=4, "
                                   "epsilon=0.5))\nreturn y",
                               {{{1, 4}, x}, {{1, 4}, Numbers{1, 2, 3, 4}}});
    const double root = std::sqrt(15.0 / 4 + 0.5);
    for (std::size_t k = 0; k < 4; ++k)
        CHECK(norm[k] == Approx(x[k] / root * static_cast<double>(k + 1)));
}

TEST_CASE("affine_select may write over what it reads", "[trainium][api]") {
    CHECK(value(output("(2, 3)") + "t = nl.load(x0)\ni, j = nl.mgrid[0:2, 0:3]\n"
                                   "t[...] = nisa.affine_select(pred=i + 1 > j, on_true_tile=t, "
                                   "on_false_value=-5.0)\nnl.store(y, t)\nreturn y",
                {{{2, 3}, ramp(6)}}) == Numbers{0, -5, -5, 3, 4, -5});
}
