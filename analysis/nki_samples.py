#!/usr/bin/python3
"""Runs kernels of a checkout of aws-neuron/nki-samples (NKI 1 era, commit 1b9dd62) or of the NKI
documentation's examples through `accelopt profile`, and prints one line each: runs, or the finding.

    nki_samples.py ACCELOPT CHECKOUT [--match TEXT] [--keep FOLDER]

ACCELOPT is the program, CHECKOUT the folder. A file of the checkout also holds host code (torch,
argparse, reference functions): what a kernel reaches by name is copied to a file of its own first,
over files of the checkout that it imports. Nothing of the checkout is kept unless --keep says so."""
import argparse
import ast
import builtins
import pathlib
import subprocess
import tempfile

ALLOWED = ("neuronxcc", "numpy", "math", "functools", "operator", "typing", "collections", "__future__")
T = "src/nki_samples/tutorials/"
R = "src/nki_samples/reference/"
C = "contributed/"


def f(*shape):
    return "float32[" + ",".join(map(str, shape)) + "]"


def b(*shape):
    return "bfloat16[" + ",".join(map(str, shape)) + "]"


# (file, kernel, inputs, keyword arguments, grid)
KERNELS = [
    (T + "average_pool2d/average_pool2d_nki_kernels.py", "tensor_avgpool_kernel",
     {"in_tensor": f(8, 16, 16)}, {"pool_size": 2}, ""),
    *[(T + "fused_mamba/mamba_nki_kernels.py", f"mamba_v{v}",
       {"delta": f(1, 256, 512), "u": f(1, 256, 512), "A": f(256, 16), "B": f(1, 16, 512),
        "C": f(1, 16, 512)}, {}, "") for v in (1, 2, 3)],
    (T + "matrix_multiplication/matrix_multiplication_nki_kernels.py", "nki_matmul_basic_",
     {"lhsT": b(128, 64), "rhs": b(128, 512)}, {}, ""),
    *[(T + "matrix_multiplication/matrix_multiplication_nki_kernels.py", name,
       {"lhsT": b(256, 256), "rhs": b(256, 1024)}, {}, "")
      for name in ("nki_matmul_tiled_", "nki_matmul_hoist_load_")],
    (T + "matrix_multiplication/matrix_multiplication_nki_kernels.py",
     "nki_matmul_block_free_dimension_", {"lhsT": b(256, 256), "rhs": b(256, 1024)}, {}, ""),
    (T + "matrix_multiplication/matrix_multiplication_nki_kernels.py",
     "nki_matmul_fully_optimized_", {"lhsT": b(1024, 2048), "rhs": b(1024, 1024)}, {}, ""),
    (T + "rmsnorm/rmsnorm_nki_kernels.py", "nki_rmsnorm_kernel",
     {"a_tensor": f(250, 512), "g_tensor": f(512)}, {}, ""),
    (T + "sd_attention/sd_attention_nki_kernels.py", "fused_self_attn_for_SD_small_head_size",
     {"q_ref": f(512, 64), "k_ref": f(512, 64), "v_ref": f(512, 64)}, {}, ""),
    (T + "softmax/softmax_nki_kernels.py", "nki_softmax_kernel", {"a_tensor": f(256, 512)}, {}, ""),
    (T + "tensor_addition/tensor_addition_nki_kernels.py", "nki_tensor_add_kernel_",
     {"a_input": b(256, 1024), "b_input": b(256, 1024)}, {}, "2,2"),
    (T + "tensor_addition/spmd_tensor_addition_nki_kernels.py", "nki_tensor_add_kernel_",
     {"a_input": b(256, 1024), "b_input": b(256, 1024)}, {}, "2,2"),
    (T + "transpose2d/transpose2d_nki_kernels.py", "tensor_transpose2D_kernel_",
     {"in_tensor": f(2, 12)}, {"shape2D": (3, 4)}, ""),
    *[(T + "layernorm/layernorm_nki_kernel.py", f"nki_layernorm_kernel_v{v}",
       {"input_tensor": f(256, 1024), "gamma_vector": f(1024), "beta_vector": f(1024)},
       {"epsilon": 1e-6}, "") for v in (1, 2)],
    *[(T + "attention_fwd_performance/attention_kernels.py", f"attn_fwd_v{v}",
       {"q": f(128, 128), "k": f(128, 128), "v": f(128, 128)} if v in (1, 2) else
       {"q": f(128, 4096), "k": f(128, 4096), "v": f(128, 4096)}, {}, "")
      for v in (1, 2, 3, 4, 5, 6, 7, 8, "8a", 9)],
    (R + "allocated_attention.py", "allocated_fused_self_attn_for_SD_small_head_size",
     {"q_ref": f(1, 128, 1024), "k_ref": f(1, 128, 1024), "v_ref": f(1, 1024, 128)}, {}, "1"),
    (R + "allocated_fused_linear.py", "allocated_fused_rms_norm_qkv",
     {"hidden": b(1, 256, 1024), "weights": b(1024, 512)}, {}, ""),
    (R + "attention.py", "flash_fwd",
     {"q": b(1, 1, 128, 2048), "k": b(1, 1, 128, 2048), "v": b(1, 1, 2048, 128),
      "seed": "int32[1]"}, {}, "1,1"),
    (R + "attention.py", "flash_attn_bwd",
     {n: b(1, 1, 128, 2048) for n in ("q_ref", "k_ref", "v_ref", "o_ref", "dy_ref")}
     | {"lse_ref": f(1, 1, 128, 16), "seed_ref": "int32[1]"}, {}, "1,1"),
    (R + "attention.py", "fused_self_attn_for_SD_small_head_size",
     {"q_ref": f(1, 64, 512), "k_ref": f(1, 512, 64), "v_ref": f(1, 512, 64)}, {}, "1"),
    (R + "double_row_matmul.py", "quantized_double_row_matmul",
     {"lhs": b(256, 256), "rhs_quantized": "float8_e4m3[128,1024]", "rhs_scale": f(128, 512)},
     {"TILES_IN_BLOCK_M": 1, "TILES_IN_BLOCK_N": 1, "TILES_IN_BLOCK_K": 2}, ""),
    (R + "tutorial.py", "add_kernel_nx8x128x512",
     {"a_ptr": f(2, 8, 128, 512), "b_ptr": f(2, 8, 128, 512)}, {"n_elements": 1048576}, "2"),
    (R + "vision.py", "select_and_scatter_kernel",
     {"operand_tensor": f(2, 64, 8, 8), "source_tensor": f(2, 64, 4, 4)}, {}, ""),
    (R + "vision.py", "resize_nearest_fixed_dma_kernel", {"data_tensor": f(1, 12, 10, 64)},
     {"out_shape": (1, 23, 19, 64)}, "1"),
    (R + "vision.py", "adaptive_avg_pool2d_kernel", {"in_tensor": f(1, 16, 8, 8)},
     {"output_size": (4, 4)}, ""),
    (C + "interpolate_bilinear_fwd.py", "interpolate_bilinear_2x_fwd",
     {"src_arr": f(1, 32, 20, 20)}, {"chunk_size": 10}, ""),
    (C + "interpolate_trilinear_fwd.py", "interpolate_trilinear_2x_fwd",
     {"src_arr": f(1, 128, 8, 8, 8)}, {"chunk_size": 4}, ""),
    (C + "matmul.py", "matmul", {"A_DRAM": b(1024, 512), "B_DRAM": b(1024, 2048)}, {}, ""),
    (C + "maxpooling.py", "max_pooling_2d_stride_1", {"in_tensor": f(16, 16)}, {"pool_size": 3}, ""),
    (C + "pipelined_attention.py", "flash_fwd",
     {"q": b(1, 128, 8192), "k": b(1, 128, 8192), "v": b(1, 8192, 128)},
     {"softmax_scale": 0.125, "use_causal_mask": False}, "1"),
    # Written for the calling convention before kernels returned their outputs.
    (C + "neuron-team-kernels/cumsum.py", "cumsum", {"x": f(128, 2048), "y": f(128, 2048)},
     {"axis": 1}, ""),
    # Examples of the documentation, with CHECKOUT the folder that holds general/nki.
    *[(f"general/nki/examples/matrix_multiplication/{name}", entry, inputs, {}, grid)
      for name, entry, inputs, grid in [
          ("matrix_multiplication_nki_kernels.py", "nki_matmul_basic_",
           {"lhsT": b(128, 64), "rhs": b(128, 512)}, ""),
          ("matrix_multiplication_nki_kernels.py", "nki_matmul_tiled_",
           {"lhsT": b(256, 256), "rhs": b(256, 1024)}, "")]],
    ("general/nki/examples/transpose2d/transpose2d_nki_kernels.py", "tensor_transpose2D_kernel_",
     {"in_tensor": f(2, 12)}, {"shape2D": (3, 4)}, ""),
    ("general/nki/examples/average_pool2d/average_pool2d_nki_kernels.py", "tensor_avgpool_kernel",
     {"in_tensor": f(8, 16, 16)}, {"pool_size": 2}, ""),
    ("general/nki/examples/rmsnorm/rmsnorm_nki_kernels.py", "nki_rmsnorm_kernel",
     {"a_tensor": f(250, 512), "g_tensor": f(512)}, {}, ""),
    ("general/nki/examples/tensor_addition/spmd_tensor_addition_nki_kernels.py",
     "nki_tensor_add_kernel_", {"a_input": b(256, 1024), "b_input": b(256, 1024)}, {}, "2,2"),
    *[("general/nki/examples/layernorm/layernorm_nki_kernel.py", f"nki_layernorm_kernel_v{v}",
       {"input_tensor": f(256, 1024), "gamma_vector": f(1024), "beta_vector": f(1024)},
       {"epsilon": 1e-6}, "") for v in (1, 2)],
    *[("general/nki/examples/fused_mamba/mamba_nki_kernels.py", f"mamba_v{v}",
       {"delta": f(1, 256, 512), "u": f(1, 256, 512), "A": f(256, 16), "B": f(1, 16, 512),
        "C": f(1, 16, 512)}, {}, "") for v in (1, 2, 3)],
    ("general/nki/examples/sd_attention/sd_attention_nki_kernels.py",
     "fused_self_attn_for_SD_small_head_size",
     {"q_ref": f(512, 64), "k_ref": f(512, 64), "v_ref": f(512, 64)}, {}, ""),
]


def names_in(node):
    """The names that a definition needs from outside."""
    names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    if not isinstance(node, ast.FunctionDef):
        return names
    own = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    own |= {n.arg for n in ast.walk(node) if isinstance(n, ast.arg)}
    return names - own


def module_of(path, root, module, level):
    base = path.parent
    for _ in range(max(0, level - 1)):
        base = base.parent
    for folder in ([base] if level else [base, root / "src"]):
        candidate = folder / (module.replace(".", "/") + ".py")
        if candidate.exists():
            return candidate
    return None


def extract(path, root, entry, have=None):
    """The source of `entry` with everything it reaches: (imports, definitions)."""
    have = {} if have is None else have
    tree = ast.parse(path.read_text())
    defined, imports, local = {}, [], {}
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            defined[node.name] = node
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            for target in getattr(node, "targets", [getattr(node, "target", None)]):
                for name in names_in(target):
                    defined[name] = node
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            module = node.module if isinstance(node, ast.ImportFrom) else node.names[0].name
            if (module or "").split(".")[0] in ALLOWED and not getattr(node, "level", 0):
                imports.append(ast.unparse(node))
            elif isinstance(node, ast.ImportFrom):
                found = module_of(path, root, module or "", node.level)
                for alias in node.names:
                    if found:
                        local[alias.asname or alias.name] = (found, alias.name)
    wanted, order, seen = [entry], [], set()
    while wanted:
        name = wanted.pop()
        if name in seen or hasattr(builtins, name) and name not in defined:
            continue
        seen.add(name)
        if name in local and name not in defined:
            more = extract(local[name][0], root, local[name][1], have)
            imports += more[0]
        elif name in defined and id(defined[name]) not in order:
            order.append(id(defined[name]))
            wanted += names_in(defined[name])
    body = [ast.unparse(node) for node in tree.body if id(node) in order]
    have.setdefault(str(path), [])
    have[str(path)] += [text for text in body if text not in have[str(path)]]
    return imports, have


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("accelopt")
    parser.add_argument("checkout", type=pathlib.Path)
    parser.add_argument("--match", default="")
    parser.add_argument("--keep", type=pathlib.Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = arguments.keep or pathlib.Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        for name, entry, inputs, keywords, grid in KERNELS:
            path = arguments.checkout / name
            if not path.exists() or arguments.match not in f"{name}:{entry}":
                continue
            imports, bodies = extract(path, arguments.checkout, entry)
            text = "\n".join(dict.fromkeys(imports)) + "\n\n" + "\n\n".join(
                part for parts in bodies.values() for part in parts) + "\n"
            kernel = folder / (name.replace("/", "_")[:-3] + "-" + entry + ".py")
            kernel.write_text(text)
            command = [arguments.accelopt, "profile", str(kernel), "--entry", entry]
            function = next(node for node in ast.parse(text).body
                            if isinstance(node, ast.FunctionDef) and node.name == entry)
            for key in [argument.arg for argument in function.args.args]:  # arguments are positional
                if key in inputs:
                    command += ["--input", f"{key}={inputs[key]}"]
                elif key in keywords:
                    command += ["--kwarg", f"{key}={keywords[key]}"]
            if grid:
                command += ["--grid", grid]
            done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
            lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
            found = [line.split(": error[")[1] for line in lines if ": error[" in line]
            first = lines[0].split(": ", 1)[-1].split(" (")[0] if lines else "no answer"
            verdict = "runs" if done.returncode == 0 else f"{first} [{' '.join(found)}"
            print(f"{name}:{entry} | {verdict}", flush=True)


if __name__ == "__main__":
    main()
