#include <catch2/catch.hpp>
#include <map>

#include "eval/evaluator.h"
#include "eval/problem.h"

using namespace accelopt;
using protocol::EvaluationReply;
using protocol::EvaluationRequest;
using protocol::Outcome;

namespace {

/// One wrong edit of a baseline: `from`, which must stand in it exactly once, becomes `to`.
struct Edit {
    const char* problem;
    const char* mistake;
    const char* from;
    const char* to;
};

const Edit kEdits[] = {
    // silu
    {"silu", "wrong sign in the exponent", "scale=-1.0", "scale=1.0"},
    {"silu", "scale off by 0.1 %", "scale=-1.0", "scale=-1.001"},
    {"silu", "denominator 2 + exp", "operand0=1.0", "operand0=2.0"},
    {"silu", "denominator off by 1e-4", "operand0=1.0", "operand0=1.0001"},
    {"silu", "subtract instead of add", "op0=nl.add", "op0=nl.subtract"},
    {"silu", "another function", "op=nl.exp", "op=nl.tanh"},
    {"silu", "missing + 1", "nisa.reciprocal(data=denominator)", "nisa.reciprocal(data=decay)"},
    {"silu", "add instead of multiply", "nl.multiply(x_tile", "nl.add(x_tile"},
    {"silu", "missing reciprocal", "x_tile[lane, cut], sigmoid", "x_tile[lane, cut], denominator"},
    {"silu", "last row dropped", "nl.affine_range(rows)", "nl.affine_range(rows - 1)"},
    {"silu", "last block dropped", "columns // block)", "columns // block - 1)"},
    {"silu", "half a block not computed", "block // width)", "block // width - 1)"},
    {"silu", "first block loaded every time", "nl.load(x[lane, row, block * b + wide]",
     "nl.load(x[lane, row, wide]"},
    {"silu", "always stored to the first block", "nl.store(y[lane, row, block * b + wide]",
     "nl.store(y[lane, row, wide]"},
    {"silu", "exp of the first part only", "data=x_tile[lane, cut], bias",
     "data=x_tile[lane, narrow], bias"},
    {"silu", "input stored", "value=y_tile", "value=x_tile"},
    {"silu", "first row loaded every time", "nl.load(x[lane, row,", "nl.load(x[lane, 0,"},
    // adamw
    {"adamw", "decay too large", "operand0=1e-5", "operand0=1e-3"},
    {"adamw", "wrong first beta", "operand0=0.9,", "operand0=0.8,"},
    {"adamw", "wrong gradient weight", "operand0=0.1,", "operand0=0.2,"},
    {"adamw", "wrong step size", "operand0=0.01,", "operand0=0.011,"},
    {"adamw", "wrong second beta", "operand0=0.999,", "operand0=0.9,"},
    {"adamw", "wrong bias correction", "scale=1000.0", "scale=100.0"},
    {"adamw", "square instead of root", "op=nl.sqrt", "op=nl.square"},
    {"adamw", "add instead of multiply", "change = nl.multiply", "change = nl.add"},
    {"adamw", "wrong direction", "nl.subtract(decayed, change", "nl.add(decayed, change"},
    {"adamw", "gradient missing", "data=first, op0", "data=m_part, op0"},
    {"adamw", "first moment read from g", "nl.load(m[row", "nl.load(g[row"},
    {"adamw", "second moment read from m", "nl.load(v[row", "nl.load(m[row"},
    {"adamw", "every tile reads the first rows", "row = lanes * t + lane", "row = lane"},
    {"adamw", "ragged tile dropped", "(rows + lanes - 1) // lanes", "rows // lanes"},
    {"adamw", "last row masked out", "live = row < rows", "live = row < rows - 1"},
    {"adamw", "one row too many", "live = row < rows", "live = row <= rows"},
    {"adamw", "half a block not computed", "block // width)", "block // width - 1)"},
    {"adamw", "old weights stored", "value=new_tile", "value=theta_tile"},
    {"adamw", "parts overwrite each other", "cut = width * part + narrow", "cut = narrow"},
    {"adamw", "first block every time", "col = block * b + wide", "col = wide"},
    {"adamw", "v added twice", "second = nl.add(v_part, g_square",
     "second = nl.add(v_part, v_part"},
    {"adamw", "no root", "shifted = nisa.tensor_scalar(data=root",
     "shifted = nisa.tensor_scalar(data=second"},
    // rope_single_freq_apply
    {"rope_single_freq_apply", "wrong sign in the first half", "a_cos, b_sin, nl.subtract",
     "a_cos, b_sin, nl.add"},
    {"rope_single_freq_apply", "wrong sign in the second half", "b_cos, a_sin, nl.add",
     "b_cos, a_sin, nl.subtract"},
    {"rope_single_freq_apply", "wrong term in the first half", "(a_cos, b_sin,", "(a_cos, a_sin,"},
    {"rope_single_freq_apply", "wrong term in the second half", "(b_cos, a_sin,", "(b_cos, b_sin,"},
    {"rope_single_freq_apply", "sine read from cos", "nl.load(sin[", "nl.load(cos["},
    {"rope_single_freq_apply", "cosine read from sin", "nl.load(cos[", "nl.load(sin["},
    {"rope_single_freq_apply", "cosine for sine", "nisa.tensor_tensor(a, sin_tile",
     "nisa.tensor_tensor(a, cos_tile"},
    {"rope_single_freq_apply", "upper half twice", "nl.copy(x_tile[lower, col])",
     "nl.copy(x_tile[upper, col])"},
    {"rope_single_freq_apply", "x always from the start", "nl.load(x[lane, start + col]",
     "nl.load(x[lane, col]"},
    {"rope_single_freq_apply", "cos always from the start", "nl.load(cos[upper, start + col]",
     "nl.load(cos[upper, col]"},
    {"rope_single_freq_apply", "stored to the start", "rotated[lane, start + col]",
     "rotated[lane, col]"},
    {"rope_single_freq_apply", "last tile dropped", "range(0, positions, width)",
     "range(0, positions - width, width)"},
    {"rope_single_freq_apply", "every second tile", "range(0, positions, width)",
     "range(0, positions, 2 * width)"},
    {"rope_single_freq_apply", "first tile dropped", "range(0, positions, width)",
     "range(width, positions, width)"},
    {"rope_single_freq_apply", "second half not written",
     "out_tile[lower, col] =", "out_tile[upper, col] ="},
    {"rope_single_freq_apply", "add instead of multiply",
     "b_cos = nisa.tensor_tensor(b, cos_tile, nl.multiply)",
     "b_cos = nisa.tensor_tensor(b, cos_tile, nl.add)"},
    {"rope_single_freq_apply", "input stored", "value=out_tile", "value=x_tile"},
    // rmsnorm_matmul
    {"rmsnorm_matmul", "mean over the wrong count", "operand0=1.0 / hidden",
     "operand0=1.0 / width"},
    {"rmsnorm_matmul", "root instead of its inverse", "op=nl.rsqrt", "op=nl.sqrt"},
    {"rmsnorm_matmul", "another function", "op=nl.square", "op=nl.exp"},
    {"rmsnorm_matmul", "half of the squares missing", "hidden // width):\n                squared",
     "hidden // width - 1):\n                squared"},
    {"rmsnorm_matmul", "half of the row not transposed",
     "hidden // width):\n                scaled", "hidden // width - 1):\n                scaled"},
    {"rmsnorm_matmul", "maximum instead of sum", "nisa.tensor_reduce(nl.add",
     "nisa.tensor_reduce(nl.max"},
    {"rmsnorm_matmul", "norms of the first group", "x_tile = nl.load(x[group * i + r",
     "x_tile = nl.load(x[r"},
    {"rmsnorm_matmul", "one row tile for the whole group", "x_again = nl.load(x[group * i + r",
     "x_again = nl.load(x[group * i"},
    {"rmsnorm_matmul", "transposes overwrite each other", "xt[r, per_width * h + k", "xt[r, k"},
    {"rmsnorm_matmul", "one contraction tile for all", "xt[r, k, lane, square], w_slab",
     "xt[r, 0, lane, square], w_slab"},
    {"rmsnorm_matmul", "first half of the slab twice", "w_slab[k, lane, width * n + narrow]",
     "w_slab[k, lane, narrow]"},
    {"rmsnorm_matmul", "first slab every time", "nl.load(w[k, lane, slab * s + wide]",
     "nl.load(w[k, lane, wide]"},
    {"rmsnorm_matmul", "last contraction tile dropped", "k_tiles):\n                        total",
     "k_tiles - 1):\n                        total"},
    {"rmsnorm_matmul", "stored to the first slab", "y[group * i + r, lane, slab * s + wide]",
     "y[group * i + r, lane, wide]"},
    {"rmsnorm_matmul", "last slab dropped", "columns // slab)", "columns // slab - 1)"},
    {"rmsnorm_matmul", "last group dropped", "row_tiles // group)", "row_tiles // group - 1)"},
    {"rmsnorm_matmul", "scaled by the mean square", "operand0=inverse_rms", "operand0=mean_square"},
    {"rmsnorm_matmul", "not transposed back in order", "scaled[lane, lanes * k + square]",
     "scaled[lane, square]"},
    {"rmsnorm_matmul", "factor two in the root", "data=mean_square, bias=zero, scale=1.0",
     "data=mean_square, bias=zero, scale=2.0"},
    // add_rmsnorm_matmul
    {"add_rmsnorm_matmul", "difference instead of sum", "nl.add(x_tile, z_tile)",
     "nl.subtract(x_tile, z_tile)"},
    {"add_rmsnorm_matmul", "residual missing", "nl.add(x_tile, z_tile)", "nl.add(x_tile, x_tile)"},
    {"add_rmsnorm_matmul", "mean over the wrong count", "square_sum / hidden",
     "square_sum / width"},
    {"add_rmsnorm_matmul", "epsilon far too large", "hidden, eps)", "hidden, 0.01)"},
    {"add_rmsnorm_matmul", "root instead of its inverse", "nl.rsqrt(", "nl.sqrt("},
    {"add_rmsnorm_matmul", "x normalised alone", "nl.multiply(total, inverse_rms)",
     "nl.multiply(x_tile, inverse_rms)"},
    {"add_rmsnorm_matmul", "gain added", "nl.multiply(normalised, gain", "nl.add(normalised, gain"},
    {"add_rmsnorm_matmul", "gain missing", "scaled[:, lanes * k", "normalised[:, lanes * k"},
    {"add_rmsnorm_matmul", "last columns dropped", "columns // width)", "columns // width - 1)"},
    {"add_rmsnorm_matmul", "last contraction tile dropped",
     "hidden // lanes):", "hidden // lanes - 1):"},
    {"add_rmsnorm_matmul", "last rows dropped", "rows // lanes):", "rows // lanes - 1):"},
    {"add_rmsnorm_matmul", "first columns of w every time", "width * n:width * (n + 1)", "0:width"},
    {"add_rmsnorm_matmul", "first rows of w every time", "w[lanes * k:lanes * (k + 1)",
     "w[0:lanes"},
    {"add_rmsnorm_matmul", "first rows of x every time", "nl.load(x[lanes * i + lane",
     "nl.load(x[lane"},
    {"add_rmsnorm_matmul", "first rows of z every time", "nl.load(z[lanes * i + lane",
     "nl.load(z[lane"},
    {"add_rmsnorm_matmul", "stored to the first rows", "y[lanes * i + lane", "y[lane"},
    {"add_rmsnorm_matmul", "maximum instead of sum", "nl.sum(", "nl.max("},
    {"add_rmsnorm_matmul", "squares of x alone", "nl.square(total)", "nl.square(x_tile)"},
};

std::string apply(std::string source, const Edit& edit) {
    const std::string from = edit.from;
    const std::size_t at = source.find(from);
    REQUIRE(at != std::string::npos);
    REQUIRE(source.find(from, at + 1) == std::string::npos);
    return source.replace(at, from.size(), edit.to);
}

}  // namespace

TEST_CASE("no single-edit wrong version of a baseline is verified") {
    eval::Evaluator evaluator({});
    std::map<std::string, int> refused;
    for (const Edit& edit : kEdits) {
        INFO(edit.problem << ": " << edit.mistake);
        EvaluationRequest request;
        request.problem = edit.problem;
        request.shape = "test";
        request.secret = "wrong kernels";
        request.seeds = {0, 1};
        request.source = apply(eval::load_problem(edit.problem, "test").baseline_source, edit);
        const EvaluationReply reply = evaluator.evaluate(request);
        INFO(to_json(reply));
        CHECK_FALSE(reply.verified());
        // Refused for what the kernel does, not for a failure on the way.
        const bool about_the_kernel =
            reply.outcome == Outcome::kIncorrect || reply.outcome == Outcome::kRejected;
        CHECK(about_the_kernel);
        refused[edit.problem] += about_the_kernel ? 1 : 0;
    }
    CHECK(refused.size() >= 5);
    for (const auto& [id, count] : refused) {
        INFO(id);
        CHECK(count >= 15);
    }
}
