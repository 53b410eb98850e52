# expect: unsupported/python_feature line 10
# args: float32[128,512]
import neuronxcc.nki as nki
import neuronxcc.nki.isa as nisa
import neuronxcc.nki.language as nl


@nki.jit
def kernel(x):
    try:
        return x
    except Exception:
        return x
