"""First AdamW step: learning rate 0.001, betas 0.9 and 0.999, weight decay 0.01.

At step 1 the bias corrections are the constants 1 / (1 - 0.9) = 10, folded into the step size
0.01 = 10 * 0.001, and 1 / (1 - 0.999) = 1000 on the second moment.
"""
import numpy as np

BETA_1 = 0.9
BETA_2 = 0.999
DECAY = 1e-5
STEP = 0.01
EPSILON = 1e-8


def denominator(g, v, epsilon=EPSILON, gradient=True):
    second = BETA_2 * v
    if gradient:
        second += 0.001 * g * g
    return np.sqrt(1000 * second) + epsilon


def step(theta, first, below, decay=DECAY):
    return (theta - decay * theta) - STEP * first / below


def forward(theta, g, m, v):
    return step(theta, BETA_1 * m + 0.1 * g, denominator(g, v))


def scale(theta, g, m, v):
    first = BETA_1 * np.abs(m) + 0.1 * np.abs(g)
    return (1 + DECAY) * np.abs(theta) + STEP * first / denominator(g, v)


def without_weight_decay(theta, g, m, v):
    return step(theta, BETA_1 * m + 0.1 * g, denominator(g, v), decay=0)


def without_eps(theta, g, m, v):
    return step(theta, BETA_1 * m + 0.1 * g, denominator(g, v, epsilon=0))


def without_gradient_square(theta, g, m, v):
    return step(theta, BETA_1 * m + 0.1 * g, denominator(g, v, gradient=False))


def without_momentum(theta, g, m, v):
    return step(theta, 0.1 * g, denominator(g, v))
