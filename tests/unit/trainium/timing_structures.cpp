#include "timing_structures.h"

#include <algorithm>

#include "timing_programs.h"

namespace accelopt::trainium::testing {

using nki::ActFunction;
using nki::AluOp;
using nki::Buffer;
using nki::TensorId;
using nki::View;

namespace {

/// Allocation sites: one per array of a kernel.
enum Site { kX = 1, kY, kZ, kG, kOut, kA, kB, kC, kD, kE, kF, kH, kI, kJ, kK, kL, kM, kN, kO, kP };

}  // namespace

nki::Program silu_structure() {
    ProgramBuilder b;
    const std::int64_t pitch = 32 * 7168;
    const TensorId in = b.input({128, pitch});
    const TensorId out = b.output({128, pitch});
    const TensorId zero = b.tile(128, 1, kA);
    b.add(nki::Opcode::kMemset, b.whole(zero));
    for (int tile = 0; tile < 32 * 7; ++tile) {
        const TensorId x = b.tile(128, 1024, kX);
        const TensorId y = b.tile(128, 1024, kY);
        b.load(b.whole(x), b.window(in, 0, 128, tile * 1024, 1024));
        for (int half = 0; half < 2; ++half) {
            const View part = b.window(x, 0, 128, half * 512, 512);
            const TensorId exp = b.tile(128, 512, kB);
            const TensorId sum = b.tile(128, 512, kC);
            const TensorId inverse = b.tile(128, 512, kD);
            nki::Operation& op = b.activation(b.whole(exp), ActFunction::kExp, part);
            op.scale.immediate = -1.0;
            op.bias.vector = true;
            op.bias.view = b.whole(zero);
            b.scalar(b.whole(sum), AluOp::kAdd, b.whole(exp), 1.0);
            b.add(nki::Opcode::kReciprocal, b.whole(inverse), {b.whole(sum)});
            b.tensor_tensor(b.window(y, 0, 128, half * 512, 512), AluOp::kMultiply, part,
                            b.whole(inverse));
        }
        b.store(b.window(out, 0, 128, tile * 1024, 1024), b.whole(y));
    }
    return b.program;
}

namespace {

/// One 128 x 512 piece of the optimiser step; its operands are tiles loaded before.
void adamw_piece(ProgramBuilder& b, const View& theta, const View& m, const View& v, const View& g,
                 TensorId zero, const View& out, const nki::MaskTerm& mask) {
    const std::size_t first = b.program.operations.size();
    auto temporary = [&](int site) { return b.whole(b.tile(128, 512, site)); };
    auto scaled = [&](int site, const View& x, double factor) {
        const View t = temporary(site);
        b.scalar(t, AluOp::kMultiply, x, factor);
        return t;
    };
    auto combined = [&](int site, AluOp op, const View& x, const View& y) {
        const View t = temporary(site);
        b.tensor_tensor(t, op, x, y);
        return t;
    };
    const View decay = scaled(kA, theta, 1e-5);
    const View kept = combined(kB, AluOp::kSubtract, theta, decay);
    const View m9 = scaled(kC, m, 0.9);
    const View g1 = scaled(kD, g, 0.1);
    const View step = scaled(kF, combined(kE, AluOp::kAdd, m9, g1), 0.01);
    const View v9 = scaled(kH, v, 0.999);
    const View gg = combined(kJ, AluOp::kMultiply, scaled(kI, g, 0.001), g);
    const View second = combined(kK, AluOp::kAdd, v9, gg);
    const View root = temporary(kL);
    nki::Operation& sqrt = b.activation(root, ActFunction::kSqrt, second);
    sqrt.scale.immediate = 1000.0;
    sqrt.bias.vector = true;
    sqrt.bias.view = b.whole(zero);
    const View shifted = temporary(kM);
    b.scalar(shifted, AluOp::kAdd, root, 1e-8);
    const View inverse = temporary(kN);
    b.add(nki::Opcode::kReciprocal, inverse, {shifted});
    b.tensor_tensor(out, AluOp::kSubtract, kept, combined(kO, AluOp::kMultiply, step, inverse));
    for (std::size_t k = first; k < b.program.operations.size(); ++k)
        b.program.operations[k].mask = {mask};
}

}  // namespace

nki::Program adamw_structure() {
    ProgramBuilder b;
    const std::int64_t rows = 10944;
    const TensorId inputs[4] = {b.input({rows, 2048}), b.input({rows, 2048}), b.input({rows, 2048}),
                                b.input({rows, 2048})};
    const TensorId out = b.output({rows, 2048});
    const TensorId zero = b.tile(128, 1, kP);
    b.add(nki::Opcode::kMemset, b.whole(zero));
    for (std::int64_t i0 = 0; i0 < 86; ++i0) {
        const nki::MaskTerm mask = rows_below(128 * i0, rows);
        for (std::int64_t i1 = 0; i1 < 2; ++i1) {
            TensorId loaded[4];
            for (int a : {0, 1, 2, 3}) {
                loaded[a] = b.tile(128, 1024, kX + a);
                b.load(b.whole(loaded[a]), b.window(inputs[a], 128 * i0, 128, 1024 * i1, 1024))
                    .mask = {mask};
            }
            const TensorId result = b.tile(128, 1024, kOut);
            for (std::int64_t i2 = 0; i2 < 2; ++i2) {
                auto part = [&](TensorId t) { return b.window(t, 0, 128, 512 * i2, 512); };
                adamw_piece(b, part(loaded[0]), part(loaded[1]), part(loaded[2]), part(loaded[3]),
                            zero, part(result), mask);
            }
            b.store(b.window(out, 128 * i0, 128, 1024 * i1, 1024), b.whole(result)).mask = {mask};
        }
    }
    return b.program;
}

nki::Program rope_structure() {
    ProgramBuilder b;
    const std::int64_t length = 262144;
    const TensorId x = b.input({128, length});
    const TensorId cosine = b.input({64, length});
    const TensorId sine = b.input({64, length});
    const TensorId out = b.output({128, length});
    for (std::int64_t s = 0; s < length; s += 512) {
        const TensorId xt = b.tile(128, 512, kX);
        b.load(b.whole(xt), b.window(x, 0, 128, s, 512));
        const TensorId c = b.tile(64, 512, kA);
        const TensorId si = b.tile(64, 512, kB);
        b.load(b.whole(c), b.window(cosine, 0, 64, s, 512));
        b.load(b.whole(si), b.window(sine, 0, 64, s, 512));
        const TensorId result = b.tile(128, 512, kOut);
        const View even = b.window(xt, 0, 64, 0, 512);
        const TensorId odd = b.tile(64, 512, kC);
        b.copy(b.whole(odd), b.window(xt, 64, 64, 0, 512));
        auto times = [&](int site, const View& p, TensorId q) {
            const TensorId t = b.tile(64, 512, site);
            b.tensor_tensor(b.whole(t), AluOp::kMultiply, p, b.whole(q));
            return b.whole(t);
        };
        const View even_cos = times(kD, even, c);
        const View odd_cos = times(kE, b.whole(odd), c);
        const View even_sin = times(kF, even, si);
        const View odd_sin = times(kG, b.whole(odd), si);
        b.tensor_tensor(b.window(result, 0, 64, 0, 512), AluOp::kSubtract, even_cos, odd_sin);
        b.tensor_tensor(b.window(result, 64, 64, 0, 512), AluOp::kAdd, odd_cos, even_sin);
        b.store(b.window(out, 0, 128, s, 512), b.whole(result));
    }
    return b.program;
}

namespace {

/// Normalises 128 rows of x and leaves their transposes in `transposed` (8 tiles of 128 x 128).
void rmsnorm_rows(ProgramBuilder& b, TensorId in, std::int64_t row, TensorId zero,
                  TensorId identity, TensorId (&transposed)[8]) {
    const TensorId x = b.tile(128, 1024, kX);
    const TensorId total = b.tile(128, 1, kA);
    const TensorId inverse = b.tile(128, 1, kB);
    b.load(b.whole(x), b.window(in, row, 128, 0, 1024));
    for (int half = 0; half < 2; ++half) {
        const TensorId square = b.tile(128, 512, kC);
        const TensorId scaled = b.tile(128, 512, kD);
        const TensorId sum = b.tile(128, 1, kE);
        nki::Operation& op = b.activation(b.whole(square), ActFunction::kSquare,
                                          b.window(x, 0, 128, half * 512, 512));
        op.bias.vector = true;
        op.bias.view = b.whole(zero);
        b.scalar(b.whole(scaled), AluOp::kMultiply, b.whole(square), 1.0 / 1024);
        b.reduce(b.whole(sum), AluOp::kAdd, b.whole(scaled));
        if (half == 0) {
            b.copy(b.whole(total), b.whole(sum));
        } else {
            b.tensor_tensor(b.whole(total), AluOp::kAdd, b.whole(total), b.whole(sum));
        }
    }
    b.activation(b.whole(inverse), ActFunction::kRsqrt, b.whole(total));
    const TensorId again = b.tile(128, 1024, kY);
    b.load(b.whole(again), b.window(in, row, 128, 0, 1024));
    for (int half = 0; half < 2; ++half) {
        const TensorId normal = b.tile(128, 512, kF);
        b.scalar(b.whole(normal), AluOp::kMultiply, b.window(again, 0, 128, half * 512, 512),
                 b.whole(inverse));
        for (int k = 0; k < 4; ++k) {
            const TensorId psum = b.psum(128, 128, kG);
            const TensorId t = b.tile(128, 128, kH);
            nki::Operation& op =
                b.transpose(b.whole(psum), b.window(normal, 0, 128, 128 * k, 128), false);
            op.src[op.sources++] = b.whole(identity);
            op.moving_onezero = true;
            b.copy(b.whole(t), b.whole(psum));
            transposed[half * 4 + k] = t;
        }
    }
}

}  // namespace

nki::Program rmsnorm_matmul_structure() {
    ProgramBuilder b;
    const TensorId in = b.input({4096, 1024});
    const TensorId weight = b.input({1024, 2048});
    const TensorId constant = b.hbm({128, 128}, nki::TensorRole::kConstant);
    const TensorId out = b.output({4096, 2048});
    const TensorId zero = b.tile(128, 1, kZ);
    b.add(nki::Opcode::kMemset, b.whole(zero));
    const TensorId identity = b.tile(128, 128, kO);
    b.load(b.whole(identity), b.whole(constant));
    for (std::int64_t i0 = 0; i0 < 4; ++i0) {
        TensorId transposed[8][8];
        for (std::int64_t i1 = 0; i1 < 8; ++i1)
            rmsnorm_rows(b, in, (8 * i0 + i1) * 128, zero, identity, transposed[i1]);
        for (std::int64_t i5 = 0; i5 < 2; ++i5) {
            TensorId w[8];
            for (std::int64_t k = 0; k < 8; ++k) {
                w[k] = b.tile(128, 1024, kI);
                b.load(b.whole(w[k]), b.window(weight, 128 * k, 128, 1024 * i5, 1024));
            }
            for (std::int64_t i8 = 0; i8 < 8; ++i8) {
                const TensorId result = b.tile(128, 1024, kOut);
                for (std::int64_t i9 = 0; i9 < 2; ++i9) {
                    const TensorId psum = b.psum(128, 512, kJ);
                    for (int k = 0; k < 8; ++k)
                        b.matmul(b.whole(psum), b.whole(transposed[i8][k]),
                                 b.window(w[k], 0, 128, 512 * i9, 512), true);
                    b.copy(b.window(result, 0, 128, 512 * i9, 512), b.whole(psum));
                }
                b.store(b.window(out, 128 * (i8 + 8 * i0), 128, 1024 * i5, 1024), b.whole(result));
            }
        }
    }
    return b.program;
}

nki::Program add_rmsnorm_matmul_structure() {
    ProgramBuilder b;
    const TensorId x = b.input({4096, 1024});
    const TensorId w = b.input({1024, 2048});
    const TensorId z = b.input({4096, 1024});
    const TensorId g = b.input({1, 1024});
    const TensorId out = b.output({4096, 2048});
    const TensorId gain = b.tile(1, 1024, kG);
    b.load(b.whole(gain), b.whole(g));
    for (std::int64_t row = 0; row < 4096; row += 128) {
        const TensorId xt = b.tile(128, 1024, kX);
        const TensorId zt = b.tile(128, 1024, kZ);
        b.load(b.whole(xt), b.window(x, row, 128, 0, 1024));
        b.load(b.whole(zt), b.window(z, row, 128, 0, 1024));
        const TensorId sum = b.tile(128, 1024, kA);
        b.tensor_tensor(b.whole(sum), AluOp::kAdd, b.whole(xt), b.whole(zt));
        const TensorId square = b.tile(128, 1024, kB);
        b.activation(b.whole(square), ActFunction::kSquare, b.whole(sum));
        const TensorId total = b.tile(128, 1, kC);
        b.reduce(b.whole(total), AluOp::kAdd, b.whole(square));
        const TensorId mean = b.tile(128, 1, kD);
        b.scalar(b.whole(mean), AluOp::kDivide, b.whole(total), 1024);
        const TensorId shifted = b.tile(128, 1, kE);
        b.scalar(b.whole(shifted), AluOp::kAdd, b.whole(mean), 1e-5);
        const TensorId inverse = b.tile(128, 1, kF);
        b.activation(b.whole(inverse), ActFunction::kRsqrt, b.whole(shifted));
        const TensorId normal = b.tile(128, 1024, kH);
        b.scalar(b.whole(normal), AluOp::kMultiply, b.whole(sum), b.whole(inverse));
        const TensorId spread = b.tile(128, 1024, kI);
        b.add(nki::Opcode::kPartitionBroadcast, b.whole(spread), {b.whole(gain)});
        b.tensor_tensor(b.whole(normal), AluOp::kMultiply, b.whole(normal), b.whole(spread));
        for (std::int64_t column = 0; column < 2048; column += 512) {
            const TensorId psum = b.psum(128, 512, kJ);
            nki::Operation& clear = b.add(nki::Opcode::kMemset, b.whole(psum));
            clear.implicit = true;
            for (std::int64_t k = 0; k < 8; ++k) {
                const TensorId wt = b.tile(128, 512, kK);
                b.load(b.whole(wt), b.window(w, 128 * k, 128, column, 512));
                const TensorId turned = b.psum(128, 128, kL);
                b.transpose(b.whole(turned), b.window(normal, 0, 128, 128 * k, 128), true);
                const TensorId stationary = b.tile(128, 128, kM);
                b.copy(b.whole(stationary), b.whole(turned)).implicit = true;
                b.matmul(b.whole(psum), b.whole(stationary), b.whole(wt), true);
            }
            const TensorId result = b.tile(128, 512, kOut);
            b.copy(b.whole(result), b.whole(psum));
            b.store(b.window(out, row, 128, column, 512), b.whole(result));
        }
    }
    return b.program;
}

}  // namespace accelopt::trainium::testing
