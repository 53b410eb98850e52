#!/usr/bin/python3
"""Random small kernels against numpy: shapes, strides, masks, loops, elementwise operations,
reductions, transposes and products. Every kernel is written beside the numpy expression of the same
mathematics in float64 and evaluated through accelopt-eval like any other kernel.
Usage: differential_test.py [KERNELS] [SEED]"""
import json
import pathlib
import random
import subprocess
import sys

from harness import BUILD, Workspace, check

HEADER = """import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel({arguments}):
"""

UNARY = {  # name -> numpy text; arguments are kept in a range where float32 is well conditioned
    "nl.exp": "np.exp({0})", "nl.tanh": "np.tanh({0})", "nl.square": "np.square({0})",
    "nl.negative": "-({0})", "nl.abs": "np.abs({0})", "nl.sigmoid": "1 / (1 + np.exp(-({0})))",
    "nl.relu": "np.maximum({0}, 0)", "nl.silu": "({0}) / (1 + np.exp(-({0})))",
    "nl.sin": "np.sin({0})", "nl.cos": "np.cos({0})",
}
BINARY = {"add": "({0}) + ({1})", "subtract": "({0}) - ({1})", "multiply": "({0}) * ({1})",
          "maximum": "np.maximum({0}, {1})", "minimum": "np.minimum({0}, {1})"}
ACTIVATIONS = ["exp", "tanh", "square", "sigmoid", "silu", "relu", "copy"]


class Tile:
    """A kernel variable and the numpy variable of the same value."""

    def __init__(self, name, rows, columns):
        self.name, self.rows, self.columns = name, rows, columns


class Writer:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.kernel, self.numpy = [], []
        self.inputs = []  # (name, rows, columns)
        self.count = 0
        self.features = set()

    def fresh(self, rows, columns, kernel, numpy, feature):
        name = f"t{self.count}"
        self.count += 1
        self.features.add(feature)
        self.kernel.append(kernel.format(name=name))
        self.numpy.append(f"{name} = {numpy}")
        return Tile(name, rows, columns)

    def add_input(self, rows, columns):
        name = f"x{len(self.inputs)}"
        self.inputs.append((name, rows, columns))
        return name

    def index(self, rows, columns):
        return f"nl.arange({rows})[:, None]", f"nl.arange({columns})[None, :]"

    def load(self, rows, columns):
        r = self.random
        p, f = self.index(rows, columns)
        kind = r.choice(["full", "strided", "reversed", "slices", "masked", "loop"])
        if kind == "full":
            x = self.add_input(rows, columns)
            return self.fresh(rows, columns, f"{{name}} = nl.load({x}[{p}, {f}])", x, kind)
        if kind in ("strided", "slices"):
            step, offset = r.randint(1, 4), r.randint(0, 5)
            x = self.add_input(rows + 3, offset + step * columns)
            end = offset + step * (columns - 1) + 1
            numpy = f"{x}[2:{rows + 2}, {offset}:{end}:{step}]"
            if kind == "slices":
                return self.fresh(rows, columns, f"{{name}} = nl.load({numpy})", numpy, kind)
            return self.fresh(rows, columns,
                              f"{{name}} = nl.load({x}[{p} + 2, {step} * {f} + {offset}])",
                              numpy, kind)
        if kind == "reversed":
            x = self.add_input(rows, columns)
            return self.fresh(rows, columns, f"{{name}} = nl.load({x}[{rows - 1} - {p}, {f}])",
                              f"{x}[::-1, :]", kind)
        if kind == "masked":
            x = self.add_input(rows, columns)
            rows_in, columns_in = r.randint(1, rows), r.randint(1, columns)
            low = r.randint(0, columns_in - 1)
            mask = f"({p} < {rows_in}) & ({f} < {columns_in}) & ({f} >= {low})"
            kernel = (f"{{name}} = nl.zeros(({rows}, {columns}), dtype=nl.float32, buffer=nl.sbuf)\n"
                      f"    {{name}}[{p}, {f}] = nl.load({x}[{p}, {f}], mask={mask})")
            numpy = (f"np.where((np.arange({rows})[:, None] < {rows_in})"
                     f" & (np.arange({columns})[None, :] < {columns_in})"
                     f" & (np.arange({columns})[None, :] >= {low}), {x}, 0)")
            return self.fresh(rows, columns, kernel, numpy, kind)
        trips = r.randint(1, 4)
        width = max(1, columns // trips)
        trips = -(-columns // width)
        x = self.add_input(rows, columns)
        _, w = self.index(rows, width)
        kernel = (f"{{name}} = nl.ndarray(({rows}, {columns}), dtype=nl.float32, buffer=nl.sbuf)\n"
                  f"    for i in nl.affine_range({trips}):\n"
                  f"        at = {width} * i + {w}\n"
                  f"        {{name}}[{p}, at] = nl.load({x}[{p}, at], mask=at < {columns})")
        return self.fresh(rows, columns, kernel, x, kind)

    def operation(self, tiles):
        r = self.random
        a = r.choice(tiles)
        kind = r.choice(["unary", "binary", "vector", "scalar", "tensor_scalar", "activation",
                         "reduce", "masked_op", "transpose", "matmul", "reciprocal", "slice",
                         "operator", "accumulate"])
        rows, columns = a.rows, a.columns
        p, f = self.index(rows, columns)
        number = f"{r.uniform(-1.5, 1.5):.3f}"
        if kind == "unary":
            name = r.choice(list(UNARY))
            return self.fresh(rows, columns, f"{{name}} = {name}({a.name})",
                              UNARY[name].format(a.name), name)
        same = [t for t in tiles if (t.rows, t.columns) == (rows, columns)]
        b = r.choice(same)
        if kind == "binary":
            name = r.choice(list(BINARY))
            return self.fresh(rows, columns, f"{{name}} = nl.{name}({a.name}, {b.name})",
                              BINARY[name].format(a.name, b.name), name)
        if kind == "operator":
            symbol = r.choice(["+", "-", "*"])
            return self.fresh(rows, columns, f"{{name}} = {a.name} {symbol} {b.name}",
                              f"{a.name} {symbol} {b.name}", kind)
        if kind == "vector":
            column = r.randrange(columns)
            name = r.choice(["add", "multiply", "subtract", "maximum"])
            return self.fresh(
                rows, columns,
                f"{{name}} = nl.{name}({a.name}, {b.name}[:, {column}:{column + 1}])",
                BINARY[name].format(a.name, f"{b.name}[:, {column}:{column + 1}]"), kind)
        if kind == "scalar":
            name = r.choice(["add", "multiply", "subtract", "maximum", "minimum"])
            return self.fresh(rows, columns, f"{{name}} = nl.{name}({a.name}, {number})",
                              BINARY[name].format(a.name, number), kind)
        if kind == "tensor_scalar":
            first, second = r.choice(["add", "multiply", "subtract"]), r.choice(list(BINARY))
            reverse0, reverse1 = r.random() < 0.4, r.random() < 0.4
            other = f"{r.uniform(-1.5, 1.5):.3f}"
            inner = BINARY[first].format(*((number, a.name) if reverse0 else (a.name, number)))
            outer = BINARY[second].format(*((other, inner) if reverse1 else (inner, other)))
            return self.fresh(
                rows, columns,
                f"{{name}} = nisa.tensor_scalar(data={a.name}, op0=nl.{first}, operand0={number}, "
                f"reverse0={reverse0}, op1=nl.{second}, operand1={other}, reverse1={reverse1})",
                outer, kind)
        if kind == "activation":
            name = r.choice(ACTIVATIONS)
            column = r.randrange(columns)
            bias = f"{b.name}[:, {column}:{column + 1}]"
            use_bias = name != "copy" and r.random() < 0.6
            argument = f"{number} * {a.name}" + (f" + {bias}" if use_bias else "")
            numpy = argument if name == "copy" else UNARY["nl." + name].format(argument)
            extra = f", bias={bias}" if use_bias else ""
            return self.fresh(
                rows, columns,
                f"{{name}} = nisa.activation(op=nl.{name}, data={a.name}{extra}, scale={number})",
                numpy, kind)
        if kind == "reduce":
            name, numpy = r.choice([("add", "sum"), ("maximum", "max"), ("minimum", "min")])
            if r.random() < 0.5:
                short = {"add": "sum", "maximum": "max", "minimum": "min"}[name]
                kernel = f"nl.{short}({a.name}, axis=[1], keepdims=True)"
            else:
                kernel = f"nisa.tensor_reduce(nl.{name}, data={a.name}, axis=[1], keepdims=True)"
            scale = 1.0 / columns
            reduced = self.fresh(rows, 1, f"{{name}} = {kernel}",
                                 f"np.{numpy}({a.name}, axis=1, keepdims=True)", name)
            small = self.fresh(rows, 1, f"{{name}} = nl.multiply({reduced.name}, {scale!r})",
                               f"{reduced.name} * {scale!r}", kind)
            return self.fresh(rows, columns, f"{{name}} = nl.add({a.name}, {small.name})",
                              f"{a.name} + {small.name}", kind)
        if kind == "masked_op":
            rows_in, columns_in = r.randint(1, rows), r.randint(1, columns)
            mask = f"({p} < {rows_in}) & ({f} <= {columns_in - 1})"
            kernel = (f"{{name}} = nl.full(({rows}, {columns}), {number}, dtype=nl.float32, "
                      f"buffer=nl.sbuf)\n"
                      f"    {{name}}[{p}, {f}] = nl.multiply({a.name}[{p}, {f}], "
                      f"{b.name}[{p}, {f}], mask={mask})")
            numpy = (f"np.where((np.arange({rows})[:, None] < {rows_in})"
                     f" & (np.arange({columns})[None, :] < {columns_in}),"
                     f" {a.name} * {b.name}, {number})")
            return self.fresh(rows, columns, kernel, numpy, kind)
        if kind == "transpose" and columns <= 128:
            return self.fresh(columns, rows,
                              f"{{name}} = nl.copy(nisa.nc_transpose({a.name}))", f"{a.name}.T",
                              kind)
        if kind in ("matmul", "accumulate"):
            m = r.randint(1, min(128, columns))
            n = r.randint(1, min(512, columns))
            scale = 1.0 / rows
            if kind == "matmul":
                kernel = f"nisa.nc_matmul({a.name}[:, 0:{m}], {b.name}[:, 0:{n}])"
                product = self.fresh(m, n, f"{{name}} = nl.multiply({kernel}, {scale!r})",
                                     f"{a.name}[:, :{m}].T @ {b.name}[:, :{n}] * {scale!r}", kind)
                return product
            kernel = (f"{{name}}_sum = nl.zeros(({m}, {n}), dtype=nl.float32, buffer=nl.psum)\n"
                      f"    for k in nl.affine_range(2):\n"
                      f"        {{name}}_sum += nisa.nc_matmul({a.name}[:, 0:{m}], "
                      f"{b.name}[:, 0:{n}])\n"
                      f"    {{name}} = nl.multiply({{name}}_sum, {scale!r})")
            return self.fresh(m, n, kernel,
                              f"2 * ({a.name}[:, :{m}].T @ {b.name}[:, :{n}]) * {scale!r}", kind)
        if kind == "reciprocal":
            base = self.fresh(rows, columns, f"{{name}} = nl.add(nl.square({a.name}), 1.0)",
                              f"np.square({a.name}) + 1.0", kind)
            return self.fresh(rows, columns, f"{{name}} = nisa.reciprocal(data={base.name})",
                              f"1 / {base.name}", kind)
        start = r.randrange(columns)
        end = r.randint(start + 1, columns)
        return self.fresh(rows, end - start, f"{{name}} = nl.copy({a.name}[:, {start}:{end}])",
                          f"{a.name}[:, {start}:{end}]", "slice")

    def squash(self, tile):
        """tanh(x / 4): keeps values in range after any operation."""
        return self.fresh(tile.rows, tile.columns,
                          f"{{name}} = nisa.activation(op=nl.tanh, data={tile.name}, scale=0.25)",
                          f"np.tanh(0.25 * {tile.name})", "squash")

    def store(self, tile):
        rows, columns = tile.rows, tile.columns
        p, f = self.index(rows, columns)
        kind = self.random.choice(["full", "slices", "reversed", "rows"])
        self.kernel.append(f"y = nl.ndarray(({rows}, {columns}), dtype=nl.float32, "
                           "buffer=nl.shared_hbm)")
        if kind == "full":
            self.kernel.append(f"nl.store(y[{p}, {f}], value={tile.name})")
        elif kind == "slices":
            cut = self.random.randint(0, columns)
            for a, b in ((0, cut), (cut, columns)):
                if a < b:
                    self.kernel.append(
                        f"nl.store(y[0:{rows}, {a}:{b}], value={tile.name}[:, {a}:{b}])")
        elif kind == "reversed":
            self.kernel.append(f"nl.store(y[{p}, {columns - 1} - {f}], value={tile.name})")
        else:
            height = self.random.randint(1, rows)
            trips = -(-rows // height)
            self.kernel.append(
                f"for i in nl.affine_range({trips}):\n"
                f"        nl.store(y[{p}, {f}], value={tile.name}, "
                f"mask=({p} >= {height} * i) & ({p} < {height} * (i + 1)))")
        self.kernel.append("return y")
        self.numpy.append(f"y = {tile.name}" + ("[:, ::-1]" if kind == "reversed" else ""))
        return rows, columns

    def write(self, folder):
        r = self.random
        rows, columns = r.choice([1, 2, 7, 32, 64, 100, 128]), r.choice([1, 3, 8, 33, 64, 130, 257])
        tiles = [self.load(rows, columns) for _ in range(r.randint(1, 3))]
        tile = tiles[-1]
        for _ in range(r.randint(1, 5)):
            tile = self.squash(self.operation(tiles))
            tiles.append(tile)
        out_rows, out_columns = self.store(tile)
        names = ", ".join(name for name, _, _ in self.inputs)
        (folder / "baseline.py").write_text(
            HEADER.format(arguments=names) + "    " + "\n    ".join(self.kernel) + "\n")
        doubles = "".join(f"    {n} = {n}.astype(np.float64)\n" for n, _, _ in self.inputs)
        (folder / "reference.py").write_text(
            f"import numpy as np\n\n\ndef forward({names}):\n{doubles}    "
            + "\n    ".join(self.numpy) + "\n    return y.astype(np.float32)\n")
        inputs = "".join(f"  - {{name: {n}, shape: [{a}, {b}], kernel_shape: [{a}, {b}], "
                         "distribution: normal}\n" for n, a, b in self.inputs)
        (folder / "problem.yaml").write_text(
            f"id: {folder.name}\ntitle: random kernel\nsource: generated\ntolerance: 1e-5\n"
            "shape: {A: 1}\ntest_shape: {A: 1}\n"
            f"inputs:\n{inputs}"
            f"outputs:\n  - {{name: y, shape: [{out_rows}, {out_columns}], "
            f"kernel_shape: [{out_rows}, {out_columns}]}}\n"
            "vector_flops: 0\nmatmul_flops: 0\nminimal_bytes: 0\n")
        return self.features


def main():
    kernels = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    features, failures = set(), []
    with Workspace() as work:
        requests = []
        for number in range(kernels):
            folder = work / f"random_{number}"
            folder.mkdir()
            features |= Writer(f"{seed}/{number}").write(folder)
            requests.append(json.dumps({
                "schema": 1, "id": str(number), "problem": str(folder), "target": "trn1",
                "source": (folder / "baseline.py").read_text(), "rule": "published", "seeds": [0],
                "tiers": ["legality", "timing", "values"]}))
        done = subprocess.run([str(BUILD / "accelopt-eval")], input="\n".join(requests) + "\n",
                              capture_output=True, text=True, timeout=800, check=True)
        replies = [json.loads(line) for line in done.stdout.splitlines()]
        check(len(replies) == kernels, f"{len(replies)} replies to {kernels} requests")
        worst = 0.0
        for reply in replies:
            if reply["outcome"] != "ok":
                failures.append(reply)
            for figure in reply["correctness"]:
                worst = max(worst, figure["rel_l2"] or 0)
        for reply in failures[:5]:
            folder = pathlib.Path(work, f"random_{reply['id']}")
            print((folder / "baseline.py").read_text(), (folder / "reference.py").read_text(),
                  json.dumps({k: reply[k] for k in ("outcome", "reason", "diagnostics",
                                                    "correctness")}, indent=1))
        check(not failures, f"{len(failures)} of {kernels} random kernels disagree with numpy")
    print(f"{kernels} random kernels agree with numpy, worst relative error {worst:.2e}; "
          f"features: {', '.join(sorted(features))}")


main()
