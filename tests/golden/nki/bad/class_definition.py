# expect: unsupported/python_feature line 6
# args: float32[128,512]
import neuronxcc.nki as nki


class Tiling:
    size = 128


@nki.jit
def kernel(x):
    return x
