r"""The gaps of List, Hush, Scovel, Steinwart (2007), each by its own formula.

`certificate` needs only P - D. This file holds the quantities that paper connects it with, so that its theorems can be
checked and a solver can stop on any of them. For the hinge, a feasible alpha, and W(alpha) = 1/2 |f|^2 - sum alpha_i:

    forward gap      G(alpha) = min_b sum_i alpha_i [m_i - 1]+ + (c_i - alpha_i) [1 - m_i]+      eq. 19 and 21
    backward gap     -lambda . c(u) at the primal point u = (f_alpha, b, xi) that alpha certifies   Corollaries 1 and 3
    sigma gap        sup of  grad W(alpha) . (alpha - mu)  over the feasible mu                  eq. 17
    violating pair   how far the best choice of b leaves the optimality conditions violated      Lemma 8, Remark 1

Theorem 3 and Lemma 7 say that the first three are one number, which is also P(f_alpha, b) - D(alpha). The paper's b is
minus our intercept, and its C is the same for all samples; here each has its own c_i.

The same for any convex quadratic program  max -1/2 <Qu, u> + <w, u>  subject to  A u <= d  (eq. 13): `qp_*`, through
the linear programs that define them. These are references for small problems.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import null_space
from scipy.optimize import linprog

from .losses import Array
from .problem import Problem

ROUNDING = 1e-9  # of a constraint of a quadratic program, relative to its numbers


def dual_slopes(problem: Problem, alpha: Array) -> Array:
    """grad W(alpha)_i = y_i f_alpha(x_i) - 1, a penalised intercept included."""
    scores = problem.scores(problem.function(alpha))
    return problem.margins(scores, problem.intercept_of(alpha)) - 1.0


def certified_intercept(problem: Problem, alpha: Array) -> float:
    """The b of the primal point that alpha certifies: of eq. 19, or what alpha says where b is not free."""
    if problem.intercept == "free":
        return problem.best_intercept(problem.scores(problem.function(alpha)))
    return problem.intercept_of(alpha)


def forward_gap(problem: Problem, alpha: Array) -> float:
    """G(alpha), eq. 19."""
    _require_hinge(problem)
    free = certified_intercept(problem, alpha) if problem.intercept == "free" else 0.0
    above = dual_slopes(problem, alpha) + problem.y * free  # m_i - 1
    return float(np.sum(np.where(above > 0, alpha * above, (alpha - problem.cost) * above)))


def backward_gap(problem: Problem, alpha: Array) -> float:
    """-lambda . c(u) with u = (f_alpha, b, xi), xi_i = [1 - m_i]+, and lambda = (alpha, c - alpha): eq. 10 and 16."""
    _require_hinge(problem)
    f = problem.function(alpha)
    margins = problem.margins(problem.scores(f), certified_intercept(problem, alpha))
    slack = np.maximum(0.0, 1.0 - margins)
    return float(alpha @ (margins - 1.0 + slack) + (problem.cost - alpha) @ slack)


def sigma_gap(problem: Problem, alpha: Array) -> float:
    """sup of grad W(alpha) . (alpha - mu) over 0 <= mu <= c (and sum mu_i y_i = 0): eq. 17, a linear program.

    With a free intercept both classes get the same total s of mu, each spends it where -grad W is largest, and what the
    two gain is concave and piecewise linear in s.
    """
    _require_hinge(problem)
    gain = -dual_slopes(problem, alpha)
    if problem.intercept != "free":
        best = float(problem.cost @ np.maximum(gain, 0.0))
    else:
        positive = _spending(gain[problem.y > 0], problem.cost[problem.y > 0])
        negative = _spending(gain[problem.y < 0], problem.cost[problem.y < 0])
        limit = min(positive[0][-1], negative[0][-1])
        totals = np.concatenate([positive[0], negative[0]])
        totals = totals[totals <= limit]
        best = float(np.max(np.interp(totals, *positive) + np.interp(totals, *negative)))
    return best - float(alpha @ gain)


def _spending(gain: Array, cost: Array) -> tuple[Array, Array]:
    """Breakpoints of the most that a class gains by spending s in all: (s, gain)."""
    order = np.argsort(-gain)
    spent = np.concatenate([[0.0], np.cumsum(cost[order])])
    return spent, np.concatenate([[0.0], np.cumsum(cost[order] * gain[order])])


class ViolatingPair(NamedTuple):
    """The maximal violating pair of a dual point with a free intercept, and what Lemma 8 and Remark 1 make of it."""

    top: int
    bottom: int
    violation: float  # [t - b]+, the epsilon of Lemma 8
    bound: float  # sum_i c_i * violation; C l eps of Lemma 8
    tight_bound: float  # the same over the samples that can be violated for some b between: C d eps of Remark 1


def violating_pair(problem: Problem, alpha: Array) -> ViolatingPair:
    """The pair that violates optimality most (eq. 20), and the suboptimality it bounds.

    Any b between the two values gives a primal point within `bound`, and within `tight_bound`, of the optimum.
    """
    _require_hinge(problem)
    if problem.intercept != "free":
        raise ValueError("a violating pair is defined where the intercept is free.")
    y, cost = problem.y, problem.cost
    value = y * dual_slopes(problem, alpha)
    top = np.where(y < 0, alpha < cost, alpha > 0)
    bottom = np.where(y > 0, alpha < cost, alpha > 0)
    if not (top.any() and bottom.any()):  # one class alone, or no sample with a cost: nothing can be violated
        return ViolatingPair(0, 0, 0.0, 0.0, 0.0)
    i = int(np.argmax(np.where(top, value, -np.inf)))
    j = int(np.argmin(np.where(bottom, value, np.inf)))
    violation = max(0.0, float(value[i] - value[j]))
    counted = (top & (value > value[j])) | (bottom & (value < value[i]))
    return ViolatingPair(i, j, violation, float(np.sum(cost)) * violation, float(np.sum(cost[counted])) * violation)


def _require_hinge(problem: Problem) -> None:
    if problem.loss.name != "hinge":
        raise ValueError(f"this gap is defined for the hinge, not for {problem.loss.name}.")


# --- any convex quadratic program ---------------------------------------------------------------------------------


class QuadraticProgram(NamedTuple):
    """sup over u of  -1/2 <Qu, u> + <w, u>  subject to  A u <= d  (eq. 13)."""

    Q: Array  # (p, p) symmetric, positive semidefinite
    w: Array  # (p,)
    A: Array  # (m, p)
    d: Array  # (m,)

    def value(self, u: Array) -> float:
        return float(self.w @ u - 0.5 * u @ self.Q @ u)

    def maximiser(self, lam: Array) -> Array:
        """The u of least norm in U_lambda = Q^-1 (w - A' lambda) + ker Q (eq. 14)."""
        return np.linalg.pinv(self.Q, hermitian=True) @ (self.w - self.A.T @ lam)

    def dual_value(self, lam: Array) -> float:
        """psi(lambda) for w - A' lambda orthogonal to ker Q."""
        u = self.maximiser(lam)
        return 0.5 * float(u @ self.Q @ u) + float(lam @ self.d)

    def dual_gradient(self, lam: Array) -> Array:
        """grad psi(lambda), eq. 15."""
        return self.d - self.A @ self.maximiser(lam)

    def in_domain(self, lam: Array) -> bool:
        """Is psi(lambda) finite, that is w - A' lambda orthogonal to ker Q, up to rounding?"""
        residual = null_space(self.Q).T @ (self.w - self.A.T @ lam)
        size = np.linalg.norm(self.w) + np.linalg.norm(self.A) * np.linalg.norm(lam)
        return bool(np.all(np.abs(residual) <= ROUNDING * (1.0 + size)))


def qp_forward_gap(program: QuadraticProgram, lam: Array) -> float:
    """inf of lambda . mu over the subgradients mu >= 0 of psi (eq. 11): mu = grad psi - A z, z in ker Q."""
    gradient, kernel = program.dual_gradient(lam), null_space(program.Q)
    if not program.in_domain(lam):
        return np.inf
    if kernel.shape[1] == 0:
        return float(lam @ gradient) if _not_negative(gradient, program) else np.inf
    moves = program.A @ kernel
    answer = linprog(-(lam @ moves), A_ub=moves, b_ub=gradient, bounds=(None, None))
    return float(lam @ gradient + answer.fun) if answer.status == 0 else np.inf


def qp_backward_gap(program: QuadraticProgram, lam: Array) -> tuple[float, Array]:
    """psi(lambda) less the best value of a feasible u in U_lambda (eq. 10), and that u."""
    u, kernel = program.maximiser(lam), null_space(program.Q)
    if not program.in_domain(lam):
        return np.inf, u
    if kernel.shape[1]:
        # phi is linear along ker Q
        answer = linprog(
            -(program.w @ kernel), A_ub=program.A @ kernel, b_ub=program.d - program.A @ u, bounds=(None, None)
        )
        if answer.status != 0:
            return np.inf, u
        u = u + kernel @ answer.x
    elif not _not_negative(program.d - program.A @ u, program):
        return np.inf, u
    return program.dual_value(lam) - program.value(u), u


def qp_sigma_gap(program: QuadraticProgram, lam: Array) -> float:
    """sup of grad psi . (lambda - mu) over mu >= 0 with w - A' mu orthogonal to ker Q (eq. 17)."""
    gradient, kernel = program.dual_gradient(lam), null_space(program.Q)
    if not program.in_domain(lam):
        return np.inf
    equal = {"A_eq": kernel.T @ program.A.T, "b_eq": kernel.T @ program.w} if kernel.shape[1] else {}
    answer = linprog(gradient, **equal, bounds=(0, None))
    return float(gradient @ lam - answer.fun) if answer.status == 0 else np.inf


def _not_negative(slack: Array, program: QuadraticProgram) -> bool:
    return bool(
        np.all(slack >= -ROUNDING * (1.0 + np.abs(program.d).max(initial=0.0) + np.abs(slack).max(initial=0.0)))
    )


def svm_program(problem: Problem, gram: Array) -> QuadraticProgram:
    """The hinge SVM with a free intercept as eq. 13, in the variables (beta, b, xi) with f = sum beta_j k(x_j, .).

    gram is K; |f|^2 = beta' K beta. Section 3.2 of the paper, for a finite sample.
    """
    _require_hinge(problem)
    if problem.intercept != "free":
        raise ValueError("this program is that of a free intercept.")
    n = problem.n
    Q = np.zeros((2 * n + 1, 2 * n + 1))
    Q[:n, :n] = gram
    w = np.concatenate([np.zeros(n + 1), -problem.cost])
    margins = np.hstack([-problem.y[:, None] * gram, -problem.y[:, None], -np.eye(n)])
    signs = np.hstack([np.zeros((n, n + 1)), -np.eye(n)])
    return QuadraticProgram(Q, w, np.vstack([margins, signs]), np.concatenate([-np.ones(n), np.zeros(n)]))
