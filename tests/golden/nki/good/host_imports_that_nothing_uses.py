# expect: ok
# args: float32[128,512]
import argparse
import os
import time
from dataclasses import dataclass
from typing import Optional

import torch
import torch.nn as nn

import neuronxcc.nki as nki
import neuronxcc.nki.language as nl


def expected(x: torch.Tensor) -> Optional[torch.Tensor]:
    return torch.exp(x)


def measure(function):
    from time import perf_counter
    start = perf_counter()
    function()
    return perf_counter() - start


@nki.jit
def kernel(x):
    y = nl.ndarray(x.shape, dtype=x.dtype, buffer=nl.shared_hbm)
    nl.store(y, nl.exp(nl.load(x)))
    return y


if __name__ == "__main__":
    import sys

    start = time.time()
    print(expected(torch.ones(2)), os.getpid(), time.time() - start, sys.argv)
