"""Every column of x times its gain, plus a shift."""
import numpy as np


def forward(x, gain, shift):
    """What a kernel must compute: float32 inputs give float32, float64 inputs float64."""
    return x * gain + shift


def scale(x, gain, shift):
    """S of the conditioned rule: the sum of the absolute values of the terms, in float64."""
    return np.abs(x * gain) + abs(shift)


def without_shift(x, gain, shift):
    """forward with one term left out: must fail on a stress set. One function per minor term."""
    return x * gain
