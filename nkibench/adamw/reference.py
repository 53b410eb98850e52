"""First AdamW step: learning rate 0.001, betas 0.9 and 0.999, weight decay 0.01.

At step 1 the bias corrections are the constants 1 / (1 - 0.9) = 10, folded into the step size
0.01 = 10 * 0.001, and 1 / (1 - 0.999) = 1000 on the second moment.
"""
import numpy as np

BETA_1 = np.float32(0.9)
BETA_2 = np.float32(0.999)
DECAY = np.float32(1e-5)
STEP = np.float32(0.01)
EPSILON = np.float32(1e-8)


def forward(theta, g, m, v):
    first = BETA_1 * m + np.float32(0.1) * g
    second = BETA_2 * v + np.float32(0.001) * g * g
    denominator = np.sqrt(np.float32(1000) * second) + EPSILON
    return (theta - DECAY * theta) - STEP * first / denominator
