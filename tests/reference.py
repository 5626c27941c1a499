r"""The exact optimum of tiny SVM problems, in rational arithmetic: the referee of the certificates.

Every float64 is a rational number, so on tiny data (n <= 12, d <= 6) the problem

    P(w, b)  = 1/2 |w|^2 + [penalized: b^2 / (2 s^2)] + sum_i c_i l(m_i)        m_i = y_i (x_i.w + b)
    D(alpha) = sum_i c_i r(alpha_i / c_i) - 1/2 |sum_i alpha_i y_i x_i|^2 - [penalized: s^2/2 (sum_i alpha_i y_i)^2]
               0 <= alpha_i <= u c_i,   and   sum_i alpha_i y_i = 0   when the intercept is free

    loss            l(m)                                                                r(a)              u
    hinge           max(0, 1 - m)                                                       a                 1
    squared_hinge   max(0, 1 - m)^2                                                     a - a^2/4         infinity
    huber           0 if m > 1+h; (1+h-m)^2/(4h) if |1-m| <= h; 1-m below               a + h a (1 - a)   1

can be solved without any rounding. `optimum` returns explicit points and D(alpha) <= min P <= P(w, b), evaluated there
exactly; the two are equal (`exact`) whenever the active-set method has finished, which in exact arithmetic it does.

To refute a certificate that claims P(w, b) - min P <= bound, show that

    primal_value(..., w, b) - optimum(...).value_high > bound

This file shares no code with primalsvm, on purpose: a formula that is wrong there must not be wrong here too.
P and D are computed from the definitions above, not from the quadratic program that the solver works on, so that the
enclosure stays true even where the solver has a fault.

Numbers inside are python-flint's fmpq (exact, some ten times faster than Fraction); numbers handed out are Fraction.
"""

from dataclasses import dataclass
from fractions import Fraction

from flint import fmpq, fmpq_mat

LOSSES = ("hinge", "squared_hinge", "huber")
INTERCEPTS = ("none", "penalized", "free")


@dataclass(frozen=True)
class Optimum:
    """value_low = D(alpha) <= min P <= P(w, b) = value_high, all exact."""

    value_low: Fraction
    value_high: Fraction
    w: list | None  # (d,)  None for a kernel: then f = sum_j beta_j k(x_j, .)
    beta: list  # (n,)  alpha_i y_i
    b: Fraction
    alpha: list  # (n,)
    pivots: int  # faces of the dual polytope that the active-set method visited

    @property
    def exact(self):
        return self.value_low == self.value_high


def primal_value(X, y, cost, loss, intercept, w, b, *, h=None, intercept_scaling=1.0):
    """P(w, b) of a linear model, exactly."""
    task = _read_task(y, cost, loss, intercept, h, intercept_scaling)
    return _fraction(_linear_primal(task, _rational_rows(X), _rationals(w), _rational(b)))


def kernel_primal_value(K, y, cost, loss, intercept, beta, b, *, h=None, intercept_scaling=1.0):
    """P(f, b) of f = sum_j beta_j k(x_j, .), exactly: |f|^2 = beta.K.beta and f(x_i) = (K beta)_i."""
    task = _read_task(y, cost, loss, intercept, h, intercept_scaling)
    return _fraction(_kernel_primal(task, _rational_rows(K), _rationals(beta), _rational(b)))


def dual_value(X, y, cost, loss, intercept, alpha, *, K=None, h=None, intercept_scaling=1.0):
    """D(alpha), exactly. An alpha that is not exactly feasible bounds nothing: ValueError."""
    task = _read_task(y, cost, loss, intercept, h, intercept_scaling)
    gram = _gram(X, K, len(task.y))
    return _fraction(_dual(task, gram, _rationals(alpha)))


def optimum(X, y, cost, loss, intercept, *, K=None, h=None, intercept_scaling=1.0, max_pivots=10_000):
    """Enclose min P between exact values at explicit points. Pass X, or X=None and a kernel matrix K.

    K is taken at its word. A float64 kernel matrix of low rank is rarely positive semidefinite to the last bit; P then
    is not convex, weak duality fails, and this raises ValueError. `is_positive_semidefinite` tells beforehand.
    """
    task = _read_task(y, cost, loss, intercept, h, intercept_scaling)
    gram = _gram(X, K, len(task.y))
    if K is not None and not is_positive_semidefinite(K):
        raise ValueError("K is not positive semidefinite in exact arithmetic: P is not convex")

    alpha, b, pivots = _solve_dual(task, gram, max_pivots)
    beta = [a * label for a, label in zip(alpha, task.y, strict=True)]
    if K is None:
        rows = _rational_rows(X)
        w = [_dot(beta, column) for column in zip(*rows, strict=True)]
        high = _linear_primal(task, rows, w, b)
    else:
        w = None
        high = _kernel_primal(task, gram.tolist(), beta, b)
    return Optimum(
        value_low=_fraction(_dual(task, gram, alpha)),
        value_high=_fraction(high),
        w=None if w is None else [_fraction(v) for v in w],
        beta=[_fraction(v) for v in beta],
        b=_fraction(b),
        alpha=[_fraction(v) for v in alpha],
        pivots=pivots,
    )


def is_positive_semidefinite(K):
    """Symmetric elimination: K >= 0 iff no pivot is negative and every zero pivot has a zero row."""
    rows = _rational_rows(K)
    _require_symmetric(rows)
    while rows:
        pivot, first = rows[0][0], rows[0][1:]
        if pivot < 0 or (pivot == 0 and any(first)):
            return False
        factor = [v / pivot for v in first] if pivot > 0 else first
        rows = [
            [v - f * top for v, top in zip(row[1:], first, strict=True)]
            for f, row in zip(factor, rows[1:], strict=True)
        ]
    return True


# ---------------------------------------------------------------------------------------------- reading the problem


@dataclass(frozen=True)
class _Task:
    """What a problem is apart from X or K; every number an fmpq."""

    y: list  # (n,)  -1 or +1
    cost: list  # (n,)
    loss: str
    intercept: str
    h: fmpq | None
    scaling: fmpq


def _read_task(y, cost, loss, intercept, h, intercept_scaling):
    if loss not in LOSSES:
        raise ValueError(f"loss is one of {LOSSES}, not {loss!r}")
    if intercept not in INTERCEPTS:
        raise ValueError(f"intercept is one of {INTERCEPTS}, not {intercept!r}")
    if (loss == "huber") != (h is not None):
        raise ValueError("h belongs to the huber loss, which needs it, and to no other")
    h = None if h is None else _rational(h)
    task = _Task(_rationals(y), _rationals(cost), loss, intercept, h, _rational(intercept_scaling))
    if h is not None and not h > 0:
        raise ValueError("h must be positive")
    if not task.scaling > 0:
        raise ValueError("intercept_scaling must be positive")
    if len(task.y) != len(task.cost):
        raise ValueError(f"{len(task.y)} labels but {len(task.cost)} costs")
    if any(label * label != 1 for label in task.y):
        raise ValueError("labels are -1 or +1")
    if any(c < 0 for c in task.cost):
        raise ValueError("costs are not negative")
    return task


def _gram(X, K, n):
    """The matrix of inner products of the samples: K, or X X^T without rounding."""
    if (X is None) == (K is None):
        raise ValueError("pass X or K, and only one of them")
    rows = _rational_rows(X if K is None else K)
    if len(rows) != n:
        raise ValueError(f"{len(rows)} rows but {n} labels")
    if K is None:
        features = _matrix(rows)
        return features * features.transpose()
    _require_symmetric(rows)
    return _matrix(rows)


def _require_symmetric(rows):
    if any(len(row) != len(rows) for row in rows):
        raise ValueError("K is not square")
    if any(rows[i][j] != rows[j][i] for i in range(len(rows)) for j in range(i)):
        raise ValueError("K is not symmetric in exact arithmetic")


def _rational(value):
    if isinstance(value, fmpq):
        return value
    if hasattr(value, "item"):  # a NumPy number
        value = value.item()
    return fmpq(*value.as_integer_ratio())  # int, float, Fraction; raises for nan and inf


def _rationals(values):
    return [_rational(v) for v in (values.tolist() if hasattr(values, "tolist") else values)]


def _rational_rows(rows):
    return [_rationals(row) for row in (rows.tolist() if hasattr(rows, "tolist") else rows)]


def _fraction(value):
    return Fraction(int(value.p), int(value.q))


def _matrix(rows):
    return fmpq_mat(len(rows), len(rows[0]) if rows else 0, [v for row in rows for v in row])


def _dot(a, b):
    return sum((u * v for u, v in zip(a, b, strict=True)), fmpq(0))


# ---------------------------------------------------------------------------------------------- values, by definition


def _loss_value(task, m):
    """l(m), the table above read literally."""
    if task.loss == "hinge":
        return max(fmpq(0), 1 - m)
    if task.loss == "squared_hinge":
        return max(fmpq(0), 1 - m) ** 2
    if m > 1 + task.h:
        return fmpq(0)
    if abs(1 - m) <= task.h:
        return (1 + task.h - m) ** 2 / (4 * task.h)
    return 1 - m


def _loss_dual(task, a):
    """r(a), the table above read literally."""
    if task.loss == "hinge":
        return a
    if task.loss == "squared_hinge":
        return a - a * a / 4
    return a + task.h * a * (1 - a)


def _primal(task, norm2, scores, b):
    """norm2 = |f|^2, scores_i = f(x_i)."""
    if task.intercept == "none" and b != 0:
        raise ValueError("b must be 0 when the problem has no intercept")
    value = norm2 / 2
    if task.intercept == "penalized":
        value += b * b / (2 * task.scaling**2)
    for label, c, score in zip(task.y, task.cost, scores, strict=True):
        value += c * _loss_value(task, label * (score + b))
    return value


def _linear_primal(task, rows, w, b):
    return _primal(task, _dot(w, w), [_dot(row, w) for row in rows], b)


def _kernel_primal(task, rows, beta, b):
    _require_symmetric(rows)
    scores = [_dot(row, beta) for row in rows]
    return _primal(task, _dot(beta, scores), scores, b)


def _dual(task, gram, alpha):
    _require_feasible(task, alpha)
    beta = [a * label for a, label in zip(alpha, task.y, strict=True)]
    value = -_dot(beta, [_dot(row, beta) for row in gram.tolist()]) / 2
    if task.intercept == "penalized":
        value -= (task.scaling * sum(beta, fmpq(0))) ** 2 / 2
    for a, c in zip(alpha, task.cost, strict=True):
        if c > 0:
            value += c * _loss_dual(task, a / c)
    return value


def _require_feasible(task, alpha):
    for a, c in zip(alpha, task.cost, strict=True):
        # with c = 0 only alpha = 0 is left, also where u is infinite: c r(alpha/c) -> -infinity
        if a < 0 or (a > c and (task.loss != "squared_hinge" or c == 0)):
            raise ValueError("alpha is outside its box 0 <= alpha_i <= u c_i")
    if task.intercept == "free" and _dot(alpha, task.y) != 0:
        raise ValueError("sum_i alpha_i y_i is not 0, as a free intercept demands")


# ---------------------------------------------------------------------------------------------- the dual, solved


@dataclass(frozen=True)
class _BoxProgram:
    """min 1/2 alpha.Q.alpha - p sum_i alpha_i,  0 <= alpha_i <= upper_i,  and y.alpha = 0 if `balanced`; Q >= 0.

    -D in this form:  Q_ij = y_i y_j (G_ij + [penalized: s^2]) + [i = j] q_i
        hinge          q_i = 0           p = 1
        squared hinge  q_i = 1 / (2 c_i) p = 1
        huber          q_i = 2 h / c_i   p = 1 + h
    """

    Q: list  # (n, n)
    p: fmpq
    upper: list  # (n,)  None: no bound
    y: list  # (n,)
    balanced: bool


def _solve_dual(task, gram, max_pivots):
    """Optimal alpha and b, and the number of pivots. Samples of zero cost are left out: their alpha is 0."""
    kept = [i for i, c in enumerate(task.cost) if c > 0]
    program = _box_program(task, gram.tolist(), kept)
    reduced, pivots = _minimise(program, max_pivots)
    alpha = [fmpq(0)] * len(task.cost)
    for i, a in zip(kept, reduced, strict=True):
        alpha[i] = a
    if task.intercept == "none":
        return alpha, fmpq(0), pivots
    if task.intercept == "penalized":
        return alpha, task.scaling**2 * _dot(alpha, task.y), pivots
    return alpha, _intercept(program, reduced), pivots


def _box_program(task, gram, kept):
    added = task.scaling**2 if task.intercept == "penalized" else fmpq(0)
    Q = [[task.y[i] * task.y[j] * (gram[i][j] + added) for j in kept] for i in kept]
    for k, i in enumerate(kept):
        if task.loss == "squared_hinge":
            Q[k][k] += 1 / (2 * task.cost[i])
        if task.loss == "huber":
            Q[k][k] += 2 * task.h / task.cost[i]
    return _BoxProgram(
        Q=Q,
        p=1 + task.h if task.loss == "huber" else fmpq(1),
        upper=[None if task.loss == "squared_hinge" else task.cost[i] for i in kept],
        y=[task.y[i] for i in kept],
        balanced=task.intercept == "free",
    )


def _minimise(program, max_pivots):
    """Primal active set from alpha = 0, exact, hence finite without any anti-cycling rule.

    The face of alpha is the set of its components strictly inside their bounds. Go towards the minimum over the face
    until a component meets its bound; at the minimum over the face, let in the component that violates optimality most.
    Every component of the face can move, and the one let in moves inwards, so that no step from a face minimum has
    length zero: the objective falls strictly from one minimum to the next, faces are finitely many, none comes twice.
    """
    alpha = [fmpq(0)] * len(program.y)
    face = []
    for pivot in range(max_pivots):
        at_minimum = not face
        if face:
            at_minimum = _move_on_face(program, alpha, face)
            face = _inside(program, alpha)
        if at_minimum:
            entering = _violators(program, alpha, face)
            if not entering:
                return alpha, pivot
            face = sorted(face + entering)
    return alpha, max_pivots


def _inside(program, alpha):
    return [i for i, (a, u) in enumerate(zip(alpha, program.upper, strict=True)) if a > 0 and (u is None or a < u)]


def _move_on_face(program, alpha, face):
    """Move alpha in place, to the minimum over the face or to the first bound on the way; True if at the minimum."""
    system, right = _face_equations(program, alpha, face)
    try:
        target = system.solve(right)
    except ZeroDivisionError:  # singular
        direction = _flat_descent(program, alpha, face, system)
        longest = None
    else:
        direction = [target[k, 0] - alpha[i] for k, i in enumerate(face)]
        longest = fmpq(1)
    step = _step_to_bound(program, alpha, face, direction, longest)
    for i, move in zip(face, direction, strict=True):
        alpha[i] += step * move
    return longest is not None and step == longest


def _face_equations(program, alpha, face):
    """Q_FF alpha_F + b y_F = p - Q_FR alpha_R  and  y_F.alpha_F = -y_R.alpha_R,  R the rest; no b unless balanced."""
    rest = [i for i in range(len(alpha)) if i not in face and alpha[i] != 0]
    rows = [[program.Q[i][j] for j in face] for i in face]
    right = [program.p - sum((program.Q[i][j] * alpha[j] for j in rest), fmpq(0)) for i in face]
    if program.balanced:
        labels = [program.y[i] for i in face]
        rows = [[*row, label] for row, label in zip(rows, labels, strict=True)]
        rows.append([*labels, fmpq(0)])
        right.append(-sum((program.y[j] * alpha[j] for j in rest), fmpq(0)))
    return _matrix(rows), fmpq_mat(len(right), 1, right)


def _flat_descent(program, alpha, face, system):
    """A direction z != 0 with Q_FF z = 0 and y_F.z = 0 along which the objective does not rise.

    It is a null vector of the face equations, whose b-part is zero: z.Q z + b y.z = 0 gives Q z = 0, hence b y_F = 0.
    Only the hinge has such directions (the other losses add a diagonal to Q), and its box is bounded: following z
    always takes a component out of the face, so that a face minimum, once reached, is the only one on its face.
    """
    reduced, rank = system.rref()
    pivots = [next(j for j in range(system.ncols()) if reduced[r, j] != 0) for r in range(rank)]
    free = next(j for j in range(system.ncols()) if j not in pivots)
    null = [fmpq(0)] * system.ncols()
    null[free] = fmpq(1)
    for r, j in enumerate(pivots):
        null[j] = -reduced[r, free]
    direction = null[: len(face)]
    slope = _dot(direction, [_gradient(program, alpha, i) for i in face])
    return [-v for v in direction] if slope > 0 else direction


def _step_to_bound(program, alpha, face, direction, longest):
    steps = [] if longest is None else [longest]
    for i, move in zip(face, direction, strict=True):
        if move < 0:
            steps.append(-alpha[i] / move)
        elif move > 0 and program.upper[i] is not None:
            steps.append((program.upper[i] - alpha[i]) / move)
    return min(steps)


def _gradient(program, alpha, i):
    return _dot(program.Q[i], alpha) - program.p


def _violators(program, alpha, face):
    """What to let into a face at whose minimum alpha is: nothing (alpha is optimal), one component, or a pair.

    With v_i = -y_i (gradient)_i, a balanced alpha is optimal iff some b has v_i <= b where y_i alpha_i may grow and
    v_i >= b where it may fall (Keerthi et al. 2001); v_i = b on the face. On an empty face b is open, and only a pair
    can keep the balance.
    """
    if not program.balanced:
        gain = {i: _slope_inwards(program, alpha, i) for i in range(len(alpha)) if i not in face}
        worst = max(gain, key=gain.get, default=None)
        return [] if worst is None or gain[worst] <= 0 else [worst]
    v, grows, falls = _balance(program, alpha)
    if not grows or not falls:
        return []
    top, bottom = max(grows, key=v.__getitem__), min(falls, key=v.__getitem__)
    if v[top] <= v[bottom]:
        return []
    if not face:
        return [top, bottom]
    b = v[face[0]]
    return [top if v[top] - b >= b - v[bottom] else bottom]


def _slope_inwards(program, alpha, i):
    """How fast the objective falls when alpha_i leaves its bound."""
    slope = _gradient(program, alpha, i)
    return -slope if alpha[i] == 0 else slope


def _balance(program, alpha):
    """v as in `_violators`, and the samples whose y_i alpha_i may grow, and may fall."""
    v = [-label * _gradient(program, alpha, i) for i, label in enumerate(program.y)]
    grows, falls = [], []
    for i, label in enumerate(program.y):
        if program.upper[i] is None or alpha[i] < program.upper[i]:
            (grows if label > 0 else falls).append(i)
        if alpha[i] > 0:
            (falls if label > 0 else grows).append(i)
    return v, grows, falls


def _intercept(program, alpha):
    """The free b: the middle of its optimal interval, the finite end if there is one class only, 0 without samples."""
    v, grows, falls = _balance(program, alpha)
    ends = [max(v[i] for i in grows)] if grows else []
    ends += [min(v[i] for i in falls)] if falls else []
    return sum(ends, fmpq(0)) / len(ends) if ends else fmpq(0)
