"""SiLU: every element times its own logistic sigmoid."""
import numpy as np


def forward(x):
    return x / (np.float32(1) + np.exp(-x))
