# expect: resource_limit/recursion line 7
# args: float32[128,512]
import neuronxcc.nki as nki


def again(n):
    return again(n + 1)


@nki.jit
def kernel(x):
    return again(0)
