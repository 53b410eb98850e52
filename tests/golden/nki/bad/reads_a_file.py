# expect: rejected/forbidden_api line 10
# args: float32[128,512]
import os

import neuronxcc.nki as nki


@nki.jit
def kernel(x):
    os.remove("x")
    return x
