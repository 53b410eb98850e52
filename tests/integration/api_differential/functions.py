"""The functions of the documentation in float64, where they may be asked, and how far a float32
result may be off.

The documentation gives no error bounds ("approximated with piece-wise polynomials"); the ones here
are a few units in the last place of float32, plus an absolute part where the result has a zero."""
import dataclasses
import math
from typing import Callable

import numpy as np

ULP = 2.0 ** -23
erf = np.vectorize(math.erf, otypes=[np.float64])
erfc = np.vectorize(math.erfc, otypes=[np.float64])


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def softplus(x):
    return np.logaddexp(0.0, x)


def gelu(x):
    return 0.5 * x * erfc(-x / math.sqrt(2))


def gelu_dx(x):
    return 0.5 * erfc(-x / math.sqrt(2)) + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))


def silu_dx(x):
    return sigmoid(x) * (1 + x * (1 - sigmoid(x)))


@dataclasses.dataclass
class Function:
    apply: Callable
    low: float = -6.0
    high: float = 6.0
    ulps: float = 0.0
    absolute: float = 0.0
    activation: bool = True  # the table "Supported Activation Functions" has it
    numpy: bool = False  # and accepts numpy's function of that name

    def bound(self, value):
        return self.ulps * ULP * np.abs(value) + self.absolute

    def of(self, argument, slack=0.0):
        """(value, bound) of the function at argument +- slack."""
        value = self.apply(argument)
        bound = self.bound(value)
        slack = np.broadcast_to(slack, np.shape(value))
        if np.any(slack > 0):
            around = [self.apply(argument + s * slack) for s in (-1.0, -0.5, 0.5, 1.0)]
            moved = np.max([np.abs(a - value) for a in around], axis=0)
            bound = bound + 1.5 * moved
        return value, bound


UNARY = {
    "exp": Function(np.exp, -20, 20, 4, numpy=True),
    "log": Function(np.log, 2.0 ** -10, 2.0 ** 10, 4, 2e-7, numpy=True),
    "sin": Function(np.sin, -3.14, 3.14, 0, 4e-7, numpy=True),
    "cos": Function(np.cos, -3.14, 3.14, 0, 4e-7, activation=False),
    "tan": Function(np.tan, -1.5, 1.5, 4, activation=False),
    "arctan": Function(np.arctan, -1.57, 1.57, 4, numpy=True),
    "tanh": Function(np.tanh, ulps=4, numpy=True),
    "erf": Function(erf, -4, 4, 4),
    "erf_dx": Function(lambda x: 2 / math.sqrt(math.pi) * np.exp(-x * x), -4, 4, 8),
    "sigmoid": Function(sigmoid, -20, 20, 4),
    "relu": Function(lambda x: np.maximum(x, 0.0)),
    "gelu": Function(gelu, -5, 5, 8),
    "gelu_dx": Function(gelu_dx, -5, 5, 0, 4e-7),
    "gelu_apprx_tanh": Function(gelu_tanh, -3, 5, 32),
    "gelu_apprx_sigmoid": Function(lambda x: x * sigmoid(1.702 * x), -8, 8, 8),
    "silu": Function(lambda x: x * sigmoid(x), -20, 20, 8),
    "silu_dx": Function(silu_dx, -20, 20, 0, 4e-7),
    "mish": Function(lambda x: x * np.tanh(softplus(x)), -20, 20, 8),
    "softplus": Function(softplus, -20, 20, 8),
    "sqrt": Function(np.sqrt, 0.0, 100, 1, numpy=True),
    "rsqrt": Function(lambda x: 1 / np.sqrt(x), 2.0 ** -6, 100, 2),
    "reciprocal": Function(lambda x: 1 / x, 0.125, 20, 1, numpy=True),
    "square": Function(lambda x: np.square(np.asarray(x, np.float32)).astype(np.float64), -60, 60,
                       numpy=True),
    "abs": Function(np.abs, numpy=True),
    "sign": Function(np.sign, numpy=True),
    "copy": Function(lambda x: x, numpy=True),
    "floor": Function(np.floor, -60, 60, activation=False),
    "ceil": Function(np.ceil, -60, 60, activation=False),
    "trunc": Function(np.trunc, -60, 60, activation=False),
    "negative": Function(lambda x: -x, activation=False),
}


def _logical(function):
    return lambda a, b: function(a != 0, b != 0)


@dataclasses.dataclass
class Operator:
    """A binary operator on float32 arrays (the arithmetic of the engines), one rounding."""
    apply: Callable
    low: float = -4.0
    high: float = 4.0
    ulps: float = 0.0
    truth: bool = False  # gives 0 or 1
    alu: bool = True  # the table "Supported Math Operators" has it
    reduces: bool = False

    def of(self, a, b):
        with np.errstate(all="ignore"):
            value = np.asarray(self.apply(np.asarray(a, np.float32), np.asarray(b, np.float32)),
                               np.float64)
        return value, self.ulps * ULP * np.abs(value)


ARITHMETIC = {
    "add": Operator(np.add, reduces=True),
    "subtract": Operator(np.subtract),
    "multiply": Operator(np.multiply, reduces=True),
    "divide": Operator(np.divide, 0.25, 8, ulps=1, alu=False),
    "maximum": Operator(np.maximum, reduces=True),
    "minimum": Operator(np.minimum, reduces=True),
    "power": Operator(lambda a, b: np.power(a.astype(np.float64), b.astype(np.float64)), 0.25, 4, ulps=8),
    "mod": Operator(np.mod, 0.25, 8, alu=False),
    "fmod": Operator(np.fmod, 0.25, 8, alu=False),
}
COMPARISONS = {
    "equal": Operator(np.equal, truth=True),
    "not_equal": Operator(np.not_equal, truth=True),
    "greater": Operator(np.greater, truth=True),
    "greater_equal": Operator(np.greater_equal, truth=True),
    "less": Operator(np.less, truth=True),
    "less_equal": Operator(np.less_equal, truth=True),
}
LOGICAL = {
    "logical_and": Operator(_logical(np.logical_and), truth=True),
    "logical_or": Operator(_logical(np.logical_or), truth=True),
    "logical_xor": Operator(_logical(np.logical_xor), truth=True),
}
BITWISE = {
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "left_shift": np.left_shift,
    "right_shift": np.right_shift,
}
ALU = {name: op for name, op in {**ARITHMETIC, **COMPARISONS, **LOGICAL}.items() if op.alu}
EXACT_ALU = {name: op for name, op in ALU.items() if op.ulps == 0}
