r"""Pegasos: stochastic subgradient steps with the step size that strong convexity allows.

With lambda = 1 / sum_i c_i the problem is  lambda/2 |w|^2 + sum_i c_i / (sum c) l(m_i).  For t = 1, 2, ...

    w <- (1 - 1/t) w - 1/(lambda t k) sum over a batch of k samples of  n c_i / (sum c) l'(m_i) y_i x_i
    w <- w min(1, 1 / (sqrt(lambda) |w|))                                      the optimum lies in this ball

and the model is the average of all w_t with weights t. One step of the solver is one pass, n / k such updates over
samples drawn without replacement, O(nnz). A free intercept takes subgradient steps of size 1 / sqrt(t), having no
strong convexity; the judge then replaces it by the best one for w.

Shalev-Shwartz, Singer, Srebro (2007), Fig. 1 and 2; seed 001's Algorithm 2 with its division by |M| corrected to k;
the weights t: Lacoste-Julien, Schmidt, Bach (2012).
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..losses import Array
from ..problem import LinearProblem
from ..solve import Solver, Start


@dataclass
class State:
    f: Array
    b: float
    v: Array  # w = scale v
    u: Array  # what the average of the w_t lacks of v, see cpu_kernels.pegasos_pass
    scalars: Array  # (7,) t, scale, |v|^2, sum of t scale, the intercept and its u, sum of t
    order: np.ndarray
    share: Array  # n c_i / sum c
    seed: np.ndarray
    alpha: None = None
    passes: float = 0.0


@dataclass(frozen=True)
class Pegasos(Solver):
    """One pass of mini-batch subgradient steps."""

    name: ClassVar[str] = "pegasos"
    needs: ClassVar[frozenset[str]] = frozenset({"lipschitz", "linear", "rows"})
    batch: int = 1
    project: bool = True
    average: bool = True
    seed: int = 0

    def __post_init__(self):
        if self.batch < 1:
            raise ValueError(f"Pegasos needs batch >= 1, got {self.batch!r}.")

    def init(self, problem: LinearProblem, start: Start | None = None) -> State:
        f = np.zeros(problem.size) if start is None else np.array(start.f, dtype=np.float64)
        b = 0.0 if start is None else start.b
        order = np.flatnonzero(problem.cost > 0)
        total = float(np.sum(problem.cost))
        scalars = np.array([0.0, 1.0, f @ f + 2 * problem.penalty(b), 0.0, b, 0.0, 0.0])
        if start is not None:  # the first step of a fresh run would forget it: go on as after one pass
            scalars[0] = len(order) / self.batch
        return State(
            f=f.copy(),
            b=b,
            v=f,
            u=np.zeros(problem.size if self.average else 0),
            scalars=scalars,
            order=order,
            share=problem.cost * (len(order) / total if total > 0 else 0.0),
            seed=np.array([self.seed * 2 + 88172645463325253], dtype=np.uint64),
        )

    def step(self, problem: LinearProblem, state: State) -> None:
        from ..cpu_kernels import FREE, PENALIZED, pegasos_pass

        if not len(state.order):
            return
        pegasos_pass(
            problem.rows,
            problem.y,
            state.share,
            problem.squared_norms,
            max(problem.loss.tilt - 1.0, 0.0),
            1.0 / float(np.sum(problem.cost)),
            min(self.batch, len(state.order)),
            self.project,
            self.average,
            {"none": 0, "free": FREE, "penalized": PENALIZED}[problem.intercept],
            problem.intercept_scaling**2,
            state.order,
            state.v,
            state.u,
            state.scalars,
            state.seed,
        )
        _, scale, _, weight, b, b_past, times = state.scalars
        if self.average:
            state.f = (weight * state.v - state.u) / times
            b = (weight * b - b_past) / times if problem.intercept == "penalized" else b
        else:
            state.f = scale * state.v
            b = scale * b if problem.intercept == "penalized" else b
        state.b = b
        state.passes += 1.0
