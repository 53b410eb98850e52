# expect: rejected/control_flow_condition_depending_on_arange line 16
# args: float32[1,4096]
import neuronxcc.nki as nki
import neuronxcc.nki.compiler as ncc
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl
import neuronxcc.nki.typing as nt
import numpy as np


@nki.jit
def kernel(x):
    y = nl.ndarray((1, 2048), dtype=x.dtype, buffer=nl.shared_hbm)
    for j0 in nl.affine_range(4):
        j = j0 * 512 + nl.arange(512)[None, :]
        if j < 2048:
            nl.store(y[nl.arange(1)[:, None], j], nl.load(x[nl.arange(1)[:, None], j]))
    return y
