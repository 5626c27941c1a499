r"""Newton's method for the Huber loss as Chapelle (2007) has it, sections 4.2 and 5.3, equation 4.6.

    beta of the samples in the linear part    y / (2 lambda)
    in the quadratic part, S                  (K_SS + 4 h lambda I)^-1 ((1 + h) y_S - K_S,linear beta_linear)
    of all others                             0

a step towards that point, to the minimum along the line, until the relative gap is small. From beta = 0, without an
intercept, the matrix factorised anew in each step: this is what the paper's figures are about. Our own `Newton` smooths
narrow losses more at first, keeps factors, and begins with few samples.
"""

import time
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve

from ..losses import Huber
from ..piecewise import minimize_along
from .usps_kernel import make_problem


class Trained(NamedTuple):
    beta: np.ndarray
    steps: int
    seconds: float  # of the processor
    quadratic: int  # samples in that part of the loss: nsv
    linear: int  # the support vectors at the bound


def huber_newton(K: np.ndarray, y: np.ndarray, lam: float, h: float, tol: float = 1e-6, most: int = 500) -> Trained:
    loss, cost, n = Huber(h), np.full(len(y), 1 / (2 * lam)), len(y)
    problem = make_problem(K, y, lam, loss, "none")
    beta = scores = np.zeros(n)
    begin = time.process_time()
    for steps in range(most + 1):
        margins = y * scores
        S, bound = np.abs(1 - margins) <= h, margins < 1 - h
        alpha = -cost * loss.slope(margins)
        off = beta - y * alpha  # the gradient, divided by K; P - D(alpha) is half its square
        gap = 0.5 * float(off @ (scores - K @ (y * alpha)))
        if gap <= tol * problem.primal(beta, 0.0, scores) or steps == most:
            break
        target = np.where(bound, y / (2 * lam), 0.0)
        if S.any():
            matrix = K[np.ix_(S, S)] + 4 * h * lam * np.eye(int(S.sum()))
            target[S] = solve(matrix, (1 + h) * y[S] - K[S] @ target, assume_a="pos")
        d = target - beta
        change = K @ d
        linear, quadratic = float(beta @ change), float(d @ change)
        t = minimize_along(loss, cost, margins, y * change, linear=linear, quadratic=quadratic)
        beta, scores = beta + t * d, scores + t * change
    return Trained(beta, steps, time.process_time() - begin, int(S.sum()), int(bound.sum()))
